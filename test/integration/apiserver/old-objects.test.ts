import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { Store } from '../../../src/apiserver/store/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

const type = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine' };
const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const fault = { resources: { requests: { cpu: '2' }, limits: { cpu: '1' } } };

/** Puts the fault into a stored object, past the server. */
async function damage(store: Store, resource: string, domainOf: (spec: unknown) => object): Promise<void> {
  const address = { collection: `kubevirt.io/${resource}`, namespace: 'default', name: 'old' };
  const object = structuredClone(store.get(address)?.object) as ApiObject;
  Object.assign(domainOf(object.spec), fault);
  await store.commit({ kind: 'put', ...address, object });
}

/** What a version without today's rules has let in. */
describe('an object that breaks a rule which is younger than it', () => {
  let dataDir: string;
  let api: EmbeddedApi;

  before(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'old-objects-'));
    api = await startEmbeddedApi({ dataDir });
    const domain = { devices: {}, memory: { guest: '64Mi' } };
    const spec = { runStrategy: 'Halted', template: { spec: { domain } } };
    const made = await api.client.post(vms, { ...type, metadata: { name: 'old' }, spec });
    assert.equal(made.status, 201, made.text);
    const vmi = { apiVersion: type.apiVersion, kind: 'VirtualMachineInstance', metadata: { name: 'old' } };
    const running = await api.controller.post(vmis, { ...vmi, spec: { domain }, status: { phase: 'Running' } });
    assert.equal(running.status, 201, running.text);
    await api.stop();
    const store = await Store.open(
      { dir: path.join(dataDir, 'db'), maxEvents: 100, maxBytes: 1e6 },
      { log: silentLogger },
    );
    await damage(store, 'virtualmachines', (given) => (given as typeof spec).template.spec.domain);
    await damage(store, 'virtualmachineinstances', (given) => (given as { domain: object }).domain);
    await store.close();
    api = await startEmbeddedApi({ dataDir });
  });
  after(async () => {
    await api?.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  const patch = (body: object, subresource = '') => api.controller.patch(`${vms}/old${subresource}`, 'merge', body);

  test('keeps its status and its finalizers changeable', async () => {
    assert.equal((await patch({ status: { ready: true } }, '/status')).status, 200);
    assert.equal((await patch({ metadata: { finalizers: ['example.org/wait'] } })).status, 200);
    assert.equal((await patch({ metadata: { finalizers: null } })).status, 200);
  });

  test('takes no further fault', async () => {
    const { status, body } = await patch({ spec: { template: { spec: { hostname: 'No_Name' } } } });
    assert.equal(status, 422);
    assert.deepEqual(
      body.details.causes.map(({ field }: { field: string }) => field),
      ['spec.template.spec.hostname'],
    );
  });

  test('of a VMI that runs users change neither the spec nor where it runs, and programs plug in what can be plugged', async () => {
    const fieldsOf = async (client: EmbeddedApi['client'], body: object) => {
      const { status, body: answer } = await client.patch(`${vmis}/old`, 'merge', body);
      return [status, ...(answer.details?.causes ?? []).map(({ field }: { field: string }) => field)];
    };
    assert.deepEqual(await fieldsOf(api.client, { spec: { hostname: 'other' } }), [422, 'spec']);
    const labels = { 'kubevirt.io/nodeName': 'other' };
    assert.deepEqual(await fieldsOf(api.client, { metadata: { labels } }), [
      422,
      'metadata.labels[kubevirt.io/nodeName]',
    ]);
    const volumes = [{ name: 'image', containerDisk: { image: 'a' } }];
    assert.deepEqual(await fieldsOf(api.controller, { spec: { volumes } }), [422, 'spec']);
    assert.deepEqual(await fieldsOf(api.client, { metadata: { labels: { mine: 'yes' } } }), [200]);
  });

  test('and a new object with its fault is refused', async () => {
    const domain = { devices: {}, memory: { guest: '64Mi' }, ...fault };
    const spec = { runStrategy: 'Halted', template: { spec: { domain } } };
    assert.equal((await api.client.post(vms, { ...type, metadata: { name: 'new' }, spec })).status, 422);
  });
});
