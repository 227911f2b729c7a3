import {
  findCondition,
  isBeingDeleted,
  isTriedAgain,
  publishedProgress,
  resources,
  retryCondition,
  retryNameOf,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { plainText, sleep } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { durationText, fileSize } from '../../web/index.ts';
import { NodeError } from '../errors.ts';
import { beginMove, cancelMove } from '../page/index.ts';
import type { NodePaths } from '../paths.ts';
import { connectToNode, findVmi } from './find-vmi.ts';
import type { VmName } from './vm-agent.ts';

export interface MigrateWish extends VmName {
  /** Undefined: the scheduler chooses. */
  readonly to: string | undefined;
  /** Only begin. */
  readonly noWait: boolean;
}

/** Looked at this often: a small guest moves within a second. */
const lookMs = 250;

/**
 * Moves a VM to another node, and reports each step until it is there. Gives a sentence for people. Rejects with NodeError, with the
 * reason when it stays where it is. A signal ends the waiting alone.
 */
export async function migrateVm(
  paths: NodePaths,
  wish: MigrateWish,
  report: (line: string) => void,
  leave: AbortSignal,
): Promise<string> {
  const client = await connectToNode(paths);
  try {
    const { metadata } = await findVmi(client, wish.namespace, wish.name);
    const migration = await begin(client, wish);
    const { name } = migration.metadata;
    if (wish.noWait)
      return `${wish.namespace}/${wish.name} begins to move: kubectl get vmim ${name} -n ${wish.namespace}`;
    return await untilMoved(client, { vm: wish, vmiUid: metadata.uid, migration: name, report }, leave);
  } finally {
    client.close();
  }
}

/** Ends what moves the VM; it stays where it is. Gives a sentence for people. */
export async function cancelMigration(paths: NodePaths, { namespace, name }: VmName): Promise<string> {
  const client = await connectToNode(paths);
  try {
    await cancelMove(client, { namespace, name });
    return `${namespace}/${name} is not moved any more`;
  } finally {
    client.close();
  }
}

async function begin(
  client: KubeClient,
  { namespace, name, to }: MigrateWish,
): Promise<VirtualMachineInstanceMigration> {
  try {
    return await beginMove(client, { namespace, name }, to);
  } catch (cause) {
    if (!isKubeError(cause)) throw cause;
    const why = (await isOnlyNode(client)) ? onlyNode : plainText(cause.message);
    throw new NodeError('UNSUPPORTED', `${namespace}/${name} cannot be moved: ${why}`, { cause });
  }
}

/** What the API says then is of flags of the agent, which nobody here has chosen. */
const onlyNode =
  'there is no other node; virt-node start --nodes 2 plays two on this machine (npm run up -- --nodes 2)';

async function isOnlyNode(client: KubeClient): Promise<boolean> {
  const nodes = await client.list(resources.nodes).catch(() => undefined);
  return nodes?.items.length === 1;
}

export interface Awaited {
  readonly vm: VmName;
  readonly vmiUid: string | undefined;
  readonly migration: string;
  readonly report: (line: string) => void;
}

/** Also of the migration that tries another one again, which a loss has ended. */
export async function untilMoved(
  client: Pick<KubeClient, 'get'>,
  awaited: Awaited,
  leave: AbortSignal,
): Promise<string> {
  const { vm, report } = awaited;
  let { migration } = awaited;
  let reported = '';
  for (;;) {
    const seen = await findMigration(client, vm, migration);
    const next = seen && (await retryOf(client, vm, seen));
    if (seen && next !== undefined) {
      report(`${wordsOf(seen)}. It is tried again: ${next}`);
      migration = next;
      continue;
    }
    const vmi = await getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, vm);
    if (!seen) throw withoutMigration(awaited, vmi);
    const line = progressOf(seen, vmi);
    if (line !== reported) report(line);
    reported = line;
    if (seen.status?.phase === 'Succeeded')
      return `${vm.namespace}/${vm.name} is on ${vmi?.status?.nodeName ?? 'no node'} now`;
    // Cancelling deletes it; it is there until its controller is done with it.
    if (seen.status?.phase === 'Failed' && isBeingDeleted(seen)) throw withoutMigration(awaited, vmi);
    if (seen.status?.phase === 'Failed' && !isTriedAgain(seen)) throw stayed(vm, seen);
    if (leave.aborted)
      return `${vm.namespace}/${vm.name} goes on moving; virt-node migrate-cancel ${vm.name} ends that`;
    await sleep(lookMs, leave).catch(() => undefined);
  }
}

function findMigration(
  client: Pick<KubeClient, 'get'>,
  { namespace }: VmName,
  name: string,
): Promise<VirtualMachineInstanceMigration | undefined> {
  return getIfThere<VirtualMachineInstanceMigration>(client, resources.migrations, { namespace, name });
}

/** Name of the migration that tries this one again, once that was made: it may be over and gone by now. */
async function retryOf(
  client: Pick<KubeClient, 'get'>,
  vm: VmName,
  seen: VirtualMachineInstanceMigration,
): Promise<string | undefined> {
  if (!isTriedAgain(seen)) return undefined;
  const name = retryNameOf(seen);
  const isMade = findCondition(seen.status?.conditions, retryCondition)?.reason === 'Retried';
  return isMade || (await findMigration(client, vm, name)) ? name : undefined;
}

function withoutMigration({ vm, vmiUid }: Awaited, vmi: VirtualMachineInstance | undefined): NodeError {
  const name = `${vm.namespace}/${vm.name}`;
  const isThere = vmi?.metadata.uid === vmiUid;
  const text = isThere
    ? `${name} stays where it is: the migration was cancelled`
    : `${name} was not moved: it has ended`;
  return new NodeError('CHILD_FAILED', text);
}

/** One line for people. What the VMI says of an earlier migration is no word about this one. */
export function progressOf(
  { metadata, status }: VirtualMachineInstanceMigration,
  vmi: VirtualMachineInstance | undefined,
): string {
  const phase = status?.phase || 'Pending';
  const state = vmi?.status?.migrationState;
  const isOwn = state?.migrationUid === metadata.uid;
  const progress = phase === 'Running' && vmi ? publishedProgress(vmi) : undefined;
  if (progress) {
    const { processedBytes, remainingBytes, bytesPerSecond, leftSeconds } = progress;
    const left = leftSeconds === undefined ? '' : `, about ${durationText(leftSeconds * 1000)} left`;
    const amounts = `${fileSize(processedBytes)} sent, ${fileSize(remainingBytes)} to go, ${fileSize(bytesPerSecond)}/s`;
    return `${phase}: ${amounts}${left}`;
  }
  const target = isOwn ? state?.targetNode : undefined;
  const known = phase === 'Pending' || phase === 'Scheduling' ? waitsFor(status?.conditions) : target && `to ${target}`;
  return plainText(known ? `${phase}: ${known}` : phase);
}

/** What keeps it from beginning, where something does. */
function waitsFor(conditions: readonly { readonly message?: string }[] = []): string | undefined {
  return conditions.map(({ message }) => message).find(Boolean);
}

function stayed(vm: VmName, { metadata, status }: VirtualMachineInstanceMigration): NodeError {
  const text = reasonOf(status) || `virt-node explain vmim/${metadata.name} says why`;
  return new NodeError('CHILD_FAILED', plainText(`${vm.namespace}/${vm.name} was not moved: ${text}`));
}

function wordsOf({ status }: VirtualMachineInstanceMigration): string {
  const reason = reasonOf(status);
  return plainText(reason ? `Failed: ${reason}` : 'Failed');
}

function reasonOf(status: VirtualMachineInstanceMigration['status']): string | undefined {
  return status?.migrationState?.failureReason || waitsFor(status?.conditions);
}
