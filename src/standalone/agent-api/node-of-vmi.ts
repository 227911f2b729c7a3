import { resources, type VirtualMachineInstance } from '../../api/index.ts';
import { getIfThere, KubeClient, loadKubeAccess } from '../../kube/index.ts';
import type { NodePaths } from '../paths.ts';

/** Says on which node a VMI runs now; undefined: on none. */
export type NodeOfVmi = (vmi: VmiName) => Promise<string | undefined>;

export interface VmiName {
  readonly namespace: string;
  readonly name: string;
}

/** The API's answer, asked each time: a VMI moves between two questions. */
export function nodeFromApi({ kubeconfig }: NodePaths): NodeOfVmi {
  return async (name) => {
    const access = await loadKubeAccess({ kubeconfig });
    const client = new KubeClient({ userAgent: 'virt-node', retry: { attempts: 2 }, timeoutMs: 5_000 }, { access });
    const asking = getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, name);
    const vmi = await asking.finally(() => client.close());
    return vmi?.status?.nodeName || undefined;
  };
}

/** The VMI that a path of the agent's interface is about. */
export function vmiOfPath(path: string): VmiName | undefined {
  const [words = ''] = path.split('?', 1);
  const parts = words.split('/');
  const at = parts.indexOf('virtualmachineinstances');
  const [namespace, name] = [parts[at - 1], parts[at + 1]];
  if (at < 2 || !namespace || !name) return undefined;
  try {
    return { namespace: decodeURIComponent(namespace), name: decodeURIComponent(name) };
  } catch {
    return undefined;
  }
}
