import { type Clock, type Component, errorCode, errorMessage, type Logger } from '../../../../base/index.ts';
import type { SharedRecordFiles } from '../../../../host/index.ts';
import type { Checkpoint } from './checkpoint.ts';
import { CheckpointFiles } from './checkpoint-files.ts';
import type {
  HookContext,
  HookResult,
  HookSyncOptions,
  HostHook,
  HostOutcome,
  HostRequest,
  HostSeen,
  HostView,
  HostWorkPort,
  Json,
} from './contract.ts';
import { HostWorkError } from './errors.ts';
import { defaultDeadlineMs, HookCalls } from './hook-calls.ts';
import { observeHost, observersOf } from './observe-host.ts';
import { Report } from './report.ts';
import { GivenState, WorkSession } from './session.ts';
import { WorkMemory } from './work-memory.ts';

export interface HostWorkDeps {
  /** In the order in which they prepare. */
  readonly hooks: readonly HostHook[];
  /** A directory of their own. */
  readonly files: SharedRecordFiles;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Beside the hooks themselves: the disk. */
const diskMs = 10_000;

/**
 * Runs the hooks of a VMI and keeps its checkpoint: before the first of them that has something to release, on disk stands that
 * it may have begun; what a hook saves is on disk before the hook goes on; in the end stands what was done and given. A disk
 * that is full or a file that is torn is reported and fails no VMI.
 */
export class HostWork<Facts = unknown> implements HostWorkPort<Facts>, Component {
  readonly name = 'host work';
  readonly #hooks: readonly HostHook[];
  readonly #files: CheckpointFiles;
  readonly #calls: HookCalls;
  readonly #memory: WorkMemory;
  readonly #log: Logger;
  /** UID → the last of what is done for it: the clean-up of leftovers is not the VMI's own loop. */
  readonly #queues = new Map<string, Promise<unknown>>();
  /** UIDs all of whose work is released, and whose checkpoint the disk did not let go. */
  readonly #released = new Set<string>();

  constructor({ hooks, files, clock, log }: HostWorkDeps) {
    this.#hooks = hooks;
    this.#files = new CheckpointFiles(files, clock);
    this.#calls = new HookCalls(clock);
    this.#memory = new WorkMemory(log);
    this.#log = log;
  }

  get isEmpty(): boolean {
    return this.#hooks.length === 0;
  }

  mayObserve({ uid, vmi }: Pick<HostView, 'uid' | 'vmi'>): boolean {
    return observersOf(this.#hooks, vmi, this.#memory.facts(uid)).length > 0;
  }

  get budgetMs(): number {
    return this.#hooks.reduce((sum, { deadlineMs = defaultDeadlineMs }) => sum + deadlineMs, diskMs);
  }

  /** What hooks gave under an earlier process is known from the start. Waits for no hook. */
  async start(): Promise<void> {
    for (const { uid, hooks } of await this.recorded()) {
      for (const hook of this.#hooks) {
        const facts = this.#readable(uid, hook, 'readFacts', hooks.get(hook.name)?.facts);
        if (facts !== undefined) this.#memory.give(uid, hook.name, facts);
      }
    }
  }

  async stop(): Promise<void> {
    await Promise.allSettled(this.#queues.values());
  }

  /** Checkpoints that can be read. What cannot is logged. Never rejects. */
  async recorded(): Promise<Checkpoint[]> {
    if (this.isEmpty) return [];
    const uids = await this.#files.uids().catch((error: unknown) => this.#warn('', error));
    const checkpoints: Checkpoint[] = [];
    for (const uid of uids ?? []) {
      const found = await this.#files.read(uid).catch((error: unknown) => this.#warn(uid, error));
      if (found?.kind === 'found') checkpoints.push(found.checkpoint);
      else if (found?.kind === 'unusable' || found?.kind === 'newer') this.#warn(uid, found.problem);
    }
    return checkpoints;
  }

  /** One more try for checkpoints of what is released. Never rejects. */
  async removeLeftovers(): Promise<void> {
    for (const uid of [...this.#released]) {
      await this.#inTurn(uid, () => this.#removeLeftover(uid)).catch((error: unknown) => this.#warn(uid, error));
    }
  }

  async #removeLeftover(uid: string): Promise<void> {
    if (!this.#released.has(uid)) return;
    const found = await this.#files.read(uid);
    // The VMI came back, under a newer agent beside this one.
    if (found.kind === 'newer') this.#released.delete(uid);
    else await this.#remove(uid, found.kind === 'found' ? found.text : undefined);
    this.#memory.forget(uid);
  }

  run(request: HostRequest): Promise<HostOutcome> {
    return this.#inTurn(request.uid, () => {
      this.#released.delete(request.uid);
      return this.#run(request);
    });
  }

  release(uid: string, signal: AbortSignal, unless: () => boolean = () => false): Promise<HostOutcome> {
    return this.#inTurn(uid, () => (unless() ? Promise.resolve(nothingDone) : this.#release(uid, signal)));
  }

  /** UIDs of which hooks have left something without a checkpoint, or with one. Never rejects. */
  async leftUids(): Promise<string[]> {
    const uids = new Set<string>();
    for (const { leftUids } of this.#hooks) {
      const left = await leftUids?.().catch((error: unknown) => this.#warn('', error));
      for (const uid of left ?? []) uids.add(uid);
    }
    return [...uids];
  }

  /** What hooks have left of a UID without a checkpoint. With one all of it is released in its time. */
  releaseLeft(uid: string, signal: AbortSignal, unless: () => boolean): Promise<HostOutcome> {
    return this.#inTurn(uid, async () => {
      const isKept = unless() || (await this.#files.uids()).includes(uid);
      if (isKept || unless()) return nothingDone;
      const finders = this.#hooks.filter((hook) => hook.leftUids);
      return this.#withSession({ uid }, async (session, report) => {
        const [error] = await this.#releaseAll(finders, uid, session, signal, report);
        return error === undefined ? { kind: 'done' } : { kind: 'failed', error };
      });
    });
  }

  observe(view: HostView): Promise<HostSeen> {
    return observeHost(this.#hooks, view, { calls: this.#calls, memory: this.#memory, log: this.#log });
  }

  /** Each was given by its hook, or read by it. */
  facts(uid: string): Facts {
    return this.#memory.facts(uid) as Facts;
  }

  syncOptions(uid: string): readonly HookSyncOptions[] {
    const known = this.#memory.facts(uid);
    return this.#hooks.flatMap((hook) => {
      const facts = known[hook.name];
      const options = facts === undefined ? undefined : hook.syncOptions?.(facts);
      return options ? [options] : [];
    });
  }

  #run(request: HostRequest): Promise<HostOutcome> {
    const called = this.#hooks.filter((hook) => callOf(hook, request));
    if (called.length === 0) return Promise.resolve(nothingDone);
    return this.#withSession(request, async (session, report) => {
      const leaving = called.filter((hook) => hook.release && (hook.leaves?.(request.vmi) ?? true));
      for (const hook of leaving) session.begin(hook.name);
      await session.flush().catch((error: unknown) => report.checkpointFailed(error));
      const end = await this.#callInOrder(called, session, request, report);
      // What needs no undo costs a burst of starts no file: a hundred of them were a sixth slower with one each.
      if (session.isStored || leaving.length > 0)
        await session.flush().catch((error: unknown) => report.checkpointFailed(error));
      return end;
    });
  }

  async #callInOrder(
    hooks: readonly HostHook[],
    session: WorkSession,
    request: HostRequest,
    report: Report,
  ): Promise<End> {
    let first: End = { kind: 'done' };
    for (const hook of hooks) {
      const end = await this.#callOne(hook, session, request, report);
      if (end.kind !== 'done' && request.purpose !== 'settling') return end;
      // What one hook cannot take away yet keeps no other from its own work: a guest may be paused until that is done.
      if (first.kind === 'done') first = end;
    }
    return first;
  }

  async #callOne(hook: HostHook, session: WorkSession, request: HostRequest, report: Report): Promise<End> {
    const { name } = hook;
    const { uid } = request;
    const state = new GivenState(name, session, this.#stateOf(uid, hook, session));
    const given = this.#memory.facts(uid)[name];
    const context = { ...request, state, ...(given !== undefined && { given }) };
    const work = (signal: AbortSignal) => call(hook, { ...context, signal });
    const end = await this.#calls.call(hook, uid, request.signal, work);
    state.isOver = true;
    report.called(name, end);
    if (end.kind === 'threw') return { kind: 'failed', error: end.error };
    if (end.value.kind === 'wait') return end.value;
    session.end(name, end.value.facts);
    this.#memory.give(uid, name, end.value.facts);
    return { kind: 'done' };
  }

  async #release(uid: string, signal: AbortSignal): Promise<HostOutcome> {
    if (this.isEmpty) return nothingDone;
    const outcome = await this.#withSession({ uid }, async (session, report) => {
      const failures = await this.#releaseAll(this.#hooks, uid, session, signal, report);
      if (failures.length > 0) {
        if (session.isStored) await session.flush().catch((error: unknown) => report.checkpointFailed(error));
        return { kind: 'failed', error: failures[0] };
      }
      try {
        await this.#remove(uid, session.text);
      } catch (error) {
        // Of what another agent has made meanwhile nothing is released.
        if (errorCode(error) === 'CHECKPOINT_CHANGED') throw error;
        // It is tried again: a disk that fails holds up no clean-up.
        report.checkpointFailed(error);
      }
      return { kind: 'done' };
    });
    // After the last line of the log.
    if (outcome.kind === 'done') this.#memory.forget(uid);
    return outcome;
  }

  async #remove(uid: string, text: string | undefined): Promise<void> {
    this.#released.add(uid);
    try {
      await this.#files.remove(uid, text);
    } catch (error) {
      // Another agent's, of which nothing is released: no leftover.
      if (errorCode(error) === 'CHECKPOINT_CHANGED') this.#released.delete(uid);
      throw error;
    }
    this.#released.delete(uid);
  }

  async #releaseAll(
    hooks: readonly HostHook[],
    uid: string,
    session: WorkSession,
    signal: AbortSignal,
    report: Report,
  ): Promise<unknown[]> {
    const failures: unknown[] = [];
    for (const hook of [...hooks].reverse()) {
      if (!hook.release) continue;
      const { name } = hook;
      const found = { uid, stage: session.foundStage(name), state: this.#stateOf(uid, hook, session) };
      const work = async (ending: AbortSignal) => {
        await hook.release?.({ ...found, signal: ending });
        return undefined;
      };
      const end = await this.#calls.call(hook, uid, signal, work);
      report.called(name, end);
      if (end.kind === 'threw') failures.push(end.error);
      else session.drop(name);
    }
    const known = new Set(this.#hooks.map(({ name }) => name));
    for (const name of session.names.filter((each) => !known.has(each))) {
      const problem = `this agent has no hook ${name}: what it prepared is left as it is`;
      this.#warn(uid, new HostWorkError('STATE_UNREADABLE', problem));
    }
    return failures;
  }

  async #withSession(
    owner: Parameters<typeof WorkSession.open>[1],
    work: (session: WorkSession, report: Report) => Promise<End>,
  ): Promise<HostOutcome> {
    const { uid } = owner;
    const report = new Report();
    let end: End;
    try {
      const { session, problem } = await WorkSession.open(this.#files, owner);
      if (problem) report.checkpointFailed(problem);
      end = await work(session, report);
    } catch (error) {
      end = endOf(error);
      if (end.kind === 'wait') report.checkpointWaits(end.because);
      else report.checkpointFailed(error);
    }
    const { parts } = report;
    this.#memory.log(uid, parts);
    return { ...end, parts, events: this.#memory.unreported(uid, report.events) };
  }

  #stateOf(uid: string, hook: HostHook, session: WorkSession): Json | undefined {
    return this.#readable(uid, hook, 'readState', session.record(hook.name)?.state);
  }

  /** What was kept, as its hook reads it today. */
  #readable(uid: string, hook: HostHook, reader: 'readFacts' | 'readState', kept: Json | undefined): Json | undefined {
    if (kept === undefined || kept === null) return undefined;
    let value: Json | undefined;
    try {
      value = hook[reader]?.(kept);
    } catch {
      // A reader that trips over it cannot use it.
    }
    if (value === undefined && hook[reader]) {
      this.#warn(uid, new HostWorkError('STATE_UNREADABLE', `${hook.name} cannot use what was kept: it begins anew`));
    }
    return value;
  }

  #warn(uid: string, error: unknown): undefined {
    this.#log.warn(
      { uid, code: errorCode(error), reason: errorMessage(error) },
      'a checkpoint of host work cannot be used',
    );
  }

  #inTurn<T>(uid: string, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(uid) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#queues.set(uid, mine);
    const done = () => {
      if (this.#queues.get(uid) === mine) this.#queues.delete(uid);
    };
    mine.then(done, done);
    return mine;
  }
}

type End =
  | { readonly kind: 'done' }
  | { readonly kind: 'wait'; readonly afterMs: number; readonly because: string }
  | { readonly kind: 'failed'; readonly error: unknown };

/** An agent that is on its way out leaves a newer one's work to that one. */
function endOf(error: unknown): End {
  if (errorCode(error) !== 'CHECKPOINT_NEWER') return { kind: 'failed', error };
  return { kind: 'wait', afterMs: newerPauseMs, because: errorMessage(error) };
}

const newerPauseMs = 10_000;

function callOf(hook: HostHook, { purpose }: Pick<HostRequest, 'purpose'>) {
  switch (purpose) {
    case 'start':
    case 'incoming':
      return hook.prepare;
    case 'running':
      return hook.adjust;
    case 'settling':
      return hook.settle;
    default:
      return purpose satisfies never;
  }
}

async function call(hook: HostHook, context: HookContext): Promise<HookResult<Json>> {
  return (await callOf(hook, context)?.call(hook, context)) ?? { kind: 'done', facts: null };
}

const nothingDone: HostOutcome = { kind: 'done', parts: [], events: [] };
