import { resources, type VirtualMachineInstance } from '../../api/index.ts';
import { KubeClient as Client, isKubeError, type KubeClient, loadKubeAccess } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere } from '../files.ts';
import type { NodePaths } from '../paths.ts';

/** Client of the node that runs on this state directory. Throws NodeError NOT_RUNNING when there is none. */
export async function connectToNode(paths: NodePaths): Promise<KubeClient> {
  const kubeconfig = await readIfThere(paths.kubeconfig);
  if (kubeconfig === undefined) {
    throw new NodeError(
      'NOT_RUNNING',
      `${paths.kubeconfig} cannot be read: no node was started on ${paths.stateDir}, or you are not its user (root)`,
    );
  }
  const access = await loadKubeAccess({ kubeconfig: paths.kubeconfig });
  return new Client({ userAgent: 'virt-node-cli', retry: { attempts: 2 }, timeoutMs: 5_000 }, { access });
}

/** The VMI, or an error for people. */
export async function findVmi(client: KubeClient, namespace: string, name: string): Promise<VirtualMachineInstance> {
  try {
    return await client.get<VirtualMachineInstance>(resources.virtualMachineInstances, { namespace, name });
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) {
      throw new NodeError(
        'NOT_FOUND',
        `no VirtualMachineInstance ${name} in namespace ${namespace}; see: kubectl get vmi -A`,
      );
    }
    if (isKubeError(error, 'UNREACHABLE', 'TIMEOUT')) {
      throw new NodeError('NOT_RUNNING', 'the node does not answer: start it with `npm run up` or `virt-node start`', {
        cause: error,
      });
    }
    throw error;
  }
}
