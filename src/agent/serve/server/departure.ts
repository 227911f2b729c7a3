import type { VirtualMachineInstance } from '../../../api/index.ts';

/**
 * The node to which the VMI moves from this one, or has moved. Undefined: it does not. Its guest's end here says nothing by itself:
 * QEMU ends at the source before the API knows that the guest has arrived.
 */
export function departureOf(vmi: VirtualMachineInstance, nodeName: string): string | undefined {
  const { sourceNode, targetNode, startTimestamp, failed } = vmi.status?.migrationState ?? {};
  const isLeaving = sourceNode === nodeName && Boolean(startTimestamp) && failed !== true;
  return isLeaving && targetNode && targetNode !== nodeName ? targetNode : undefined;
}
