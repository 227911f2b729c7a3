import type { Decision } from '../../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import { node, nowMs, presentVmi, uid, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { type FlatMemory, remembered } from '../../../../../fixtures/agent/remembered.ts';

/** One situation, the rule that must match and what it must plan. */
export interface Row {
  readonly rule: string;
  readonly when: string;
  readonly given: Partial<Observation>;
  readonly expect: Partial<Pick<Decision, 'phase' | 'healthy' | 'route'>> & {
    readonly requeueAfterMs?: number | undefined;
    readonly steps?: string[];
  };
}

export const deleted = {
  metadata: {
    deletionTimestamp: '2026-01-02T03:04:00Z',
    resourceVersion: '10',
    name: 'vm1',
    namespace: 'default',
    uid,
    labels: { 'kubevirt.io/nodeName': node },
  },
};
export const scheduled = presentVmi(vmiOf('Scheduled'));
export const deleting = presentVmi(vmiOf('Running', deleted));
export const ghost = { name: 'vm1', namespace: 'default', uid, socketFile: '/pods/pod-1/sock' };
export const migrating = { migrationUid: 'm1', sourceNode: node, targetNode: 'node2' };
const toNode2 = {
  metadata: { name: 'vm1', namespace: 'default', uid, labels: { 'kubevirt.io/nodeName': 'node2' } },
};
export const elsewhere = {
  kind: 'elsewhere',
  vmi: vmiOf('Running', { ...toNode2, status: { nodeName: 'node2' } }),
} as const;
export const memory = (more: FlatMemory = {}) =>
  remembered({ synced: { fingerprint: 'same', atMs: nowMs - 60_000 }, ...more });
export const predecessor = (domain: Observation['domain'], launcher: Observation['launcher']) => ({
  uid: 'old',
  domain,
  launcher,
});
export const ready = { kind: 'ready', connected: false } as const;
