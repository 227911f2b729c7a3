import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance, VmiSpec } from '../../../../src/api/index.ts';
import type { LiveChange, Rollout } from '../../../../src/controller/vm/live-change.ts';
import { stagedMessage } from '../../../../src/controller/vm/live-change.ts';
import { liveChanges } from '../../../../src/controller/vm/live-changes.ts';
import { buildVm, buildVmi } from '../builders.ts';

interface Row {
  readonly when: string;
  readonly template: Partial<VmiSpec>;
  readonly vmi?: Partial<VmiSpec>;
  readonly status?: VirtualMachineInstance['status'];
  readonly strategy?: Rollout['strategy'];
  readonly expected: readonly LiveChange[];
}

const zone = (name: string) => ({ nodeSelector: { zone: name } });
const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } };
const affinity = { nodeAffinity };
const tolerations = [{ key: 'a', operator: 'Exists' }];
const moving = { migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } };
const live = (...operations: Extract<LiveChange, { kind: 'live' }>['operations']): LiveChange => ({
  kind: 'live',
  operations,
});

const rows: readonly Row[] = [
  { when: 'nothing differs', template: { ...zone('a'), affinity }, vmi: { ...zone('a'), affinity }, expected: [] },
  { when: 'nothing is said in other words', template: { nodeSelector: {}, tolerations: [] }, expected: [] },
  {
    when: 'it names a node’s label',
    template: zone('a'),
    expected: [live({ op: 'add', path: '/spec/nodeSelector', value: { zone: 'a' } })],
  },
  {
    when: 'it names another label and an affinity',
    template: { ...zone('b'), affinity },
    vmi: zone('a'),
    expected: [
      live(
        { op: 'add', path: '/spec/affinity', value: affinity },
        { op: 'test', path: '/spec/nodeSelector', value: { zone: 'a' } },
        { op: 'replace', path: '/spec/nodeSelector', value: { zone: 'b' } },
      ),
    ],
  },
  {
    when: 'it says no more where it may run',
    template: {},
    vmi: { ...zone('a'), tolerations },
    expected: [
      live(
        { op: 'test', path: '/spec/nodeSelector', value: { zone: 'a' } },
        { op: 'remove', path: '/spec/nodeSelector' },
      ),
      live({ op: 'test', path: '/spec/tolerations', value: tolerations }, { op: 'remove', path: '/spec/tolerations' }),
    ],
  },
  {
    when: 'the affinity is empty, which is not none',
    template: { affinity: {} },
    expected: [live({ op: 'add', path: '/spec/affinity', value: {} })],
  },
  {
    when: 'the guest migrates',
    template: { ...zone('a'), tolerations },
    status: moving,
    expected: [
      {
        kind: 'wait',
        reason: 'AffinityChangeError',
        message:
          'Error encountered while handling node affinity change request: Node affinity should not be changed during VMI migration',
      },
      {
        kind: 'wait',
        reason: 'TolerationsChangeError',
        message:
          'Error encountered while handling tolerations change request: tolerations should not be changed during VMI migration',
      },
    ],
  },
  {
    when: 'changes are staged',
    template: { tolerations },
    strategy: 'Stage',
    expected: [{ kind: 'restart', message: stagedMessage }],
  },
  {
    when: 'a bare API server took something else',
    template: { nodeSelector: 'a' as never, tolerations: { key: 'a' } },
    expected: [
      { kind: 'restart', message: 'spec.template.spec.nodeSelector must be an object' },
      { kind: 'restart', message: 'spec.template.spec.tolerations must be a list' },
    ],
  },
];

for (const { when, template, vmi, status, strategy = 'LiveUpdate', expected } of rows) {
  test(`where a running VM may go: ${when}`, () => {
    const vm = buildVm({ template: { spec: { domain: {}, ...template } } });
    const running = buildVmi(vmi, { phase: 'Running', ...status });
    assert.deepEqual(liveChanges(vm, running, { strategy, cpuAllocationRatio: 10 }), expected);
  });
}
