import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DomainSpecInput, VmiPhase, VmiStatus } from '../../../../src/api/index.ts';
import { projectVmi } from '../../../../src/controller/vmi/project.ts';
import { buildRunningPod, buildVmi, buildVmiFacts } from '../builders.ts';

const failed = { type: 'HotMemoryChange', status: 'False', reason: 'Memory Hotplug Failed' } as const;
const topology = { sockets: 1, cores: 2, threads: 1 };
const cpu = (sockets: number, maxSockets = 4): DomainSpecInput => ({ cpu: { sockets, maxSockets, cores: 2 } });
const memory = (guest: string): DomainSpecInput => ({ memory: { guest, maxGuest: '4Gi' } });
const requested: VmiStatus = { memory: { guestAtBoot: '1Gi', guestCurrent: '1Gi', guestRequested: '1Gi' } };

interface Row {
  readonly when: string;
  readonly domain: DomainSpecInput;
  readonly status: VmiStatus;
  readonly phase?: VmiPhase;
  readonly expected: string;
}

const rows: readonly Row[] = [
  { when: 'it has what it wants', domain: cpu(1), status: { currentCPUTopology: topology }, expected: '' },
  {
    when: 'it wants more CPUs',
    domain: cpu(2),
    status: { currentCPUTopology: topology },
    expected: 'HotVCPUChange=True',
  },
  { when: 'it has no room for CPUs', domain: cpu(2, 0), status: { currentCPUTopology: topology }, expected: '' },
  { when: 'its CPUs are not known', domain: cpu(2), status: {}, expected: '' },
  { when: 'it wants no other memory', domain: memory('1024Mi'), status: requested, expected: '' },
  { when: 'it wants more memory', domain: memory('2Gi'), status: requested, expected: 'HotMemoryChange=True' },
  { when: 'it has no room for memory', domain: { memory: { guest: '2Gi' } }, status: requested, expected: '' },
  { when: 'it does not run yet', domain: memory('2Gi'), status: requested, phase: 'Scheduled', expected: '' },
  {
    when: 'the CPUs could not be plugged in',
    domain: cpu(2),
    status: { currentCPUTopology: topology, conditions: [{ type: 'HotVCPUChangeFailed', status: 'True' }] },
    expected: 'HotVCPUChangeFailed=True',
  },
  {
    when: 'the memory could not be plugged in',
    domain: memory('2Gi'),
    status: { ...requested, conditions: [failed] },
    expected: 'HotMemoryChange=False',
  },
];

for (const { when, domain, status, phase = 'Running', expected } of rows) {
  test(`conditions of a VMI: ${when}`, () => {
    const vmi = buildVmi({ domain }, { phase, ...status });
    const now = new Date('2026-01-01T00:00:00Z');
    const seen = buildVmiFacts({ vmi, pod: buildRunningPod(), now, hasOwnerVm: true });
    const projected = projectVmi(seen, { randomUuid: () => '', vsockCid: () => 3 });
    const conditions = (projected.status?.conditions ?? []).filter(({ type }) => type.startsWith('Hot'));
    assert.equal(conditions.map((one) => `${one.type}=${one.status}`).join(' '), expected);
    const again = projectVmi(
      { ...seen, vmi: projected, now: new Date('2026-01-01T00:01:00Z') },
      { randomUuid: () => '', vsockCid: () => 3 },
    );
    assert.deepEqual(again, projected);
  });
}
