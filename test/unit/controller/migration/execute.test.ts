import assert from 'node:assert/strict';
import { test } from 'node:test';
import { executors } from '../../../../src/controller/migration/execute.ts';
import type { ExecuteContext } from '../../../../src/controller/migration/steps.ts';
import { KubeError, type KubeErrorCode } from '../../../../src/kube/index.ts';
import { buildPod, buildVmi } from '../builders.ts';

/** How the place among migrations under way is given back when the creation of a target pod ends with this error. */
async function givenBack(code: KubeErrorCode): Promise<boolean[]> {
  const released: boolean[] = [];
  const context = {
    quotas: { countedIn: async () => new Set() },
    client: {
      create: async () => {
        throw new KubeError(code, 'no pod');
      },
    },
    observation: { vmi: buildVmi(), config: {} },
    reserve: () => (isUnclear: boolean) => released.push(isUnclear),
    noteOnVmi: () => undefined,
    signal: new AbortController().signal,
  };
  const step = { step: 'createTargetPod', pod: buildPod(), leftovers: [] } as const;
  const { kind } = await executors.createTargetPod(step, context as unknown as ExecuteContext);
  assert.equal(kind, 'failed');
  return released;
}

for (const code of ['UNREACHABLE', 'TIMEOUT', 'SERVER_ERROR'] as const) {
  test(`a target pod that may have been made keeps its place among migrations: ${code}`, async () => {
    assert.deepEqual(await givenBack(code), [true]);
  });
}

test('a target pod that was refused takes no place among migrations', async () => {
  assert.deepEqual(await givenBack('FORBIDDEN'), [false]);
});

test('copied volumes are taken out of a VMI whose list of them is the one that was seen', async () => {
  const migratedVolumes = [{ volumeName: 'disk' }];
  const patches: object[] = [];
  const context = {
    client: { patch: async (...[, , body]: unknown[]) => void patches.push(body as object) },
    vmis: { saw: () => undefined },
    observation: { vmi: buildVmi({}, { phase: 'Running', migratedVolumes }) },
    signal: new AbortController().signal,
  };
  const { kind } = await executors.forgetCopies({ step: 'forgetCopies' }, context as unknown as ExecuteContext);
  const path = '/status/migratedVolumes';
  assert.deepEqual(
    [kind, (patches as object[][])[0]?.slice(-2)],
    [
      'done',
      [
        { op: 'test', path, value: migratedVolumes },
        { op: 'remove', path },
      ],
    ],
  );
});
