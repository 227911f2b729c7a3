import { type VirtualMachineInstance, virtiofsNames, virtiofsSocket, virtiofsVolume } from '../../../../api/index.ts';
import { errorCode, errorMessage } from '../../../../base/index.ts';
import { HostError } from '../errors.ts';
import { giveToQemu, LauncherRoot } from '../launcher-root.ts';
import type { HookContext, HookResult, HostHook } from '../work/index.ts';

const lookAgainMs = 1_000;
/** A side container that has not begun to listen by then does not come by itself. */
const patienceMs = 60_000;

export interface VirtiofsOptions {
  readonly procDir?: string;
}

/** Since when sockets are waited for, in milliseconds of the wall clock: another process of the agent goes on counting. */
type Waiting = { readonly sinceMs: number };

/**
 * A guest starts, or comes from another node, when each of its file systems is served: QEMU would end over a socket that is not there.
 * The sockets are QEMU's then (`configureVirtioFS` in pkg/virt-handler/controller.go). They end with the pod: nothing to release.
 */
export function virtiofsSockets(
  options: VirtiofsOptions & { readonly nowMs?: () => number } = {},
): HostHook<'virtiofs-sockets', null, Waiting> {
  const nowMs = options.nowMs ?? Date.now;
  return {
    name: 'virtiofs-sockets',
    readState: (kept) => {
      const sinceMs: unknown =
        typeof kept === 'object' && kept !== null && 'sinceMs' in kept ? kept.sinceMs : undefined;
      return typeof sinceMs === 'number' ? { sinceMs } : undefined;
    },
    prepare: (context) => prepare(context, options, nowMs()),
  };
}

async function prepare(
  { vmi, launcherPid, state }: HookContext<Waiting>,
  { procDir }: VirtiofsOptions,
  nowMs: number,
): Promise<HookResult<null>> {
  refuseUnknown(vmi);
  const root = new LauncherRoot(launcherPid, procDir);
  const names = virtiofsNames(vmi);
  const missing = names.filter((name) => !isServed(root, name));
  if (missing.length === 0) {
    return { kind: 'done', facts: null, ...(names.length > 0 && { summary: names.join(', ') }) };
  }
  const because = `side containers virtiofs-${missing.join(', virtiofs-')} do not listen yet`;
  // A clock that was set back begins anew.
  const sinceMs = Math.min(state.current?.sinceMs ?? nowMs, nowMs);
  if (state.current?.sinceMs !== sinceMs) await state.save({ sinceMs });
  if (nowMs - sinceMs <= patienceMs) return { kind: 'wait', afterMs: lookAgainMs, because };
  throw new HostError('NO_VIRTIOFS', `${because}: look at the logs of these containers of the launcher's pod`);
}

function refuseUnknown({ spec }: VirtualMachineInstance): void {
  const unknown = spec.domain.devices?.filesystems?.find(({ virtiofs }) => !virtiofs);
  if (!unknown) return;
  throw new HostError('NOT_SUPPORTED', `file system ${unknown.name}: only virtiofs is known; set it`);
}

/** False when there is none yet. The pod's tenant may put anything in its place. */
function isServed(root: LauncherRoot, name: string): boolean {
  try {
    const found = root.useRunning(`kubevirt/${virtiofsVolume}/${virtiofsSocket(name)}`, (file) => {
      if (!file.stat().isSocket()) throw new HostError('NO_VIRTIOFS', `${file.shown} is no socket`);
      return giveToQemu(file);
    });
    return found ?? false;
  } catch (cause) {
    if (cause instanceof HostError) throw cause;
    const reason = `${errorCode(cause) ?? ''} ${errorMessage(cause)}`.trim();
    throw new HostError('NO_VIRTIOFS', `the socket of file system ${name} cannot be used: ${reason}`, { cause });
  }
}
