import type { Mutation } from '../../scripts/simulator.mjs';

/**
 * Ways to break the production code that the simulator has to notice: what is protected by no invariant would rot unseen. A
 * line that is not found any more needs its new wording here.
 */
export const mutations: readonly Mutation[] = [
  {
    name: 'a domain that is defined and not started counts as dead',
    file: 'src/agent/decide/domain-situation.ts',
    find: "return context.phase === 'Running' ? { kind: 'shutoff-unexplained', domain } : { kind: 'not-started', domain };",
    replace: "return { kind: 'stopped', domain, verdict: { phase: 'Failed', because: 'mutation' } };",
  },
  {
    name: 'what is unknown counts as gone',
    file: 'src/agent/decide/domain-situation.ts',
    find: "return view.kind === 'absent' ? view : { kind: 'unknown', reason: view.reason };",
    replace: "return { kind: 'gone', proof: 'launcher-dead', verdict: verdictWhenGone(context) };",
  },
  {
    name: 'a guest is killed without its grace',
    file: 'src/agent/decide/shutdown-rules.ts',
    find: 'const leftMs = ({ grace, observation }: Facts) => Math.max(0, grace.deadlineMs - observation.nowMs);',
    replace: 'const leftMs = ({ grace, observation }: Facts) => Math.max(0, grace.deadlineMs - observation.nowMs) * 0;',
  },
  {
    name: 'a start is synced again and again',
    file: 'src/agent/decide/sync-rules.ts',
    find: 'return observation.memory.synced?.fingerprint !== observation.syncFingerprint;',
    replace: 'return observation.syncFingerprint !== undefined;',
  },
  {
    name: 'one VMI has several actors',
    file: 'src/base/keyed-queue.ts',
    find: 'if (!state.running) this.#ready.add(key);',
    replace: 'this.#ready.add(key);',
  },
  {
    name: 'the clean-up leaves the ghost record',
    file: 'src/domain-cache/domain-cache.ts',
    find: 'await this.#keeper.remove(key, uid);',
    replace: 'void [key, uid];',
  },
  {
    name: 'fields of others are not written back',
    file: 'src/agent/status/project.ts',
    find: 'vmi.status ??= {};',
    replace: 'vmi.status = { phase: vmi.status?.phase } as never;',
  },
  {
    name: 'a VMI that the list leaves out counts as deleted',
    file: 'src/agent/observe/observe.ts',
    find: "if (!isKnownHere) return { kind: 'deleted' };",
    replace: "return { kind: 'deleted' };",
  },
  {
    name: 'the picture of a predecessor shows through',
    file: 'src/agent/observe/observe.ts',
    find: ': ports.domains.view(key, uid);',
    replace: ': ports.domains.view(key);',
  },
  {
    name: 'ghost records are not saved',
    file: 'src/domain-cache/ghost-records.ts',
    find: 'if (record) await this.#files.replace(uid, JSON.stringify({ ...record, version }));',
    replace: 'if (record) void version;',
  },
];
