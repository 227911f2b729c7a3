import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { endSupervisor, findLeftBehind, type LeftBehind, runningSupervisor } from '../supervisor/index.ts';

export interface StopDeps {
  readonly say: (line: string) => void;
  /** Ends what is left of a node that was killed, of `nodes` nodes. */
  readonly stopLeft: (left: { readonly nodes: number }, pods: 'keep' | 'end') => Promise<void>;
}

/**
 * `virt-node stop`: tells the supervisor to end, or does its work where it was killed, or has left virtual machines. Gives a sentence for people. Rejects with
 * NodeError, NOT_RUNNING where there is nothing to end.
 */
export async function stopNode(paths: NodePaths, pods: 'keep' | 'end', { say, stopLeft }: StopDeps): Promise<string> {
  if (await runningSupervisor(paths)) {
    const said = await endSupervisor(paths, pods);
    // One that was started by `up` ends its VMs in any case.
    const isNoneLeft = pods === 'keep' && (await findLeftBehind(paths)).pods === 0;
    return isNoneLeft ? 'the node has ended, and no virtual machine runs on' : said;
  }
  const left = await findLeftBehind(paths);
  const things = wordsOf(left, pods);
  // Says that no node runs.
  if (things.length === 0) return endSupervisor(paths, pods);
  say(`virt-node does not run; ending what it left: ${things.join(', ')}`);
  await stopLeft(left, pods);
  const still = wordsOf(await findLeftBehind(paths), pods);
  if (still.length > 0) throw new NodeError('LEFTOVERS', `still there: ${still.join(', ')} (see ${paths.logDir})`);
  return left.pods > 0 && pods === 'keep' ? 'ended, virtual machines run on' : 'ended';
}

/** Virtual machines that are kept have their network and mounts. */
function wordsOf({ programs, pods, ofMachine }: LeftBehind, wish: 'keep' | 'end'): string[] {
  if (wish === 'keep' && pods > 0) return programs.filter((name) => name !== 'dnsmasq');
  const machines = pods === 0 ? [] : [pods === 1 ? 'the pod of a virtual machine' : `${pods} pods of virtual machines`];
  return [...programs, ...machines, ...ofMachine];
}
