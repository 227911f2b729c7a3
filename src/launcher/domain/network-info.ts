import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { ConvertError } from './errors.ts';

/** Where the controller says which devices of the machine the pod's networks are (upstream: pkg/network/downwardapi). */
export const networkInfoFile = '/etc/podinfo/network-info';

/**
 * PCI addresses by the VMI's network, as the CNI plug-ins told them: `{"interfaces":[{"network":"blue","deviceInfo":{"pci":{"pci-address":"0000:04:02.5"}}}]}`.
 * An empty text has none yet. Throws `ConvertError` BAD_DEVICE.
 */
export function networkPciAddresses(text: string): ReadonlyMap<string, string> {
  if (text.trim() === '') return new Map();
  const interfaces = memberAt(parsed(text), 'interfaces');
  if (!Array.isArray(interfaces)) throw bad('has no list of interfaces');
  const entries = listOf(interfaces).flatMap((each): [string, string][] => {
    if (!isRecord(each) || typeof each.network !== 'string') throw bad('has an interface without a network');
    const address = memberAt(each, 'deviceInfo', 'pci', 'pci-address');
    return typeof address === 'string' && address !== '' ? [[each.network, address]] : [];
  });
  return new Map(entries);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw bad('is no JSON');
  }
}

function bad(problem: string): ConvertError {
  const advice = 'the controller writes it from what the network plug-ins of the pod tell';
  return new ConvertError('BAD_DEVICE', `${networkInfoFile} of the pod ${problem}: ${advice}`);
}
