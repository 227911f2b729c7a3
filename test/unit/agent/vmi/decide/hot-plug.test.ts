import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { observationOf, presentVmi } from '../../../../fixtures/agent/builders.ts';
import { plugging } from './rule-rows/hot-plug.ts';
import { leaving, migration, open, reported, started } from './rule-rows/leaving.ts';

const { statusFacts } = observationOf();
const mounted = (...mountedVolumes: string[]) => ({ statusFacts: { ...statusFacts, mountedVolumes } });

function migrating(vmi: Observation['vmi']): Observation['vmi'] {
  const away = leaving(started);
  assert.ok(vmi.kind === 'present' && away.kind === 'present');
  const { migrationState } = away.vmi.status ?? {};
  return presentVmi({ ...vmi.vmi, status: { ...vmi.vmi.status, ...(migrationState && { migrationState }) } });
}

test('while the guest migrates nothing is plugged or unplugged, and its owner reads why', () => {
  for (const [vmi, facts, words] of [
    [plugging('Running', 'AttachedToNode'), mounted(), /not plugged into the guest: late\. It is done when/],
    [plugging('Running', 'Ready', { wanted: false }), mounted('late'), /not unplugged: late\. It is done when/],
  ] as const) {
    const given = { vmi: migrating(vmi), domain: reported(), migrationProxies: open, memory: migration() };
    const decision = decide(observationOf({ ...given, syncFingerprint: 'new', ...facts }));
    assert.equal(decision.route, 'migration-source');
    assert.deepEqual(
      decision.steps.filter(({ step }) => /Host$|^sync/.test(step)),
      [],
    );
    assert.match(decision.problem ?? '', words);
  }
});

test('why a volume does not come is told until it comes', () => {
  const failed = { 'hotplug-volumes': { volumes: [], awaited: {}, failed: { late: 'no image', other: 'gone' } } };
  const decision = decide(
    observationOf({ vmi: plugging('Running', 'AttachedToNode'), hostFacts: failed, ...mounted() }),
  );
  assert.deepEqual([decision.rule, decision.problem, decision.healthy], ['volume-plug-due', 'no image', undefined]);
});

test('a volume that never comes keeps neither another one nor a dump waiting', () => {
  const vmi = plugging('Running', 'AttachedToNode');
  assert.ok(vmi.kind === 'present');
  const memoryDumpVolume = { claimName: 'c', targetFileName: 'file.memory.dump' };
  const volumeStatus = [
    ...(vmi.vmi.status?.volumeStatus ?? []),
    { name: 'dump', target: '', phase: 'MemoryDumpInProgress', memoryDumpVolume },
  ];
  const changed = presentVmi({ ...vmi.vmi, status: { ...vmi.vmi.status, volumeStatus } });
  const stuck = observationOf({ vmi: changed, ...mounted() });
  assert.deepEqual(
    decide(stuck).steps.map(({ step }) => step),
    ['adjustHost', 'dumpMemory'],
  );
});
