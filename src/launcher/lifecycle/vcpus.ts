import type { VirtualMachineInstance } from '../../api/index.ts';
import type { DomainLock } from './domain-lock.ts';
import { LauncherError } from '../errors.ts';
import type { Hypervisor } from '../ports.ts';

/** SyncVirtualMachineCPUs: as many vCPUs as the VMI says, in the running guest and in its definition (spec 70 §6). */
export function setVcpus(
  vmi: VirtualMachineInstance,
  domainName: string,
  deps: { readonly hypervisor: Pick<Hypervisor, 'lookup' | 'setVcpus'>; readonly lock: DomainLock },
): Promise<void> {
  return deps.lock.run('UpdateVCPUs', async () => {
    const { sockets = 1, cores = 1, threads = 1, dedicatedCpuPlacement } = vmi.spec.domain.cpu ?? {};
    if (dedicatedCpuPlacement) {
      throw new LauncherError(
        'NOT_SUPPORTED',
        'vCPU hot-plug with dedicated CPUs is not supported yet by this launcher',
      );
    }
    const domain = await deps.hypervisor.lookup(domainName);
    if (!domain) throw new LauncherError('DOMAIN_NOT_FOUND', 'Domain not found.');
    await deps.hypervisor.setVcpus(domain, sockets * cores * threads);
  });
}
