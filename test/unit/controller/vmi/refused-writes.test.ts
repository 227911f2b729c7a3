import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finalizers, type Pod } from '../../../../src/api/index.ts';
import { reconcileVmi } from '../../../fixtures/controller/one-reconcile.ts';
import { buildConfig, buildPod, buildVmi } from '../builders.ts';
import { kinds, podSituations, stateOf } from './situations.ts';

const config = buildConfig();
const admitted = { finalizers: [finalizers.vmi] };
const writesOf = (writes: readonly { readonly method: string; readonly target: string }[]) =>
  writes.map(({ method, target }) => `${method} ${target}`);

test('a pod whose condition an admission webhook refuses gets its labels all the same', async () => {
  const running = podSituations.find(({ name }) => name === 'running');
  assert.ok(kinds[0] && running);
  const state = stateOf(kinds[0], 'Running', false, running);
  const [vmi, pod] = [state.vmis?.[0], state.pods?.[0]];
  assert.ok(vmi && pod);
  vmi.metadata.labels = { ...vmi.metadata.labels, 'kubevirt.io/nodeName': 'node1' };
  pod.status = { ...pod.status, conditions: [] };
  const condition = `PATCH pods/${pod.metadata.name}/status`;
  const { writes } = await reconcileVmi({ ...state, refused: [condition] }, config);
  assert.deepEqual(writesOf(writes).slice(0, 3), [condition, `PATCH pods/${pod.metadata.name}`, condition]);
  const [both, labels, only] = writes.map(({ body }) => Object.keys(body as object));
  assert.deepEqual([both, labels, only], [['metadata', 'status'], ['metadata'], ['metadata', 'status']]);
});

test('a launcher pod of an earlier VMI that cannot be deleted keeps none from being made', async () => {
  const left: Pod = buildPod({}, { name: 'left', uid: 'uid-left' });
  const [owner] = left.metadata.ownerReferences ?? [];
  assert.ok(owner);
  left.metadata.ownerReferences = [{ ...owner, uid: 'uid-of-an-earlier-one' }];
  const vmi = buildVmi({}, { phase: 'Pending', conditions: [] }, admitted);
  const refused = ['DELETE pods/left'];
  const { writes } = await reconcileVmi({ vmis: [vmi], pods: [left], refused }, config);
  assert.deepEqual(writesOf(writes).slice(0, 2), ['DELETE pods/left', 'POST pods']);
});
