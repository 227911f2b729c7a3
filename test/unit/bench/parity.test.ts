import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, needless, report } from '../../../bench/parity/compare.ts';
import type { PlayedCall } from '../../../bench/parity/played-launcher.ts';
import { lookAt } from '../../../bench/parity/view.ts';

const names = { scenario: 'any', namespace: 'parity-ours', privateDir: '/private', podsDir: '/x/pods', uids: ['u-1'] };

function look(status: object, events: object[] = []) {
  const metadata = { name: 'any', namespace: 'parity-ours', uid: 'u-1', resourceVersion: '7' };
  return lookAt('started', { vmi: { metadata, spec: {}, status }, events, ghosts: [], calls: [] }, names);
}

const paused = (lastTransitionTime: string | null) => ({
  conditions: [{ type: 'Paused', status: 'True', lastTransitionTime }],
});

test('two agents that do the same at different times are equal', () => {
  const [ours, other] = [look(paused('2026-01-02T03:04:05Z')), look(paused('2026-01-02T03:04:09Z'))];
  assert.deepEqual(compare('any', [ours], [other]).differences, []);
});

test('a time that is null, and one with fractions of a second, differ from one with seconds', () => {
  for (const time of [null, '2026-01-02T03:04:05.123Z']) {
    const { differences } = compare('any', [look(paused('2026-01-02T03:04:05Z'))], [look(paused(time))]);
    assert.deepEqual(
      differences.map(({ path }) => path),
      ['vmi › status › conditions › Paused › lastTransitionTime'],
    );
  }
});

test('what only one side has is one finding, and an empty list is not the same as none', () => {
  const { differences } = compare(
    'any',
    [look({ interfaces: [] })],
    [look({ memory: { guestCurrent: '1Gi', more: 1 } })],
  );
  assert.deepEqual(
    differences.map(({ path, ours, other }) => [path, ours, other]),
    [
      ['vmi › status › interfaces', '[]', undefined],
      ['vmi › status › memory', undefined, '{"guestCurrent":"1Gi","more":1}'],
    ],
  );
});

test('a look that the other side never got to is a finding', () => {
  const { differences } = compare('any', [look({})], []);
  assert.equal(differences.length, 1);
});

test('the report tells what is meant from what is found', () => {
  const reported = (count: number) => [
    { type: 'Normal', reason: 'Deleted', message: 'Signaled Deletion', count, involvedObject: {} },
  ];
  const result = compare('any', [look({ phase: 'Failed' }, reported(1))], [look({ phase: 'Running' }, reported(3))]);
  assert.match(
    report([result], false),
    /any: DIFFERS \(1 looks, 1 meant, 1 findings\)\n {2}started: vmi › status › phase/,
  );
});

test('what is meant in one scenario is a finding in another, and what is meant with one value is one with another', () => {
  const called = (rpc: string): readonly PlayedCall[] => [
    { rpc, request: { vmi: undefined } } as unknown as PlayedCall,
  ];
  const at = (calls: readonly PlayedCall[]) =>
    lookAt('runs again', { vmi: undefined, events: [], ghosts: [], calls }, names);
  const findings = (scenario: string, rpc: string) =>
    compare(scenario, [at([])], [at(called(rpc))]).differences.filter(({ reason }) => reason === undefined).length;
  assert.equal(findings('pause-by-user', 'syncVirtualMachine'), 0);
  assert.equal(findings('change-annotation', 'syncVirtualMachine'), 2);
  assert.equal(findings('pause-by-user', 'killVirtualMachine'), 2);
});

test('an excuse that nothing needed is told, unless it is a matter of time', () => {
  const all = needless([]);
  assert.ok(all.length > 20);
  assert.ok(all.every(({ sometimes }) => sometimes === undefined));
  const reported = (count: number) =>
    look({}, [{ type: 'Normal', reason: 'Deleted', message: 'Signaled Deletion', count, involvedObject: {} }]);
  assert.equal(needless([compare('any', [reported(1)], [reported(3)])]).length, all.length - 1);
});
