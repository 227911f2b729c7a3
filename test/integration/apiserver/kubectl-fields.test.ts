import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CustomObjectsApi, KubeConfig, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { Kubectl, kubectlIsOlderThan } from '../../fixtures/kubectl.ts';

const vm = (runStrategy: string, more = '') => `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: ${runStrategy}
  template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}${more}}}
`;

describe('the real kubectl and the fields of objects', { skip: kubectlIsOlderThan(27) }, () => {
  let home: string;
  let api: EmbeddedApi;
  let kubectl: Kubectl;

  before(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'kubectl-'));
    api = await startEmbeddedApi();
    kubectl = new Kubectl(api.kubeconfig, home);
  });
  after(async () => {
    await api.stop();
    await rm(home, { recursive: true, force: true });
  });

  const fails = async (args: string[], input?: string) => {
    const { code, stderr } = await kubectl.try(args, input);
    assert.notEqual(code, 0);
    return stderr;
  };

  test('explain shows the words and types of upstream’s definitions, at any depth', async () => {
    const disks = await kubectl.run(['explain', 'vmi.spec.domain.devices.disks']);
    assert.match(disks, /Disks describes disks, cdroms and luns which are connected to the vmi/);
    assert.match(disks, /^ {2}bootOrder\t<integer>$/m);
    assert.match(disks, /^ {2}name\t<string> -required-$/m);
    const devices = await kubectl.run(['explain', 'vmi.spec.domain.devices', '--recursive']);
    assert.match(devices, /^ {2}disks\t<\[\]\w+>$/m);
    assert.match(devices, /^ {8}discardGranularity\t<integer>$/m);
    assert.match(await kubectl.run(['explain', 'vm.spec.runStrategy']), /mutually exclusive with Running/);
    assert.match(await kubectl.run(['explain', 'vm.metadata.labels']), /Map of string keys and values/);
    assert.match(await kubectl.run(['explain', 'pod.spec.containers.image']), /Container image name/);
    assert.match(await kubectl.run(['explain', 'vmcf']), /^KIND: +VirtualMachineClusterInstancetype$/m);
    assert.match(await fails(['explain', 'vmi.spec.nothing']), /field "nothing" does not exist/);
  });

  test('explain knows each resource that api-resources lists and that can be made', async () => {
    const names = (await kubectl.run(['api-resources', '--verbs=list,create', '-o', 'name'])).trim().split('\n');
    assert.ok(names.length > 20);
    for (const name of names) assert.match(await kubectl.run(['explain', name]), /^KIND: /m);
  });

  test('create and apply refuse unknown fields by name; with --validate=warn they are left out, aloud', async () => {
    const odd = vm('Halted', ', hostnaem: x');
    const text = /strict decoding error: unknown field "spec\.template\.spec\.hostnaem"/;
    assert.match(await fails(['create', '-f', '-'], odd), text);
    assert.match(await fails(['apply', '-f', '-'], odd), text);
    const { code, stderr } = await kubectl.try(['create', '--validate=warn', '-f', '-'], odd);
    assert.deepEqual([code, stderr.trim()], [0, 'Warning: unknown field "spec.template.spec.hostnaem"']);
    await kubectl.run(['delete', 'vm', 'demo']);
  });

  test('values of the wrong type are listed field by field', async () => {
    const said = await fails(['create', '-f', '-'], vm('Halted', ', hostname: 5, volumes: none'));
    assert.match(said, /\* spec\.template\.spec\.hostname: Invalid value: "integer": .* must be of type string/);
    assert.match(said, /\* spec\.template\.spec\.volumes: Invalid value: "string": .* must be of type array/);
  });

  test('apply --server-side: makes, leaves, changes, says whose a field is, takes it by force', async () => {
    const apply = (text: string, ...more: string[]) =>
      kubectl.try(['apply', '--server-side', ...more, '-f', '-'], text);
    assert.match((await apply(vm('Halted'))).stdout, /demo serverside-applied/);
    const version = () => kubectl.run(['get', 'vm', 'demo', '-o', 'jsonpath={.metadata.resourceVersion}']);
    const first = await version();
    await apply(vm('Halted'));
    assert.equal(await version(), first);
    await kubectl.run(['patch', 'vm', 'demo', '--type=merge', '-p', '{"spec":{"runStrategy":"Manual"}}']);
    const refused = await apply(vm('Always'));
    assert.match(refused.stderr, /conflict with "kubectl-patch" using kubevirt\.io\/v1: \.spec\.runStrategy/);
    assert.match((await apply(vm('Always'), '--force-conflicts')).stdout, /serverside-applied/);
    assert.match((await apply(vm('Halted'), '--dry-run=server')).stdout, /serverside-applied \(server dry run\)/);
    const shown = ['get', 'vm', 'demo', '-o', 'yaml', '--show-managed-fields'];
    assert.match(await kubectl.run(shown), /manager: kubectl\n +operation: Apply/);
    assert.doesNotMatch(await kubectl.run(shown.slice(0, -1)), /managedFields/);
    assert.equal(await kubectl.run(['get', 'vm', 'demo', '-o', 'jsonpath={.spec.runStrategy}']), 'Always');
    assert.match((await kubectl.try(['diff', '--server-side', '-f', '-'], vm('Always'))).stdout, /^$/);
    await kubectl.run(['delete', 'vm', 'demo']);
  });

  test('what kubectl applied on its own side before goes over to the server without a conflict, and fields can be taken away', async () => {
    await kubectl.run(['apply', '-f', '-'], vm('Halted', ', hostname: before'));
    const over = await kubectl.run(['apply', '--server-side', '-f', '-'], vm('Manual', ', hostname: before'));
    assert.match(over, /serverside-applied/);
    await kubectl.run(['apply', '--server-side', '-f', '-'], vm('Manual'));
    const { spec, metadata } = JSON.parse(
      await kubectl.run(['get', 'vm', 'demo', '-o', 'json', '--show-managed-fields']),
    );
    assert.deepEqual([spec.runStrategy, spec.template.spec.hostname], ['Manual', undefined]);
    assert.deepEqual(
      metadata.managedFields.map(({ manager, operation }: Record<string, string>) => [manager, operation]).sort(),
      [
        ['kubectl', 'Apply'],
        ['kubectl-last-applied', 'Apply'],
      ],
    );
    // And back: the annotation has been kept in step.
    assert.match(await kubectl.run(['apply', '-f', '-'], vm('Manual')), /unchanged|configured/);
    await kubectl.run(['delete', 'vm', 'demo']);
  });

  test('what the server gives a new VM stays when it goes over, as in Kubernetes', async () => {
    const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' }, spec: {} };
    await kubectl.run(['create', '-f', '-'], JSON.stringify(kubevirt));
    const deployed = ['--type=merge', '-p', '{"status":{"phase":"Deployed"}}'];
    await kubectl.run(['patch', 'kubevirt', 'kubevirt', '--subresource=status', ...deployed]);
    const finalizersNow = () => kubectl.run(['get', 'vm', 'demo', '-o', 'jsonpath={.metadata.finalizers}']);
    await kubectl.run(['apply', '-f', '-'], vm('Halted'));
    const given = await finalizersNow();
    assert.match(given, /virtualMachineControllerFinalize/);
    for (let times = 0; times < 2; times++) {
      await kubectl.run(['apply', '--server-side', '-f', '-'], vm('Halted'));
      assert.equal(await finalizersNow(), given);
    }
    await kubectl.run(['patch', 'vm', 'demo', '--type=merge', '-p', '{"metadata":{"finalizers":null}}']);
    await kubectl.run(['delete', 'vm/demo', 'kubevirt/kubevirt']);
  });

  test('the client library of Kubernetes applies, too', async () => {
    const config = new KubeConfig();
    config.loadFromFile(api.kubeconfig);
    const client = config.makeApiClient(CustomObjectsApi);
    const body = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachine',
      metadata: { name: 'library' },
      spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {}, memory: { guest: '64Mi' } } } } },
    };
    const ref = {
      group: 'kubevirt.io',
      version: 'v1',
      plural: 'virtualmachines',
      namespace: 'default',
      name: 'library',
    };
    const options = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply);
    const applied = await client.patchNamespacedCustomObject(
      { ...ref, body, fieldManager: 'library', force: true },
      options,
    );
    assert.deepEqual(applied.spec.runStrategy, 'Halted');
    assert.deepEqual(applied.metadata.managedFields[0].manager, 'library');
  });
});
