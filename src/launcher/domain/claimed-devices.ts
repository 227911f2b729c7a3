import path from 'node:path';
import { sriovInterfaces, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, listOf, memberAt, shownNames } from '../../base/index.ts';
import { ConvertError, invalid } from './errors.ts';
import { type ClaimRequest, type GivenDevice, isMediatedUuid } from './given-devices.ts';
import { isPciAddress } from './pci.ts';

/** Where drivers of dynamic resource allocation tell a container which devices its claims got (KEP-5304; upstream: pkg/dra). */
export const deviceMetadataDir = '/var/run/kubernetes.io/dra-device-attributes';
/** Files of one request there, one per driver. */
export const deviceMetadataSuffix = '-metadata.json';

/** Of one shape: Kubernetes 1.36 has the first of them, 1.37 both. */
const apiVersions = ['v1alpha1', 'v1beta1'].map((version) => `metadata.resource.k8s.io/${version}`);
const pciAttribute = 'resource.kubernetes.io/pciBusID';
const mediatedAttribute = 'mdevUUID';

/** Of the devices, and of the networks that are devices of the machine. Throws `ConvertError` INVALID_FIELD. */
export function claimRequests(vmi: VirtualMachineInstance): ClaimRequest[] {
  const { devices } = vmi.spec.domain;
  const named = (['hostDevices', 'gpus'] as const).flatMap((list) =>
    // Empty names are none, as for the pod: the device comes of a device plug-in.
    (devices?.[list] ?? [])
      .filter(({ claimName, requestName }) => claimName || requestName)
      .map((device) => ({ ...device, field: `spec.domain.devices.${list}[${device.name}]` })),
  );
  const interfaces = new Set(sriovInterfaces(vmi).map(({ name }) => name));
  const networks = (vmi.spec.networks ?? []).flatMap(({ name, resourceClaim }) =>
    resourceClaim && interfaces.has(name)
      ? [{ claimName: '', ...resourceClaim, field: `spec.networks[${name}].resourceClaim` }]
      : [],
  );
  return [...named, ...networks].flatMap(({ field, claimName, requestName }) => {
    if (claimName === undefined) return [];
    if (!claimName) throw invalid(`${field}.claimName`, 'is missing: name an entry of spec.resourceClaims');
    if (!requestName) throw invalid(`${field}.requestName`, `is missing: name a request of the claim ${claimName}`);
    return [{ field, claimName, requestName }];
  });
}

/** A name of a claim or of a request, as the API server takes them: it becomes a part of a path. */
const pathPart = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;

/** Below `deviceMetadataDir`, the directory of a request. Throws `ConvertError` INVALID_FIELD. */
export function metadataDirOf(
  { spec }: VirtualMachineInstance,
  { field, claimName, requestName }: ClaimRequest,
): string {
  const claim = spec.resourceClaims?.find(({ name }) => name === claimName);
  if (!claim) throw invalid(`${field}.claimName`, `spec.resourceClaims has no ${claimName}: add it there`);
  const parts = claim.resourceClaimName
    ? ['resourceclaims', claim.resourceClaimName, requestName]
    : ['resourceclaimtemplates', claimName, requestName];
  const odd = parts.find((part) => !pathPart.test(part));
  if (odd === undefined) return path.join(...parts);
  throw invalid(field, `${JSON.stringify(odd.slice(0, 64))} is no name of a claim or a request`);
}

/**
 * The device of a request, out of what its driver wrote: JSON objects one after the other, the same in several versions. A device with an
 * `mdevUUID` is a mediated one, and a PCI address with it that of its parent. Throws `ConvertError` BAD_DEVICE.
 */
export function claimedDevice(text: string, request: ClaimRequest): GivenDevice {
  const { field, requestName } = request;
  const bad = (problem: string) => {
    const advice = 'look at the driver that gave it out';
    return new ConvertError('BAD_DEVICE', `${field}: what tells of its device ${problem}: ${advice}`);
  };
  const metadata = metadataIn(text, bad);
  const own = listOf(metadata.requests).filter(
    (each): each is Record<string, unknown> => isRecord(each) && isOf(requestName, each.name),
  );
  if (own.length === 0) throw bad(`says nothing of the request ${requestName}`);
  const [device, ...more] = own.flatMap(({ devices }) => listOf(devices));
  if (!isRecord(device)) throw bad(`has no device for the request ${requestName}`);
  if (more.length > 0) {
    const advice = 'a guest gets one device by each: write a request with count 1 for each device';
    throw invalid(field, `the request ${requestName} got ${more.length + 1} devices: ${advice}`);
  }
  const attribute = (name: string) => memberAt(device.attributes, name, 'string');
  for (const [kind, name, isValid] of [
    ['mdev', mediatedAttribute, isMediatedUuid],
    ['pci', pciAttribute, isPciAddress],
  ] as const) {
    const value = attribute(name);
    if (typeof value !== 'string' || value === '') continue;
    if (isValid(value)) return { kind, addresses: [value] };
    throw bad(`has ${JSON.stringify(value.slice(0, 64))} as ${name}`);
  }
  throw bad(`has neither ${mediatedAttribute} nor ${pciAttribute}`);
}

/** Of a prioritized list it is told which alternative was chosen, as `request/alternative`; its directory has the name of the request alone. */
function isOf(requestName: string, name: unknown): boolean {
  return typeof name === 'string' && name.split('/')[0] === requestName;
}

/** The first object of a version that is known. */
function metadataIn(text: string, bad: (problem: string) => ConvertError): Record<string, unknown> {
  const versions: string[] = [];
  for (const part of jsonObjects(text)) {
    let value: unknown;
    try {
      value = JSON.parse(part);
    } catch {
      throw bad('is no JSON');
    }
    const version = memberAt(value, 'apiVersion');
    if (!isRecord(value) || typeof version !== 'string' || version === '') throw bad('has no apiVersion');
    if (apiVersions.includes(version)) return value;
    versions.push(version);
  }
  if (versions.length === 0) throw bad('is empty');
  const shown = versions.map((version) => version.slice(0, 64));
  throw bad(`is of versions ${shownNames(shown)}, and ${apiVersions.join(', ')} are known`);
}

/** Cuts a text after each object that ends on its outermost level. What is no object is a part as well. */
function* jsonObjects(text: string): Generator<string> {
  let [start, depth, isString] = [0, 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (isString) {
      if (letter === '\\') at += 1;
      isString = letter !== '"';
      continue;
    }
    isString = letter === '"';
    if (letter === '{') depth += 1;
    if (letter !== '}') continue;
    depth -= 1;
    if (depth > 0) continue;
    yield text.slice(start, at + 1);
    [start, depth] = [at + 1, 0];
  }
  if (text.slice(start).trim() !== '') yield text.slice(start);
}
