import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, OwnerReference } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { DisruptionBudgets } from '../../../../src/controller/disruption-budget/index.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';
import { buildVmi } from '../builders.ts';

function budget(name: string, owner: Partial<OwnerReference> | undefined, metadata: object = {}): KubeObject {
  const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', name: 'vm1', uid: 'uid-vmi' };
  const ownerReferences = owner ? [{ ...vmi, controller: true, ...owner }] : [];
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, namespace: 'default', uid: `uid-${name}`, ownerReferences, ...metadata },
  };
}

const error = (code: 'UNREACHABLE' | 'FORBIDDEN' | 'NOT_FOUND') => new KubeError(code, code);

/** `lists`: what the API server answers, one after the other. */
async function swept(lists: readonly (readonly KubeObject[] | Error)[], refusal?: Error) {
  const clock = new FakeClock();
  const calls: string[] = [];
  const events: string[] = [];
  let asked = 0;
  const budgets = new DisruptionBudgets({
    client: {
      list: async () => {
        const answer = lists[asked++] ?? assert.fail('asked once more');
        if (answer instanceof Error) throw answer;
        return { items: [...answer], resourceVersion: '1' } as never;
      },
      delete: async (_type, { name }, { uid } = {}) => {
        calls.push(`${name} ${uid}`);
        if (refusal) throw refusal;
        return {} as never;
      },
    },
    vmis: { get: (key) => (key === 'default/vm1' ? buildVmi() : undefined) },
    events: { record: (_vmi, _type, reason, message) => events.push(`${reason} ${message}`) },
    clock,
    log: silentLogger,
    random: () => 0,
  });
  await budgets.start();
  await settle();
  await clock.pass(3_600_000);
  await settle();
  await budgets.stop();
  return { asked, calls, events };
}

test('budgets that VMIs control are deleted by their UID, and all others stay', async () => {
  const { calls, events } = await swept([
    [
      budget('old', {}),
      budget('of-gone-vmi', { name: 'gone' }),
      budget('users', undefined),
      budget('of-other-kind', { kind: 'VirtualMachine' }),
      budget('of-other-group', { apiVersion: 'example.com/v1' }),
      budget('not-controlled', { controller: false }),
      budget('going', {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    ],
  ]);
  assert.deepEqual(calls, ['old uid-old', 'of-gone-vmi uid-of-gone-vmi']);
  assert.deepEqual(events, ['SuccessfulDelete Deleted PodDisruptionBudget old']);
});

test('a list that fails is asked for again, and after one that was read never again', async () => {
  const { asked, calls } = await swept([error('UNREACHABLE'), error('UNREACHABLE'), [budget('old', {})]]);
  assert.deepEqual([asked, calls], [3, ['old uid-old']]);
});

test('an API server without the kind, or without the right to it, is asked once', async () => {
  assert.equal((await swept([error('NOT_FOUND')])).asked, 1);
  assert.equal((await swept([error('FORBIDDEN')])).asked, 1);
});

test('one that is gone meanwhile is no failure', async () => {
  const { asked, events } = await swept([[budget('old', {})]], error('NOT_FOUND'));
  assert.deepEqual([asked, events], [1, []]);
});
