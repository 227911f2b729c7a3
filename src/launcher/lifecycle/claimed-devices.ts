import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorCode, errorMessage, shownNames } from '../../base/index.ts';
import { readPlainFile } from '../../host/index.ts';
import {
  type ClaimedDevices,
  type ClaimRequest,
  ConvertError,
  claimedDevice,
  claimKey,
  claimRequests,
  deviceMetadataSuffix,
  metadataDirOf,
} from '../domain/index.ts';

const maxBytes = 2 ** 20;

/**
 * What drivers of dynamic resource allocation told the pod of the devices that the VMI's claims got. Below `directory` there are
 * `resourceclaims/CLAIM/REQUEST` and, of templates, `resourceclaimtemplates/NAME/REQUEST`, the name being that of `spec.resourceClaims`.
 * Throws `ConvertError` MISSING_DEVICE, BAD_DEVICE, INVALID_FIELD.
 */
export async function readClaimedDevices(vmi: VirtualMachineInstance, directory: string): Promise<ClaimedDevices> {
  const devices = new Map<string, ReturnType<typeof claimedDevice>>();
  for (const request of claimRequests(vmi)) {
    const place = path.join(directory, metadataDirOf(vmi, request));
    const [file, ...others] = await metadataFiles(place);
    if (file === undefined) throw notTold(request, place);
    if (others.length > 0) {
      const problem = `drivers ${shownNames([file, ...others])} all tell of the request ${request.requestName}`;
      const advice = 'a guest gets one device by each: write a request of one device class for each';
      throw new ConvertError('BAD_DEVICE', `${request.field}: ${problem}: ${advice}`);
    }
    devices.set(claimKey(request), claimedDevice(await textOf(path.join(place, file), request), request));
  }
  return devices;
}

async function metadataFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  });
  return names.filter((name) => name.endsWith(deviceMetadataSuffix)).sort();
}

function notTold({ field, claimName, requestName }: ClaimRequest, place: string): ConvertError {
  const problem = `the pod was not told which device the request ${requestName} of its claim ${claimName} got (nothing in ${place})`;
  const advice = 'the DRA driver of its device class must write device metadata (KEP-5304): look at its options';
  return new ConvertError('MISSING_DEVICE', `${field}: ${problem}: ${advice}`);
}

async function textOf(file: string, { field }: ClaimRequest): Promise<string> {
  return await readPlainFile(file, maxBytes).catch((cause: unknown) => {
    const problem = `${file} cannot be read: ${errorMessage(cause)}`;
    throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: look at the driver that wrote it`, { cause });
  });
}
