import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, ResourceType } from '../../../src/api/index.ts';
import { type KubeClient, KubeError } from '../../../src/kube/index.ts';
import { untilMoved } from '../../../src/standalone/cli/migrate.ts';

/** What an API server has at each look, the last for ever: name of the migration → its status. */
type Story = readonly Readonly<Record<string, object>>[];

const failed = (retry: object | undefined) => ({
  phase: 'Failed',
  conditions: [
    { type: 'migrationFailed', status: 'True', reason: 'MigrationFailed', message: 'the streams were cut' },
    ...(retry ? [{ type: 'migrationRetry', ...retry }] : []),
  ],
});
const due = failed({ status: 'True', reason: 'RetryDue', message: 'a loss ended it' });
const retried = failed({ status: 'True', reason: 'Retried', message: 'tried again' });
const needless = failed({ status: 'False', reason: 'RetryNeedless', message: 'not tried again: it is cancelled' });

/** What `virt-node migrate` says in the end, and on its way. */
async function follow(story: Story): Promise<{ said: string; lines: string[] }> {
  let look = -1;
  const client = {
    get: async ({ kind }: ResourceType, { name = '' }: { readonly name?: string }) => {
      const metadata = { name, namespace: 'default', uid: kind === 'VirtualMachineInstance' ? 'vmi' : '12345678-9' };
      if (kind === 'VirtualMachineInstance')
        return { metadata, status: { nodeName: 'node2' } } as unknown as KubeObject;
      if (name === 'job' || look < 0) look = Math.min(look + 1, story.length - 1);
      const status = story[look]?.[name];
      if (!status) throw new KubeError('NOT_FOUND', 'none');
      const deleted = 'isDeleted' in status && { deletionTimestamp: '2026-01-01T00:00:00Z' };
      return { metadata: { ...metadata, ...deleted }, spec: { vmiName: 'demo' }, status } as unknown as KubeObject;
    },
  } as unknown as Pick<KubeClient, 'get'>;
  const lines: string[] = [];
  const vm = { namespace: 'default', name: 'demo' };
  const awaited = { vm, vmiUid: 'vmi', migration: 'job', report: (line: string) => lines.push(line) };
  const said = await untilMoved(client, awaited, AbortSignal.timeout(10_000)).catch((error: Error) => error.message);
  return { said, lines };
}

const again = 'job-retry-12345678';

test('a migration that a loss has ended is followed to the one that tries it again, which is waited for', async () => {
  const { said, lines } = await follow([
    { job: { phase: 'Running' } },
    { job: due },
    { job: retried, [again]: { phase: 'Succeeded' } },
  ]);
  assert.equal(said, 'default/demo is on node2 now');
  assert.deepEqual(lines, [
    'Running',
    'Failed',
    `Failed: the streams were cut. It is tried again: ${again}`,
    'Succeeded',
  ]);
});

test('the retry fails, or is cancelled: that is the end', async () => {
  const failure = await follow([{ job: retried, [again]: failed(undefined) }]);
  assert.equal(failure.said, 'default/demo was not moved: the streams were cut');
  const cancelled = await follow([{ job: retried }]);
  assert.equal(cancelled.said, 'default/demo stays where it is: the migration was cancelled');
});

test('one that was cancelled and has failed by that is not called a failure', async () => {
  const { said } = await follow([{ job: { phase: 'Running' } }, { job: { ...failed(undefined), isDeleted: true } }]);
  assert.equal(said, 'default/demo stays where it is: the migration was cancelled');
});

test('one that is not tried again after all has failed', async () => {
  const { said, lines } = await follow([{ job: due }, { job: needless }]);
  assert.equal(said, 'default/demo was not moved: the streams were cut');
  assert.deepEqual(lines, ['Failed']);
});
