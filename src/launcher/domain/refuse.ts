import type { VirtualMachineInstance } from '../../api/index.ts';
import { checkAccessCredentials } from './access-credentials.ts';
import { findArchitecture } from './architecture.ts';
import type { ConverterContext } from './context.ts';
import { unsupported } from './errors.ts';
import { refusePoolOfOld } from './io-threads.ts';
import { checkLaunchSecurity } from './launch-security.ts';

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
export function refuseUnsupported(vmi: VirtualMachineInstance, context: ConverterContext): void {
  if (!findArchitecture(context.architecture)) {
    throw unsupported(
      `the node architecture ${context.architecture}`,
      'run the launcher on an amd64, arm64 or s390x node',
    );
  }
  const architecture = vmi.spec.architecture || context.architecture;
  if (architecture !== context.architecture) {
    throw unsupported(`spec.architecture ${architecture}`, `only ${context.architecture} guests run here`);
  }
  checkLaunchSecurity(vmi, context);
  refusePoolOfOld(vmi, context.libvirtVersion);
  refuseTags(vmi);
  checkAccessCredentials(vmi);
}
