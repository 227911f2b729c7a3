import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import { domainOf, nowMs, observationOf, presentVmi, seen, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { plugging } from './hot-plug.ts';
import { memory, type Row } from './row.ts';

/** The same VMI with CPUs of its own. */
export function onOwnCpus(given: Observation['vmi']): Observation['vmi'] {
  if (given.kind !== 'present') return given;
  const { vmi } = given;
  const domain = { ...vmi.spec.domain, cpu: { dedicatedCpuPlacement: true } };
  return presentVmi({ ...vmi, spec: { ...vmi.spec, domain } });
}

const dedicated = onOwnCpus(presentVmi(vmiOf('Running')));
const { statusFacts } = observationOf();

/** A guest whose threads could not be placed, this often. */
export function unplaced({ fingerprint = 'same', count = 1, lastMs = nowMs } = {}): Partial<Observation> {
  return {
    vmi: dedicated,
    domain: seen(domainOf()),
    hostFacts: { limits: { isPlaced: false, unplaced: 'no cgroup' } },
    memory: memory({ placementTries: { fingerprint, count, lastMs } }),
  };
}

export const placementRows: readonly Row[] = [
  {
    rule: 'placement-due',
    when: 'it has CPUs of its own and waits, paused, until its emulator is elsewhere',
    given: {
      vmi: dedicated,
      domain: seen(domainOf('Paused', 'User')),
      hostFacts: { limits: { isPlaced: false } },
    },
    expect: { steps: ['settleHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'placement-due',
    when: 'it runs, and was changed since its threads were placed',
    given: { vmi: dedicated, domain: seen(domainOf()), hostFacts: { limits: { isPlaced: false } } },
    expect: { steps: ['settleHost'] },
  },
  {
    rule: 'steady',
    when: 'its threads are where they belong',
    given: { vmi: dedicated, domain: seen(domainOf()), hostFacts: { limits: { isPlaced: true } } },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'placement-due',
    when: 'it could not be placed, and the pause since is over',
    given: unplaced({ count: 3, lastMs: nowMs - 4_000 }),
    expect: { steps: ['settleHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'placement-due',
    when: 'it could not be placed, and asks for something else since',
    given: unplaced({ fingerprint: 'older' }),
    expect: { steps: ['settleHost'] },
  },
  {
    rule: 'guest-paused',
    when: 'it waits, paused, and its emulator cannot be put elsewhere',
    given: { ...unplaced(), domain: seen(domainOf('Paused', 'User')) },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'], requeueAfterMs: 1_000 },
  },
  {
    rule: 'volume-plug-due',
    when: 'a volume comes to it, and its threads cannot be placed',
    given: {
      ...unplaced(),
      vmi: onOwnCpus(plugging('Running', 'AttachedToNode')),
      statusFacts: { ...statusFacts, mountedVolumes: [] },
    },
    expect: { steps: ['adjustHost'], requeueAfterMs: 1_000 },
  },
  {
    rule: 'volume-unplug-due',
    when: 'a volume is taken out of it, and its threads cannot be placed',
    given: {
      ...unplaced(),
      vmi: onOwnCpus(plugging('Running', 'Ready', { wanted: false })),
      statusFacts: { ...statusFacts, mountedVolumes: ['late'] },
      memory: memory({ placementTries: { fingerprint: 'same', count: 9, lastMs: nowMs } }),
      domain: seen(domainOf()),
    },
    expect: { steps: ['settleHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'steady',
    when: 'its threads cannot be placed, which is tried again later',
    given: unplaced({ count: 3, lastMs: nowMs - 3_000 }),
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
];
