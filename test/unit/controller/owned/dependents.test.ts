import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, type OwnerReference, resources, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { Dependents } from '../../../../src/controller/owned/index.ts';
import { ReadYourWrites } from '../../../../src/reconcile/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildSet, member, owner } from '../replica-set/situations.ts';

type Vmi = VirtualMachineInstance;

function world(...vmis: readonly Vmi[]) {
  const shown = new Map(vmis.map((vmi) => [keyOf(vmi), vmi]));
  let changed: (key: string) => void = () => undefined;
  const clock = new FakeClock();
  const cache = {
    synced: true,
    get: (key: string) => shown.get(key),
    keys: () => shown.keys(),
    onChange: (listener: typeof changed) => {
      changed = listener;
      return () => undefined;
    },
  };
  const objects = new ReadYourWrites<Vmi>(cache, { giveUp: { afterMs: 10_000, clock }, wakeOnEcho: true });
  const dependents = new Dependents(objects, resources.replicaSets);
  const heard: string[] = [];
  const end = dependents.follow({
    owner: (key) => heard.push(key),
    orphan: ({ metadata }) => heard.push(`orphan ${metadata.name}`),
  });
  const show = (vmi: Vmi) => {
    shown.set(keyOf(vmi), vmi);
    changed(keyOf(vmi));
  };
  const hide = (vmi: Vmi) => {
    shown.delete(keyOf(vmi));
    changed(keyOf(vmi));
  };
  return {
    dependents,
    heard,
    show,
    hide,
    end,
    clock,
    names: () => dependents.of(buildSet()).map(({ metadata }) => metadata.name),
  };
}

const ownedBy = (reference: Partial<OwnerReference>) =>
  member('a', {}, { ownerReferences: [{ ...owner, ...reference }] });

test('those that were there, came and went are known by their owner', () => {
  const { heard, show, hide, names } = world(member('a'));
  assert.deepEqual(names(), ['a']);
  show(member('b'));
  assert.deepEqual(names(), ['a', 'b']);
  hide(member('a'));
  assert.deepEqual(names(), ['b']);
  assert.deepEqual(heard, ['default/web', 'default/web']);
});

test('one that changes hands wakes both owners', () => {
  const { heard, show, names } = world(member('a'));
  show(ownedBy({ name: 'other', uid: 'uid-other' }));
  assert.deepEqual([heard, names()], [['default/web', 'default/other'], []]);
});

test('an owner of the same name and another UID, or of another kind, has nothing of it', () => {
  for (const reference of [{ uid: 'another' }, { kind: 'VirtualMachine' }, { apiVersion: 'apps/v1' }])
    assert.deepEqual(world(ownedBy(reference)).names(), []);
});

test('one that nothing controls is told, and found by its namespace', () => {
  const { dependents, heard, show } = world();
  const orphan = member('a', {}, { ownerReferences: [] });
  show(orphan);
  assert.deepEqual(heard, ['orphan a']);
  assert.deepEqual(dependents.orphans('default'), [orphan]);
  assert.deepEqual(dependents.orphans('other'), []);
  show(member('a'));
  assert.deepEqual([dependents.orphans('default'), heard.at(-1)], [[], 'default/web']);
});

test('an own creation counts at once, and its owner is woken when no watch ever shows it', async () => {
  const { dependents, heard, clock, names } = world();
  dependents.created(member('made'));
  assert.deepEqual([names(), heard], [['made'], []]);
  await clock.pass(10_001);
  assert.deepEqual([names(), heard], [[], ['default/web']]);
});

test('nothing is kept after the end', () => {
  const { dependents, end } = world(member('a'), member('b', {}, { ownerReferences: [] }));
  end();
  assert.deepEqual([dependents.of(buildSet()), dependents.orphans('default')], [[], []]);
});
