import { isFinal, isMigratable, migrationRefusal, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { beginMove } from './moves.ts';

/** As `kubectl cordon` and `kubectl uncordon` do it. */
export async function cordonNode(
  client: KubeClient,
  name: string,
  isCordoned: boolean,
  signal: AbortSignal,
): Promise<void> {
  await client.patch(resources.nodes, { name }, { spec: { unschedulable: isCordoned || null } }, 'merge', { signal });
}

/** Cordons it and moves all of its VMs; those that are on their way are left alone. Gives the number of those that move. */
export async function emptyNode(client: KubeClient, node: string, signal: AbortSignal): Promise<number> {
  await cordonNode(client, node, true, signal);
  const { items } = await client.list<VirtualMachineInstance>(resources.virtualMachineInstances, { signal });
  const here = items.filter((vmi) => vmi.status?.nodeName === node && !isFinal(vmi));
  const refusals: string[] = [];
  let moves = 0;
  for (const vmi of here) {
    const refusal = await tryToMove(client, vmi, signal);
    if (refusal === undefined) moves++;
    else refusals.push(`${vmi.metadata.namespace}/${vmi.metadata.name}: ${refusal}`);
  }
  if (refusals.length === 0) return moves;
  const text = `${node} takes no new VMs now, and ${moves} of ${here.length} move to other nodes; not ${refusals.join('; ')}`;
  throw new NodeError('UNSUPPORTED', text);
}

/** Why it stays. */
async function tryToMove(
  client: KubeClient,
  vmi: VirtualMachineInstance,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { namespace = '', name } = vmi.metadata;
  if (!isMigratable(vmi)) return migrationRefusal(vmi) ?? 'it is not known yet whether it can move';
  try {
    await beginMove(client, { namespace, name }, undefined, signal);
    return undefined;
  } catch (error) {
    if (!isKubeError(error)) throw error;
    return /in-flight migration detected/.test(error.message) ? undefined : error.message;
  }
}
