import { isFinal, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { deadline } from '../../base/index.ts';
import { fieldSelector, Informer, KubeClient, loadKubeAccess } from '../../kube/index.ts';
import type { NodePaths } from '../paths.ts';
import type { VmiName } from './node-of-vmi.ts';

/** Resolves when the VMI has arrived, or does not move at all. Rejects when that is not known in time. */
export type UntilArrived = (vmi: VmiName, signal: AbortSignal) => Promise<void>;

/** The guest has left its source by then: what is left are two writes of agents. */
const arrivalMs = 60_000;

/** By a watch of this one VMI, which is opened when somebody waits, and by nothing else. */
export function arrivalByApi({ kubeconfig }: Pick<NodePaths, 'kubeconfig'>): UntilArrived {
  return async ({ namespace, name }, caller) => {
    const signal = deadline(arrivalMs, caller);
    const client = new KubeClient({ userAgent: 'virt-node' }, { access: await loadKubeAccess({ kubeconfig }) });
    const informer = new Informer<VirtualMachineInstance>(
      {
        type: resources.virtualMachineInstances,
        ...{ namespace, fieldSelector: fieldSelector({ 'metadata.name': name }) },
        backoff: { baseMs: 100, maxMs: 1_000 },
      },
      { client },
    );
    try {
      await informer.start();
      await informer.waitForSync(signal);
      await new Promise<void>((resolve, reject) => {
        const look = () => {
          const vmi = informer.get(`${namespace}/${name}`);
          if (!vmi || !isUnderWay(vmi)) resolve();
        };
        informer.addHandlers({ added: look, updated: look, deleted: look });
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
        look();
      });
    } finally {
      await informer.stop();
      client.close();
    }
  };
}

/** The guest may have left its node, and the API does not say yet that it is elsewhere. */
function isUnderWay(vmi: VirtualMachineInstance): boolean {
  const { startTimestamp, endTimestamp, completed, failed, targetNode } = vmi.status?.migrationState ?? {};
  if (isFinal(vmi) || !startTimestamp || failed === true) return false;
  return vmi.status?.nodeName !== targetNode && !(completed === true && endTimestamp);
}
