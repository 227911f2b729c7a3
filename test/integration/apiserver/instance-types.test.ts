import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

/** Instance types by the real kubectl; no controller runs. */

const group = '/apis/subresources.kubevirt.io/v1/namespaces/default';
let home: string;
let api: EmbeddedApi;
let kubectl: Kubectl;

before(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'kubectl-'));
  api = await startEmbeddedApi();
  kubectl = new Kubectl(api.kubeconfig, home);
});
after(async () => {
  await api?.stop();
  await rm(home, { recursive: true, force: true });
});

test('the example is applied, twice, and found by upstream’s short names', async () => {
  await kubectl.run(['apply', '-f', 'examples/instance-type.yaml']);
  assert.match(await kubectl.run(['apply', '-f', 'examples/instance-type.yaml']), /small unchanged/);
  assert.match(await kubectl.run(['get', 'vmcf,vmcp', '-o', 'name']), /virtualmachineclusterpreference\S*\/virtio/);
  assert.equal(await kubectl.run(['get', 'vmf,vmp', '-o', 'name']), '');
});

test('expand-spec gives a stored VM as its instance type and preference have it, and stores nothing', async () => {
  const vm = JSON.parse(await kubectl.run(['get', '--raw', `${group}/virtualmachines/small-vm/expand-spec`]));
  const { instancetype, preference, template } = vm.spec;
  assert.deepEqual([instancetype, preference], [undefined, undefined]);
  const { domain, terminationGracePeriodSeconds } = template.spec;
  assert.deepEqual([domain.cpu.sockets, domain.memory.guest, terminationGracePeriodSeconds], [1, '192Mi', 5]);
  assert.deepEqual(domain.devices.disks, [{ name: 'scratch', disk: { bus: 'virtio' } }]);
  assert.equal(await kubectl.run(['get', 'vm', 'small-vm', '-o', 'jsonpath={.spec.instancetype.name}']), 'small');
});

const vmOf = (spec: object, metadata: object = {}) => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachine',
  metadata: { name: 'loose', ...metadata },
  spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {} } } }, ...spec },
});

test('expand-vm-spec gives a VM that is not stored, and says why it cannot', async () => {
  const url = `${group}/expand-vm-spec`;
  const given = await api.client.put(url, vmOf({ instancetype: { name: 'small' } }));
  assert.equal(given.status, 200, given.text);
  assert.equal(given.body.spec.template.spec.domain.memory.guest, '192Mi');
  assert.equal((await api.client.put(url, vmOf({}))).status, 200);
  const template = { spec: { domain: { memory: { guest: '1Gi' } } } };
  for (const [vm, status, text] of [
    [vmOf({ instancetype: { name: 'small' }, template }), 400, /spec\.template\.spec\.domain\.memory\.guest conflicts/],
    [vmOf({ instancetype: { name: 'nowhere' } }), 404, /nowhere/],
    [vmOf({ instancetype: { name: 'small', kind: 'Pod' } }), 400, /spec\.instancetype\.kind: Pod is none/],
    [vmOf({ preference: { inferFromVolume: 'root' } }), 400, /spec\.preference: name is missing/],
    [vmOf({}, { namespace: 'other' }), 400, /namespace must be empty or default/],
    [[], 400, /must be a VirtualMachine/],
  ] as const) {
    const refused = await api.client.put(url, vm);
    assert.deepEqual([refused.status, text.test(refused.text)], [status, true], refused.text);
  }
  assert.equal((await api.client.put(`${group}/virtualmachines/small-vm/expand-spec`, {})).status, 405);
  assert.equal((await api.client.get(`${group}/virtualmachines/nowhere/expand-spec`)).status, 404);
});

test('what no VM could be made with is refused when it is written, and so is a VM without memory or instance type', async () => {
  const types = '/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes';
  const kind = { apiVersion: 'instancetype.kubevirt.io/v1beta1', kind: 'VirtualMachineClusterInstancetype' };
  const create = (spec: object) =>
    api.client.post(`${types}?fieldValidation=Strict`, { ...kind, metadata: { name: 'bad' }, spec });
  for (const [spec, status, text] of [
    [{ memory: { guest: '1Gi' } }, 422, /spec\.cpu: Required value/],
    [{ cpu: { guest: 1 }, memory: { guest: '1Gi', hugePages: {} } }, 400, /unknown field .*spec\.memory\.hugePages/],
  ] as const) {
    const refused = await create(spec);
    assert.deepEqual([refused.status, text.test(refused.text)], [status, true], refused.text);
  }
  const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
  assert.match((await api.client.post(vms, vmOf({}))).text, /memory\.guest/);
  assert.equal((await api.client.post(vms, vmOf({ instancetype: { name: 'any' } }))).status, 201);
});
