import type { VirtualMachineInstance } from '../../api/index.ts';
import { checkAccessCredentials } from './access-credentials.ts';
import { unsupported } from './errors.ts';

type Refusal = readonly [field: string, isUsed: (vmi: VirtualMachineInstance) => unknown, advice: string];

/** Fields that would be lost silently. A refusal is removed together with the code that honours the field. */
const refusals: readonly Refusal[] = [
  [
    'spec.domain.launchSecurity',
    (vmi) => vmi.spec.domain.launchSecurity,
    'remove it, or use a node of upstream KubeVirt',
  ],
];

/** Guests are told of tags by a config drive, and by nothing else. */
function refuseTags({ spec }: VirtualMachineInstance): void {
  if (!spec.volumes?.some(({ cloudInitConfigDrive }) => cloudInitConfigDrive)) return;
  for (const list of ['disks', 'interfaces', 'gpus', 'hostDevices'] as const) {
    const tagged = spec.domain.devices?.[list]?.find(({ tag }) => tag);
    if (!tagged) continue;
    const advice = 'the config drive does not tell the guest of it: remove the tag';
    throw unsupported(`spec.domain.devices.${list}[${tagged.name}].tag`, advice);
  }
}

/** Throws `UNSUPPORTED_FIELD` for the first field that cannot be honoured. */
export function refuseUnsupported(vmi: VirtualMachineInstance): void {
  const architecture = vmi.spec.architecture || 'amd64';
  if (architecture !== 'amd64') {
    throw unsupported(`spec.architecture ${architecture}`, 'only amd64 guests run here');
  }
  for (const [field, isUsed, advice] of refusals) if (isUsed(vmi)) throw unsupported(field, advice);
  refuseTags(vmi);
  checkAccessCredentials(vmi);
}
