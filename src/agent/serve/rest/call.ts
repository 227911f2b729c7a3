import type { Key, VirtualMachineInstance } from '../../../api/index.ts';
import { errorMessage } from '../../../base/index.ts';
import type { VmiEvent, VmiEventRecorder } from '../../vmi/ports.ts';
import { RestError, type RestErrorCode } from './errors.ts';
import type { LauncherActions, LauncherCommands } from './ports.ts';

/** One request to one VMI of this node. */
export interface Call {
  readonly key: Key;
  readonly vmi: VirtualMachineInstance;
  readonly query: URLSearchParams;
  /** Undefined: no body, or one that the route ignores. */
  readonly body: Record<string, unknown> | undefined;
  /** The client went away, or the agent leaves. */
  readonly client: AbortSignal;
}

export interface LauncherCallDeps {
  readonly actions: LauncherActions;
  readonly events: Pick<VmiEventRecorder, 'record'>;
  /** The agent leaves. */
  readonly leaving: AbortSignal;
}

/** Rejects with RestError LAUNCHER_FAILED. */
export async function connectLauncher(
  vmi: VirtualMachineInstance,
  { actions }: Pick<LauncherCallDeps, 'actions'>,
  signal: AbortSignal,
): Promise<LauncherCommands> {
  return failingAs('LAUNCHER_FAILED', () => actions.connect(vmi, signal));
}

/** For calls that change nothing: given up when the client leaves. */
export async function ask<T>(
  { vmi, client }: Call,
  deps: LauncherCallDeps,
  question: (launcher: LauncherCommands, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const launcher = await connectLauncher(vmi, deps, client);
  return failingAs('LAUNCHER_FAILED', () => question(launcher, client));
}

export interface Order {
  /** Status of a call that failed; LAUNCHER_FAILED unless given. */
  readonly failsAs?: RestErrorCode;
  readonly done?: VmiEvent;
  /** Reason of the event when it failed. */
  readonly failed?: string;
  readonly give: (launcher: LauncherCommands, signal: AbortSignal) => Promise<void>;
}

/**
 * For calls that change the guest. A client that leaves before the launcher was asked changes nothing; afterwards the call goes
 * on to its deadline, since the launcher carries it out anyway, so that the event reports the outcome.
 */
export async function order({ vmi, client }: Call, deps: LauncherCallDeps, how: Order): Promise<void> {
  const { leaving, events } = deps;
  const launcher = await connectLauncher(vmi, deps, client);
  client.throwIfAborted();
  try {
    await failingAs(how.failsAs ?? 'LAUNCHER_FAILED', () => how.give(launcher, leaving));
  } catch (error) {
    if (how.failed) events.record(vmi, { type: 'Warning', reason: how.failed, message: errorMessage(error) });
    throw error;
  }
  if (how.done) events.record(vmi, how.done);
}

export async function failingAs<T>(code: RestErrorCode, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw cause instanceof RestError ? cause : new RestError(code, errorMessage(cause), { cause });
  }
}
