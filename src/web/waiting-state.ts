import type { WaitingReport } from '../api/index.ts';

/** What there is of a VM that is on no node: "VirtualMachine Starting; instance Scheduling; pod virt-launcher-x Pending". */
export function waitingState({ vmStatus, vmiPhase, pod }: WaitingReport): string {
  return [
    ...(vmStatus === undefined ? [] : [`VirtualMachine ${vmStatus}`]),
    vmiPhase === undefined ? 'no instance' : `instance ${vmiPhase}`,
    ...(pod ? [`pod ${pod.name} ${pod.phase}`] : []),
  ].join('; ');
}
