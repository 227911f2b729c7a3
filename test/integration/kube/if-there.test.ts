import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { createOrFind, getIfThere, KubeClient, noCredentials, writeIfThere } from '../../../src/kube/index.ts';
import { FaultApi } from '../../fixtures/fault-api.ts';

const type = resources.configMaps;
const ref = { namespace: 'default', name: 'a' };

let api: FaultApi;
let client: KubeClient;

beforeEach(async () => {
  api = await FaultApi.start();
  api.put('a');
  client = new KubeClient(
    { userAgent: 'test/1', retry: { attempts: 1 } },
    { access: { server: api.url, credentials: noCredentials } },
  );
});
afterEach(async () => {
  client.close();
  await api.stop();
});

test('an object that is there is given, one that is not is no error', async () => {
  assert.equal((await getIfThere(client, type, ref))?.metadata.name, 'a');
  assert.equal(await getIfThere(client, type, { ...ref, name: 'missing' }), undefined);
});

test('no other failure is taken for absence', async () => {
  for (const code of [403, 409, 410, 500]) {
    api.fail('get', { kind: 'status', code });
    await assert.rejects(getIfThere(client, type, ref), { httpStatus: code });
  }
  const aborted = AbortSignal.abort(new Error('enough'));
  await assert.rejects(getIfThere(client, type, ref, { signal: aborted }), /enough/);
});

test('what an earlier try has made is found, what is another’s is an error, and so is any other failure', async () => {
  const wanted: KubeObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: ref };
  const make = (name: string, isOwn: boolean) =>
    createOrFind(client, type, { ...wanted, metadata: { ...ref, name } }, () => isOwn);
  const taken = () => api.fail('write', { kind: 'status', code: 409, reason: 'AlreadyExists' });
  taken();
  const { object, isNew } = await make('a', true);
  assert.deepEqual([object.metadata.name, isNew], ['a', false]);
  taken();
  await assert.rejects(make('a', false), { code: 'ALREADY_EXISTS' });
  taken();
  await assert.rejects(make('missing', true), { code: 'ALREADY_EXISTS' });
  api.fail('write', { kind: 'status', code: 403 });
  await assert.rejects(make('a', true), { httpStatus: 403 });
});

test('a write to what is gone or another one by now is none, any other failure is one', async () => {
  const write = () => client.patch(type, ref, { metadata: { uid: 'uid-1' } }, 'merge');
  assert.equal(await writeIfThere(write()), true);
  for (const code of [404, 409]) {
    api.fail('write', { kind: 'status', code });
    assert.equal(await writeIfThere(write()), false);
  }
  for (const code of [403, 410, 422]) {
    api.fail('write', { kind: 'status', code });
    await assert.rejects(writeIfThere(write()), { httpStatus: code });
  }
});
