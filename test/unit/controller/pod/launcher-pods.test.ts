import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { LauncherPods } from '../../../../src/controller/pod/launcher-pods.ts';
import { podNames } from '../../../../src/controller/pod/render.ts';
import { buildPod, buildVmi } from '../builders.ts';

const vmi = buildVmi();
const recorded = buildVmi({}, { activePods: { 'uid-recorded': 'node1' } });
const pod = (name: string, uid: string, more: Partial<Pod['metadata']> = {}) => buildPod({}, { name, uid, ...more });
const nameOf = ({ salt }: LauncherPods) => podNames('vm1', 'uid-vmi', salt).podName;
const ownUids = (launchers: LauncherPods, of: typeof vmi, ...claimed: Pod[]) =>
  launchers.sort(of, claimed).own.map(({ metadata }) => metadata.uid);

const forgeries: Readonly<Record<string, Partial<Pod['metadata']>>> = {
  'all labels of a launcher': { labels: { 'kubevirt.io': 'virt-launcher', 'kubevirt.io/created-by': 'uid-vmi' } },
  'the labels of a migration target': { labels: { 'kubevirt.io/migrationJobUID': 'uid-job' } },
  'the annotations of a launcher': { annotations: { 'kubevirt.io/domain': 'vm1' } },
  'a younger date': { creationTimestamp: '2027-01-01T00:00:00Z' },
};
for (const [what, metadata] of Object.entries(forgeries)) {
  test(`a pod with an owner reference and ${what} is a foreign pod`, () => {
    const launchers = new LauncherPods('salt');
    const forged = pod('virt-launcher-vm1-zzzzz', 'uid-forged', metadata);
    const own = pod('whatever-upstream-called-it', 'uid-recorded');
    assert.deepEqual(launchers.sort(recorded, [own, forged]), { own: [own], foreign: [forged] });
    assert.deepEqual(launchers.sort(vmi, [forged]), { own: [], foreign: [forged] });
  });
}

test('a recorded pod that another controller has is none of this VMI', () => {
  const other = pod('x', 'uid-recorded', { ownerReferences: [] });
  assert.deepEqual(ownUids(new LauncherPods('salt'), recorded, other), []);
});

test('the pod of the name that only this process knows is believed before it is recorded; the same name of another process is not', () => {
  const [ours, others] = [new LauncherPods('salt'), new LauncherPods('other salt')];
  assert.notEqual(nameOf(ours), nameOf(others));
  assert.deepEqual(ownUids(ours, vmi, pod(nameOf(ours), 'uid-1'), pod(nameOf(others), 'uid-2')), ['uid-1']);
});

test('who takes the name when our pod is gone is a foreign pod; a pod that the API server made for us anew is not', () => {
  const launchers = new LauncherPods('salt');
  assert.deepEqual(ownUids(launchers, vmi, pod(nameOf(launchers), 'uid-1')), ['uid-1']);
  assert.deepEqual(ownUids(launchers, vmi, pod(nameOf(launchers), 'uid-2')), []);
  launchers.made(vmi, pod(nameOf(launchers), 'uid-3'));
  assert.deepEqual(ownUids(launchers, vmi, pod(nameOf(launchers), 'uid-3')), ['uid-3']);
});

test('a record is not forgotten when an old list of pods let a pod slip out of it, but with the VMI', () => {
  const launchers = new LauncherPods('salt');
  const target = pod('virt-launcher-vm1-target', 'uid-recorded');
  assert.deepEqual(ownUids(launchers, recorded, target), ['uid-recorded']);
  assert.deepEqual(ownUids(launchers, vmi, target), ['uid-recorded']);
  launchers.forget('default/vm1');
  assert.deepEqual(ownUids(launchers, vmi, target), []);
});

test('a VMI of the same name with another UID inherits nothing', () => {
  const launchers = new LauncherPods('salt');
  launchers.sort(recorded, []);
  const next = buildVmi({}, {}, { uid: 'uid-next' });
  assert.deepEqual(ownUids(launchers, next, pod('x', 'uid-recorded')), []);
});

test('each foreign pod is reported once, and of five at most', () => {
  const launchers = new LauncherPods('salt');
  const foreign = Array.from({ length: 20 }, (_, number) => pod(`foreign-${number}`, `uid-${number}`));
  assert.equal(launchers.newForeign(vmi, foreign.slice(0, 2)).length, 2);
  assert.equal(launchers.newForeign(vmi, foreign.slice(0, 2)).length, 0);
  assert.equal(launchers.newForeign(vmi, foreign).length, 3);
  assert.equal(launchers.newForeign(vmi, foreign).length, 0);
});
