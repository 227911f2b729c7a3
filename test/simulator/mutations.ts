import type { Mutation } from '../../scripts/simulator.mjs';

import {
  firstCalmSeed,
  firstFrozenSeed,
  firstHostWorkSeed,
  firstMigrationLossSeed,
  firstMigrationSeed,
  firstOutageSeed,
  firstPostCopyLossSeed,
} from './plan.ts';

/**
 * Ways to break the production code that the simulator has to notice: what is protected by no invariant would rot unseen. A
 * line that is not found any more needs its new wording here. `first`: the first seed that is tried.
 */
export const mutations: readonly (Mutation & { readonly first?: number })[] = [
  {
    name: 'a domain that is defined and not started counts as dead',
    file: 'src/agent/vmi/decide/domain-state.ts',
    find: "return context.phase === 'Running' ? { kind: 'shutoff-unexplained', domain } : { kind: 'not-started', domain };",
    replace: "return { kind: 'stopped', domain, finalPhase: { phase: 'Failed', because: 'mutation' } };",
  },
  {
    name: 'what is unknown counts as gone',
    file: 'src/agent/vmi/decide/domain-state.ts',
    find: "return { kind: 'unknown', reason: view.reason };",
    replace: "return { kind: 'gone', proof: 'launcher-dead', finalPhase: finalPhaseWhenGone(context) };",
  },
  {
    name: 'a guest is killed without its grace',
    file: 'src/agent/vmi/decide/shutdown-rules.ts',
    find: 'const leftMs = ({ grace, observation }: Facts) => Math.max(0, grace.deadlineMs - observation.nowMs);',
    replace: 'const leftMs = ({ grace, observation }: Facts) => Math.max(0, grace.deadlineMs - observation.nowMs) * 0;',
  },
  {
    name: 'a start is synced again and again',
    file: 'src/agent/vmi/decide/sync-state.ts',
    find: 'return syncedOf(observation.memory)?.fingerprint !== observation.syncFingerprint;',
    replace: 'return observation.syncFingerprint !== undefined;',
  },
  {
    name: 'one VMI has several actors',
    file: 'src/reconcile/keyed-queue.ts',
    find: 'if (!state.running) this.#makeReady(key, state);',
    replace: 'this.#makeReady(key, state);',
  },
  {
    name: 'the clean-up leaves the ghost record',
    file: 'src/domain-cache/domain-cache.ts',
    find: 'await this.#records.remove(key, uid);',
    replace: 'void [key, uid];',
  },
  {
    name: 'fields of others are not written back',
    file: 'src/agent/vmi/status/project.ts',
    find: 'vmi.status ??= {};',
    replace: 'vmi.status = { phase: vmi.status?.phase } as never;',
  },
  {
    name: 'a VMI that the list leaves out counts as deleted',
    file: 'src/agent/vmi/observe/observe.ts',
    find: "if (!isKnownHere) return { kind: 'deleted', ...(moved && { moved }) };",
    replace: "return { kind: 'deleted' };",
  },
  {
    name: 'the snapshot of a predecessor shows through',
    file: 'src/agent/vmi/observe/observe.ts',
    find: ': ports.domains.view(key, uid);',
    replace: ': ports.domains.view(key);',
  },
  {
    name: 'ghost records are not saved',
    file: 'src/domain-cache/ghost-records.ts',
    find: 'if (record) await this.#files.replace(uid, JSON.stringify({ ...record, version }));',
    replace: 'if (record) void version;',
  },
  {
    name: "the agent's own writes are not remembered",
    file: 'src/reconcile/read-your-writes.ts',
    find: 'this.#keep(key, isLeaving ? { ...before, under: update } : update);',
    replace: 'void [isLeaving, update];',
  },
  {
    name: 'a domain shut off without a reason is believed at once',
    file: 'src/agent/vmi/decide/phase-rules.ts',
    find: "facts.domainState.kind === 'shutoff-unexplained' && isAnsweredAgain(facts)",
    replace: "facts.domainState.kind === 'shutoff-unexplained'",
  },
  {
    name: 'a queue that stops keeps its timers',
    file: 'src/reconcile/keyed-queue.ts',
    find: 'for (const state of this.#states.values()) this.#cancelTimer(state);',
    replace: '',
    first: firstMigrationSeed,
  },
  {
    name: 'a VMI is handed over before its guest has arrived',
    file: 'src/agent/vmi/decide/migration/target-view.ts',
    find: 'if (!notes?.EndTimestamp) return false;\n  if (notes.Failed) return notes.UID',
    replace:
      "if (!notes) return false;\n  if (facts.domainState.kind === 'alive') return true;\n  if (notes.Failed) return notes.UID",
    first: firstMigrationSeed,
  },
  {
    name: 'the source is deleted before the hand-over',
    file: 'src/agent/vmi/decide/migration/hand-over-rules.ts',
    find: 'return view ? awaitHandOver(facts, view) : rest;',
    replace: "return view ? { steps: [{ step: 'deleteDomain', uid: facts.uid }] } : (awaitHandOver, rest);",
    first: firstMigrationSeed,
  },
  {
    name: 'the streams of a source stay open',
    file: 'src/agent/vmi/decide/migration/source-rules.ts',
    find: 'if (!migrationProxies.hasSource) return false;',
    replace: 'if (migrationProxies.hasSource) return false;',
    first: firstMigrationSeed,
  },
  {
    name: 'the streams of a target stay open',
    file: 'src/agent/vmi/decide/migration/arrived-rules.ts',
    find: 'when: (facts) => isSettled(facts) && facts.observation.migrationProxies.targetPorts !== undefined,',
    replace: 'when: () => false,',
    first: firstMigrationSeed,
  },
  {
    name: 'a node that has its guest is still asked for',
    file: 'src/agent/vmi/decide/migration/arrived-rules.ts',
    find: 'labels: { [labels.migrationTargetNodeName]: null },',
    replace: 'labels: {},',
    first: firstMigrationSeed,
  },
  {
    name: 'nobody waits for the end of a grace period',
    file: 'src/agent/vmi/decide/shutdown-rules.ts',
    find: `    plan: (facts) => ({
      ...wait(leftMs(facts)),
      remember: rememberDeadline(facts),
    }),`,
    replace: '    plan: (facts) => ({ steps: [], remember: rememberDeadline(facts) }),',
    first: firstCalmSeed,
  },
  {
    name: 'a dead launcher is found by the next look at all of them only',
    file: 'src/domain-cache/domain-cache.ts',
    find: 'onBroken: ({ address }) => void this.#check(address.uid),',
    replace: 'onBroken: () => undefined,',
  },
  {
    name: 'a launcher that hangs counts as dead',
    file: 'src/launcher-client/liveness.ts',
    find: "if (listening === 'hung' || listening === 'unclear') return unknown(",
    replace:
      "if (listening === 'hung' || listening === 'unclear') return { kind: 'dead', proof: '' } as Liveness; void (",
  },
  {
    name: 'a launcher that was never asked counts as dead',
    file: 'src/agent/vmi/decide/domain-state.ts',
    find: "return launcher.kind === 'dead' ? launcherDead(context) : view;",
    replace: 'return launcherDead(context);',
  },
  {
    name: 'a VMI does not wait for the guest of an older one of its name',
    file: 'src/agent/vmi/decide/look-rules.ts',
    find: 'facts.observation.predecessor !== undefined && facts.vmi !== undefined && isNotStarted(facts)',
    replace: 'facts.observation.predecessor === null && isNotStarted(facts)',
  },
  {
    name: 'how a guest ended is forgotten with its launcher',
    file: 'src/agent/vmi/decide/domain-state.ts',
    find: `  if (memory.ending.finalPhase) return memory.ending.finalPhase;
  const seen = lastDomain && !isAliveStatus(lastDomain) ? finalPhaseOf(lastDomain, context) : undefined;
  if (seen) return seen;`,
    replace: '  void [isAliveStatus, lastDomain];',
    first: firstOutageSeed,
  },
  {
    name: 'whatever the newest VMI is, an older decision is written on it',
    file: 'src/agent/vmi/loop/still-holds.ts',
    find: 'before.metadata.uid === newest.metadata.uid &&',
    replace: 'before.metadata.uid !== "" || before.metadata.uid === newest.metadata.uid &&',
    first: firstMigrationSeed,
  },
  {
    name: 'one question is enough for the end of a guest that nobody saw run',
    file: 'src/agent/vmi/decide/phase-rules.ts',
    find: 'when: isLostUnconfirmed,',
    replace: "when: (facts) => isLostUnconfirmed(facts) && facts.uid === '',",
  },
  {
    name: 'what a hook saves does not reach the disk before its work',
    file: 'src/agent/vmi/host/work/checkpoint-files.ts',
    find: '!(await this.#files.exchange(uid, { before, after: text, maxBytes: maxCheckpointBytes }))',
    replace: 'text === before',
    first: firstHostWorkSeed,
  },
  {
    name: 'the clean-up releases no host work',
    file: 'src/agent/vmi/execute/end-steps.ts',
    find: 'const released = await releaseHooks(uid, context);',
    replace: "const released = await Promise.resolve({ ...(releaseHooks && { kind: 'done', parts: [] }) } as Outcome);",
    first: firstHostWorkSeed,
  },
  {
    name: 'host work is released while its guest runs',
    file: 'src/agent/vmi/execute/host-steps.ts',
    find: "return runHooks('running', uid, currentVmi(uid, context), context);",
    replace: 'return (runHooks, currentVmi, releaseHooks(uid, context));',
    first: firstHostWorkSeed,
  },
  {
    name: 'a guest starts before its hooks have prepared',
    file: 'src/agent/vmi/execute/host-steps.ts',
    find: "return runHooks('start', uid, currentVmi(uid, context), context);",
    replace: "void runHooks('start', uid, currentVmi(uid, context), context); return Promise.resolve(done);",
    first: firstHostWorkSeed,
  },
  {
    name: 'nobody looks for host work that is left over',
    file: 'src/agent/vmi/host/work/orphaned-host-work.ts',
    find: 'if (!this.#deps.work.isEmpty) this.#looking = this.#look();',
    replace: 'void this.#look;',
    first: firstHostWorkSeed,
  },
  {
    name: 'a migration that failed does not say why',
    file: 'src/agent/vmi/decide/migration/failed-migration.ts',
    find: 'failureReason: reason,',
    replace: '',
    first: firstMigrationLossSeed,
  },
  {
    name: 'a migration that its source launcher has failed is still waited for',
    file: 'src/agent/vmi/decide/migration/failed-migration.ts',
    find: 'failed: true,',
    replace: 'failed: false,',
    first: firstMigrationLossSeed,
  },
  {
    name: 'what a step remembers takes the place of what the decision did',
    file: 'src/agent/vmi/loop/dispatcher.ts',
    find: 'const outcomes = await runPlan(decision, { observation: present, ports',
    replace: 'const outcomes = await runPlan(decision, { observation: present.uid ? observation : present, ports',
    first: firstPostCopyLossSeed,
  },
  {
    name: 'a guest that waits for the rest of its memory is given up at once',
    file: 'src/agent/vmi/decide/migration/post-copy-rules.ts',
    find: 'hasFailedPostCopy(facts) && leftMs(facts, view) <= 0',
    replace: 'hasFailedPostCopy(facts) && leftMs(facts, view) < Number.POSITIVE_INFINITY',
    first: firstPostCopyLossSeed,
  },
  {
    name: 'a post-copy that broke is not resumed',
    file: 'src/agent/vmi/decide/migration/post-copy-rules.ts',
    find: "if (published.kind !== 'ready') return",
    replace: "if (published.kind !== 'unusable') return",
    first: firstPostCopyLossSeed,
  },
  {
    name: 'streams that stand in post-copy are left as they are',
    file: 'src/agent/vmi/decide/migration/post-copy-rules.ts',
    find: 'stallsInMs(facts, view) !== undefined && canResume(facts, view)',
    replace: 'stallsInMs(facts, view) === null && canResume(facts, view)',
    first: firstFrozenSeed,
  },
];
