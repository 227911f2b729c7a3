import { type KubeObject, resources, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { KubeClient as Client, isKubeError, type KubeClient, loadKubeAccess } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { didYouMean } from './suggest.ts';

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
    if (isKubeError(error, 'NOT_FOUND')) throw await notFound(client, namespace, name);
    throw notAnswering(error);
  }
}

/** Says of an API that does not answer what to do; gives any other error back. */
export function notAnswering(error: unknown): unknown {
  if (!isKubeError(error, 'UNREACHABLE', 'TIMEOUT')) return error;
  const text = 'the node does not answer: start it with `npm run up` or `virt-node start`';
  return new NodeError('NOT_RUNNING', text, { cause: error });
}

/** Of a VM that does not run: whether it exists, is elsewhere, or has another name. */
export async function notFound(client: KubeClient, namespace: string, name: string): Promise<NodeError> {
  const [vms, vmis] = await Promise.all([
    client.list<VirtualMachine>(resources.virtualMachines).catch(() => ({ items: [] })),
    client.list<VirtualMachineInstance>(resources.virtualMachineInstances).catch(() => ({ items: [] })),
  ]);
  return new NodeError('NOT_FOUND', missingText({ namespace, name }, vms.items, vmis.items));
}

/** Pure. */
export function missingText(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  vms: readonly VirtualMachine[],
  vmis: readonly KubeObject[],
): string {
  const all = [...vms, ...vmis].map(({ metadata }) => metadata);
  if (vms.some(({ metadata }) => metadata.name === name && metadata.namespace === namespace)) {
    return `${namespace}/${name} does not run: virt-node explain ${name}${namespaceFlag(namespace)} says why`;
  }
  const elsewhere = all.find((each) => each.name === name)?.namespace;
  if (elsewhere !== undefined)
    return `there is no VM ${name} in namespace ${namespace}, but in ${elsewhere}: -n ${elsewhere}`;
  const here = all.filter((each) => each.namespace === namespace).map((each) => each.name);
  const guess = didYouMean(name, here);
  return `there is no VM ${name} in namespace ${namespace}${guess || '; virt-node list -A shows all'}`;
}

/** As a person adds it to a command; empty of the usual one. */
export function namespaceFlag(namespace: string): string {
  return namespace === 'default' ? '' : ` -n ${namespace}`;
}
