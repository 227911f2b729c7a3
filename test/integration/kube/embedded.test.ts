import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { ApiServer, ensureCertificates, writeKubeconfig } from '../../../src/apiserver/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { EventRecorder, Informer, KubeClient, LeaderElector, loadKubeAccess } from '../../../src/kube/index.ts';
import { eventually } from '../../fixtures/eventually.ts';

const type = resources.configMaps;
const token = 'a-token-for-this-test-only';

let dir: string;
let api: ApiServer;
let client: KubeClient;
let port = 0;

async function newApi(): Promise<ApiServer> {
  const tls = await ensureCertificates(path.join(dir, 'certs'));
  const tokens = [{ token, user: 'admin', groups: ['system:masters'] }];
  return new ApiServer(
    { dataDir: path.join(dir, 'data'), host: '127.0.0.1', port, tls, tokens, bookmarkIntervalMs: 100 },
    { log: silentLogger },
  );
}

before(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'kube-embedded-'));
  api = await newApi();
  port = (await api.start()).port;
  const kubeconfig = path.join(dir, 'kubeconfig');
  const { ca } = await ensureCertificates(path.join(dir, 'certs'));
  await writeKubeconfig(kubeconfig, { server: `https://127.0.0.1:${port}`, ca, token, user: 'admin' });
  client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig }) });
});
after(async () => {
  client.close();
  await api.stop();
  await rm(dir, { recursive: true, force: true });
});

function configMap(name: string, data: Record<string, string> = {}): KubeObject & { data: Record<string, string> } {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default' }, data };
}

test('an object lives its whole life over TLS: create, get, update, conflict, patch, delete', async () => {
  const created = await client.create(type, configMap('life', { a: '1' }));
  await assert.rejects(client.create(type, configMap('life')), { code: 'ALREADY_EXISTS' });
  const updated = await client.update(type, { ...created, data: { a: '2' } });
  await assert.rejects(client.update(type, { ...created, data: { a: '3' } }), { code: 'CONFLICT' });
  const merged = await client.patch<typeof created>(type, created.metadata, { data: { b: '1' } }, 'merge');
  assert.deepEqual(merged.data, { a: '2', b: '1' });
  const wrongTest = [{ op: 'test', path: '/data/a', value: 'x' }];
  await assert.rejects(client.patch(type, created.metadata, wrongTest, 'json'), { code: 'INVALID' });
  await assert.rejects(client.delete(type, updated.metadata, { uid: 'another' }), { code: 'CONFLICT' });
  await client.delete(type, updated.metadata, { uid: updated.metadata.uid });
  await assert.rejects(client.get(type, updated.metadata), { code: 'NOT_FOUND' });
});

test('an informer follows the server through its restart, without losing or inventing objects', async () => {
  const reported: string[] = [];
  const informer = new Informer({ type, namespace: 'default', backoff: { baseMs: 20, maxMs: 200 } }, { client });
  informer.addHandlers({
    added: ({ metadata }) => reported.push(`+${metadata.name}`),
    updated: (_old, { metadata }) => reported.push(`~${metadata.name}`),
    deleted: ({ metadata }) => reported.push(`-${metadata.name}`),
  });
  await client.create(type, configMap('before'));
  await informer.start();
  await informer.waitForSync(AbortSignal.timeout(5_000));
  await eventually(() => assert.equal(informer.isConnected, true));
  await api.stop();
  await eventually(() => assert.equal(informer.isConnected, false));
  assert.equal(informer.size, 1);
  api = await newApi();
  await api.start();
  await client.create(type, configMap('after'));
  await eventually(() => assert.deepEqual(reported, ['+before', '+after']));
  await client.delete(type, { namespace: 'default', name: 'before' });
  await eventually(() => assert.deepEqual(reported, ['+before', '+after', '-before']));
  await informer.stop();
});

test('bookmarks keep an informer with a quiet selector fresh', async () => {
  const informer = new Informer({ type, namespace: 'default', labelSelector: 'quiet=yes' }, { client });
  await informer.start();
  await informer.waitForSync(AbortSignal.timeout(5_000));
  const sinceMs = informer.lastSuccessMs ?? 0;
  await eventually(() => assert.ok((informer.lastSuccessMs ?? 0) > sinceMs + 100));
  assert.equal(informer.health.lists, 1);
  await informer.stop();
});

test('a list in pages gives each object once', async () => {
  for (let index = 0; index < 23; index++) await client.create(type, configMap(`page-${index}`));
  const { items } = await client.list(type, { namespace: 'default', pageSize: 5 });
  const names = items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith('page-'));
  assert.equal(names.length, 23);
  assert.equal(new Set(names).size, 23);
  assert.ok(items.every(({ kind, apiVersion }) => kind === 'ConfigMap' && apiVersion === 'v1'));
});

test('events of the recorder are stored, and repeats counted', async () => {
  const subject = await client.create(type, configMap('subject'));
  const recorder = new EventRecorder({ component: 'test', host: 'node1' }, { client });
  for (let index = 0; index < 3; index++) recorder.record(subject, 'Normal', 'Tested', 'again');
  await recorder.stop();
  const { items } = await client.list<KubeObject & { count: number }>(resources.events, {
    namespace: 'default',
    fieldSelector: 'involvedObject.name=subject',
  });
  assert.deepEqual(
    items.map(({ count }) => count),
    [3],
  );
});

function elector(identity: string): LeaderElector {
  const times = { durationMs: 1_500, renewDeadlineMs: 1_000, retryPeriodMs: 50 };
  return new LeaderElector({ namespace: 'default', name: 'leader', identity, ...times }, { client });
}

test('a second process leads only after the first has given the lease back', async () => {
  const first = elector('first');
  const second = elector('second');
  const stop = new AbortController();
  await first.acquire(AbortSignal.timeout(5_000));
  const held = first.hold(stop.signal);
  await assert.rejects(second.acquire(AbortSignal.timeout(2_000)), { name: 'TimeoutError' });
  stop.abort();
  assert.deepEqual(await held, { kind: 'released' });
  const startedMs = performance.now();
  await second.acquire(AbortSignal.timeout(5_000));
  assert.ok(performance.now() - startedMs < 1_000, 'without waiting for the lease to run out');
});

test('a leader that is gone without a word is replaced when its lease has run out', async () => {
  const startedMs = performance.now();
  await elector('third').acquire(AbortSignal.timeout(10_000));
  assert.ok(performance.now() - startedMs >= 1_400);
});

test('a leader whose lease was taken says that it is lost', async () => {
  const leader = elector('third');
  await leader.acquire(AbortSignal.timeout(5_000));
  const held = leader.hold(AbortSignal.timeout(8_000));
  const leases = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases', kind: 'Lease', namespaced: true };
  const ref = { namespace: 'default', name: 'leader' };
  await client.patch(leases, ref, { spec: { holderIdentity: 'thief' } }, 'merge');
  assert.deepEqual(await held, { kind: 'lost', reason: 'thief holds it' });
  assert.throws(leader.guard, { code: 'NOT_LEADING' });
});
