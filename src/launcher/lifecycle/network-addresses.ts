import { readFile } from 'node:fs/promises';
import { sriovInterfaces, type VirtualMachineInstance } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import { networkPciAddresses } from '../domain/index.ts';

/**
 * PCI address by network, when the VMI has a network that is a device of the machine. The kubelet brings the file up to date a while after the
 * controller has written it; without it there are none. Throws `ConvertError` BAD_DEVICE.
 */
export async function readNetworkAddresses(
  vmi: VirtualMachineInstance,
  file: string,
): Promise<ReadonlyMap<string, string>> {
  if (sriovInterfaces(vmi).length === 0) return new Map();
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return '';
    throw error;
  });
  return networkPciAddresses(text);
}
