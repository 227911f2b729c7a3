import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DomainSpecInput, VmiSpec } from '../../../../src/api/index.ts';
import { fillDefaults } from '../../../../src/controller/vmi/defaults.ts';
import { buildConfig, buildVmi } from '../builders.ts';

/** As setupHotplug of upstream's pkg/defaults/defaults.go gives them. */

interface Row {
  readonly when: string;
  readonly domain: DomainSpecInput;
  readonly spec?: Partial<VmiSpec>;
  readonly cluster?: Record<string, unknown>;
  /** Most sockets, most memory. */
  readonly expected: readonly [number | undefined, string | undefined];
}

const update = (fields: Record<string, unknown>) => ({ liveUpdateConfiguration: fields });
const gi = (guest: string, more: DomainSpecInput['memory'] = {}): DomainSpecInput => ({ memory: { guest, ...more } });
const sized = (cpu: NonNullable<DomainSpecInput['cpu']>): DomainSpecInput => ({ cpu, ...gi('1Gi') });

const rows: readonly Row[] = [
  { when: 'it says nothing of CPUs', domain: gi('1Gi'), expected: [4, '4Gi'] },
  {
    when: 'its sockets come from its request',
    domain: { ...gi('1Gi'), resources: { requests: { cpu: '3' } } },
    expected: [12, '4Gi'],
  },
  {
    when: 'it has said how much',
    domain: { cpu: { sockets: 2, maxSockets: 3 }, ...gi('1Gi', { maxGuest: '2Gi' }) },
    expected: [3, '2Gi'],
  },
  { when: 'it has only cores', domain: sized({ cores: 2 }), expected: [undefined, '4Gi'] },
  { when: 'four times as many CPUs are too many', domain: sized({ sockets: 40, cores: 4 }), expected: [128, '4Gi'] },
  { when: 'it has more CPUs than others can get', domain: sized({ sockets: 300, cores: 2 }), expected: [300, '4Gi'] },
  { when: 'one socket has too many CPUs', domain: sized({ sockets: 1, cores: 600 }), expected: [1, '4Gi'] },
  {
    when: 'the cluster has another ratio',
    domain: gi('1Gi'),
    cluster: update({ maxHotplugRatio: 2 }),
    expected: [2, '2Gi'],
  },
  {
    when: 'the cluster says how much',
    domain: gi('1Gi'),
    cluster: update({ maxCpuSockets: 6, maxGuest: '3Gi' }),
    expected: [6, '3Gi'],
  },
  {
    when: 'it has more sockets than the cluster says',
    domain: sized({ sockets: 8 }),
    cluster: update({ maxCpuSockets: 6 }),
    expected: [8, '4Gi'],
  },
  {
    when: 'it has more memory than the cluster says',
    domain: gi('4Gi'),
    cluster: update({ maxGuest: '3Gi' }),
    expected: [4, undefined],
  },
  {
    when: 'changes wait for the next start',
    domain: gi('1Gi'),
    cluster: { vmRolloutStrategy: 'Stage' },
    expected: [undefined, undefined],
  },
  { when: 'it is small', domain: gi('512Mi'), expected: [4, undefined] },
  { when: 'its memory is in no blocks', domain: gi('1073741825'), expected: [4, undefined] },
  { when: 'it is encrypted', domain: { ...gi('1Gi'), launchSecurity: { sev: {} } }, expected: [4, undefined] },
  { when: 'it has no memory that is known', domain: {}, expected: [4, undefined] },
  { when: 'it is of ARM', domain: gi('1Gi'), spec: { architecture: 'arm64' }, expected: [undefined, undefined] },
  {
    when: 'it is of another architecture',
    domain: gi('1Gi'),
    spec: { architecture: 's390x' },
    expected: [4, undefined],
  },
];

for (const { when, domain, spec = {}, cluster = {}, expected } of rows) {
  test(`room for more CPUs and memory is ${expected.map((each) => each ?? 'none').join(' and ')} when ${when}`, () => {
    const vmi = buildVmi({ domain: structuredClone(domain), ...spec });
    const config = buildConfig(cluster);
    fillDefaults(vmi, config, () => 'u');
    const once = structuredClone(vmi);
    fillDefaults(vmi, config, () => 'u');
    assert.deepEqual(vmi, once);
    assert.deepEqual([vmi.spec.domain.cpu?.maxSockets, vmi.spec.domain.memory?.maxGuest], expected);
  });
}
