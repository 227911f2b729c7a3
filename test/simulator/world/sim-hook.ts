import type { HookContext, HostHook } from '../../../src/agent/index.ts';
import { listOf, memberAt } from '../../../src/base/index.ts';
import type { SimHostDeps, SimNode } from './sim-host.ts';

/** Something that a hook made on the node for one launcher; it outlives agent and launcher. */
export interface Mount {
  readonly uid: string;
  readonly pid: number;
}

export interface HookTrouble {
  failRate: number;
  hangsUntilMs: number;
}

export interface SimHookDeps extends Pick<SimHostDeps, 'node' | 'wire' | 'scheduler' | 'chance' | 'life'> {
  /** Before a mount goes. */
  readonly onUnmount: (mount: Mount) => void;
}

type MountState = { readonly mounts: readonly string[] };

/** Heard of later than this nothing of an agent that has stopped is left. */
const longestHangMs = 20_000;

/** A hook as they come: it makes things whose names only it has, saves them first, and undoes what it saved. */
export function simHook(deps: SimHookDeps): HostHook<'sim-mount', MountState, MountState> {
  const { node, wire, life, onUnmount } = deps;
  const read = (kept: unknown): MountState => ({
    mounts: listOf(memberAt(kept, 'mounts')).filter((mount) => typeof mount === 'string'),
  });
  const unmount = (id: string, signal: AbortSignal) =>
    wire.request({ life, label: `unmount ${id}`, signal }, () => {
      const mount = node.mounts.get(id);
      if (mount) onUnmount(mount);
      node.mounts.delete(id);
    });
  return {
    name: 'sim-mount',
    deadlineMs: 5_000,
    readState: read,
    readFacts: read,
    prepare: async ({ uid, launcherPid: pid, state, signal }: HookContext) => {
      await trouble(deps);
      const { mounts } = read(state.current);
      const known = mounts.find((mount) => mount.startsWith(`${uid}/${pid}/`));
      const id = known ?? `${uid}/${pid}/${node.nextMount()}`;
      if (known === undefined) await state.save({ mounts: [...mounts, id] });
      await wire.request({ life, label: `mount ${id}`, signal }, () => void node.mounts.set(id, { uid, pid }));
      return { kind: 'done', facts: { mounts: [id] } };
    },
    release: async ({ state, signal }) => {
      await trouble(deps);
      for (const id of read(state).mounts) await unmount(id, signal);
    },
  };
}

/** One that hangs heeds no signal. */
async function trouble({ node, scheduler, chance, life }: SimHookDeps): Promise<void> {
  const { failRate, hangsUntilMs } = node.hookTrouble;
  if (chance.happens(failRate)) throw new Error('the hook fails');
  const leftMs = Math.min(longestHangMs, hangsUntilMs - scheduler.nowMs);
  if (leftMs > 0) await new Promise<void>((resolve) => scheduler.after(leftMs, 'the hook hangs', life, resolve));
}

/** Mounts of VMIs that are not to be here; `isOwned`: the guest is this node's. */
export function needlessMounts(node: SimNode, isOwned: (uid: string) => boolean): string[] {
  const isOver = (uid: string) => !isOwned(uid) && !node.tornCheckpoints.has(uid);
  const mounts = [...node.mounts].flatMap(([id, { uid }]) => (isOver(uid) ? [`mount ${id} is left`] : []));
  const files = [...node.checkpoints.files.keys()].filter((file) => !file.endsWith('.unusable') && !isOwned(file));
  return [...mounts, ...files.map((uid) => `the checkpoint of ${uid} is left`)];
}
