import { type KubeObject, labels, type VirtualMachineInstance } from '../../api/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { stringAt } from '../object.ts';
import { findType } from '../types/index.ts';
import type { GuestPort, GuestReach } from '../vm-subresources.ts';
import type { ApiContext } from './api-context.ts';

/**
 * Where a port of a running VMI is reached: at the address of its launcher's pod, which the node gave. The addresses in the VMI's
 * status may be the guest's own word, and a guest could send its users to any machine. `below`: PORT and perhaps PROTOCOL.
 * Throws ApiError.
 */
export function guestPortOf(context: ApiContext, vmi: VirtualMachineInstance, below: readonly string[]): GuestPort {
  const [portText = '', protocol = 'tcp', ...more] = below;
  const port = /^[1-9]\d{0,4}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65_535)
    throw badRequest(`"${portText}" is no port: ask for portforward/1 to portforward/65535`);
  if ((protocol !== 'tcp' && protocol !== 'udp') || more.length > 0) {
    throw badRequest(`"${[protocol, ...more].join('/')}" is no protocol: ask for tcp or udp`);
  }
  const reach = reachOf(context, vmi);
  if (reach.kind === 'launcher' && protocol === 'udp') {
    const why =
      'with user networking ports of TCP are forwarded, those of UDP are published: list them in interfaces[].ports';
    throw unreachable(vmi.metadata.name, why);
  }
  return { reach, port, protocol };
}

function reachOf(context: ApiContext, { metadata, status }: VirtualMachineInstance): GuestReach {
  const type = findType('', 'v1', 'pods');
  const { name, namespace, uid } = metadata;
  const pods = type
    ? context.reader.list(type, namespace, { labelSelector: `${labels.createdBy}=${uid}` }).entries
    : [];
  // While a guest moves it has two pods; the one on its node has it.
  const pod = pods.find(
    ({ object }) =>
      stringAt(object, 'spec', 'nodeName') === status?.nodeName &&
      stringAt(object, 'status', 'phase') === 'Running' &&
      status?.activePods?.[object.metadata.uid ?? ''] !== undefined,
  );
  const found = pod && podReachOf(pod.object);
  if (found) return found;
  throw unreachable(name, 'its launcher has no address (yet)');
}

/** Without a network of its own a pod has its node's, and a guest there has QEMU's. Undefined: it has none (yet), or no guest. */
export function podReachOf(pod: KubeObject): GuestReach | undefined {
  const address = stringAt(pod, 'status', 'podIP');
  if (!address) return undefined;
  if (address !== stringAt(pod, 'status', 'hostIP')) return { kind: 'address', address };
  const vmiUid = pod.metadata.labels?.[labels.createdBy];
  const isLaunchers = pod.metadata.labels?.[labels.app] === 'virt-launcher';
  const [nodeName, podUid] = [stringAt(pod, 'spec', 'nodeName'), pod.metadata.uid];
  if (!vmiUid || !isLaunchers || !nodeName || !podUid) return undefined;
  return { kind: 'launcher', nodeName, podUid, vmiUid };
}

function unreachable(name: string | undefined, why: string): ApiError {
  return new ApiError('CONFLICT', `the ports of virtualmachineinstance "${name}" cannot be reached: ${why}`);
}
