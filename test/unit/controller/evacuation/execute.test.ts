import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../../../src/api/index.ts';
import { type ExecuteContext, executors } from '../../../../src/controller/evacuation/execute.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildVmi } from '../builders.ts';

/** An API server that answers a turn later, and refuses the migrations of some VMIs. */
function server(refused: readonly string[] = []) {
  const asked: string[] = [];
  const events: string[] = [];
  const ending = new AbortController();
  let open = 0;
  let most = 0;
  const create = async (_: unknown, migration: VirtualMachineInstanceMigration) => {
    const { vmiName = '' } = migration.spec;
    asked.push(vmiName);
    open++;
    most = Math.max(most, open);
    await new Promise((resolve) => setImmediate(resolve));
    open--;
    if (refused.includes(vmiName)) throw new KubeError('FORBIDDEN', `no room for ${vmiName}`);
    return { ...migration, metadata: { ...migration.metadata, name: `evacuation-${vmiName}` } };
  };
  const context = {
    client: { create },
    migrations: { created: () => undefined },
    node: 'node1',
    noteOnVmi: ({ metadata }: VirtualMachineInstance, { reason }: { reason: string }) =>
      events.push(`${metadata.name} ${reason}`),
    signal: ending.signal,
  };
  return { context: context as unknown as ExecuteContext, asked, events, ending, most: () => most };
}

const guests = Array.from({ length: 50 }, (_, at) => {
  const vmi = buildVmi();
  return { ...vmi, metadata: { ...vmi.metadata, name: `vm${at}`, uid: `uid-${at}` } };
});

const step = { step: 'createMigrations', vmis: guests } as const;

test('a full node is emptied with eight requests under way at most', async () => {
  const { context, asked, most } = server();
  assert.deepEqual(await executors.createMigrations(step, context), { kind: 'done' });
  assert.deepEqual([asked.length, most()], [50, 8]);
});

test('a guest whose migration is refused keeps no other from leaving, and the step says what was refused', async () => {
  const { context, asked, events } = server(['vm3']);
  assert.deepEqual(await executors.createMigrations(step, context), {
    kind: 'failed',
    error: { severity: 'retry', code: 'CREATE_FAILED', message: 'Error creating a Migration: no room for vm3' },
  });
  assert.equal(asked.length, 50);
  assert.deepEqual(
    events.filter((each) => each.endsWith('FailedCreate')),
    ['vm3 FailedCreate'],
  );
});

test('a controller that ends asks for no further migration', async () => {
  const { context, asked, ending } = server();
  const running = executors.createMigrations(step, context);
  ending.abort(new Error('the controller ends'));
  await assert.rejects(async () => running, /the controller ends/);
  assert.equal(asked.length, 8);
});
