import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { directoryPodLogs } from '../../../src/apiserver/index.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { Kubectl, kubectlIsOlderThan } from '../../fixtures/kubectl.ts';

const vmi = (name: string, extra = '') => `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: ${name}
  labels: {app: demo}
  ${extra}
spec:
  terminationGracePeriodSeconds: 0
  domain:
    memory: {guest: 128Mi}
    devices:
      disks:
      - name: root
        disk: {}
  volumes:
  - name: root
    containerDisk: {image: "demo"}
`;

const vm = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo}
spec:
  runStrategy: Halted
  template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}
`;

describe('the real kubectl', () => {
  let home: string;
  let api: EmbeddedApi;
  let kubectl: Kubectl;

  before(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'kubectl-'));
    api = await startEmbeddedApi({}, { podLogs: directoryPodLogs(path.join(home, 'logs')) });
    kubectl = new Kubectl(api.kubeconfig, home);
  });
  after(async () => {
    await api.stop();
    await rm(home, { recursive: true, force: true });
  });

  test('finds its way: version, api-versions, api-resources, raw paths', async () => {
    assert.match(await kubectl.run(['version']), /Server Version: .*v1\.\d+/);
    assert.match(await kubectl.run(['api-versions']), /^kubevirt\.io\/v1$/m);
    const types = await kubectl.run(['api-resources', '--no-headers']);
    assert.match(types, /^virtualmachineinstances\s+vmi,vmis\s+kubevirt\.io\/v1\s+true\s+VirtualMachineInstance/m);
    assert.equal(await kubectl.run(['get', '--raw', '/readyz']), 'ok');
    assert.match(await kubectl.run(['get', 'ns']), /^kubevirt\s+Active/m);
    assert.match(await kubectl.run(['get', 'crd']), /virtualmachines\.kubevirt\.io/);
  });

  test('apply creates, and applied again leaves the object as it is', async () => {
    assert.match(await kubectl.run(['apply', '-f', '-'], vmi('applied')), /created/);
    const version = ['get', 'vmi', 'applied', '-o', 'jsonpath={.metadata.resourceVersion} {.metadata.generation}'];
    const first = await kubectl.run(version);
    await kubectl.run(['apply', '-f', '-'], vmi('applied'));
    assert.equal((await kubectl.run(version)).split(' ')[1], first.split(' ')[1]);
    assert.match(await kubectl.run(['apply', '-f', '-'], vm), /created/);
    assert.match(await kubectl.run(['apply', '-f', '-'], vm), /unchanged/);
    const changed = vm.replace('Halted', 'Manual');
    assert.match(await kubectl.run(['apply', '-f', '-'], changed), /configured/);
    assert.equal(await kubectl.run(['get', 'vm', 'demo', '-o', 'jsonpath={.spec.runStrategy}']), 'Manual');
  });

  test('apply validates by default, without --validate=false', async () => {
    assert.match(await kubectl.run(['apply', '--validate=true', '-f', '-'], vmi('strict')), /created/);
  });

  test('--dry-run=server stores nothing', { skip: kubectlIsOlderThan(25) }, async () => {
    const said = await kubectl.run(['create', '--dry-run=server', '-f', '-'], vmi('dry'));
    assert.match(said, /created \(server dry run\)/);
    assert.notEqual((await kubectl.try(['get', 'vmi', 'dry'])).code, 0);
  });

  test('apply of core objects takes away what the manifest no longer has', async () => {
    const manifest = (data: string, ports: string, image: string) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: core}
data: {${data}}
---
apiVersion: v1
kind: Service
metadata: {name: core}
spec: {selector: {a: b}, ports: [${ports}]}
---
apiVersion: v1
kind: Pod
metadata: {name: core}
spec: {containers: [{name: c, image: ${image}, env: [{name: A, value: "1"}]}]}
`;
    const first = manifest('a: "1", b: "2"', '{port: 80, name: h}, {port: 81, name: i}', 'one');
    assert.equal((await kubectl.run(['apply', '-f', '-'], first)).match(/created/g)?.length, 3);
    assert.equal((await kubectl.run(['apply', '-f', '-'], first)).match(/unchanged/g)?.length, 3);
    const second = manifest('a: "1"', '{port: 80, name: h}', 'two');
    assert.equal((await kubectl.run(['apply', '-f', '-'], second)).match(/configured/g)?.length, 3);
    const show = (what: string, field: string) => kubectl.run(['get', what, 'core', '-o', `jsonpath={${field}}`]);
    assert.equal(await show('cm', '.data'), '{"a":"1"}');
    assert.equal(await show('svc', '.spec.ports[*].port'), '80');
    assert.equal(await show('pod', '.spec.containers[*].image'), 'two');
    assert.equal((await kubectl.run(['delete', '-f', '-'], second)).match(/deleted/g)?.length, 3);
  });

  test('get shows upstream columns; wide shows more; all output forms work', async () => {
    await kubectl.run(['create', '-f', '-'], vmi('shown'));
    await api.controller.patch('/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/shown', 'merge', {
      status: {
        phase: 'Running',
        nodeName: 'one',
        interfaces: [{ ipAddress: '10.0.2.2' }],
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'LiveMigratable', status: 'False' },
        ],
      },
    });
    const plain = await kubectl.run(['get', 'vmi', 'shown']);
    assert.match(plain, /^NAME\s+AGE\s+PHASE\s+IP\s+NODENAME\s+READY\s*$/m);
    assert.match(plain, /^shown\s+\d+s\s+Running\s+10\.0\.2\.2\s+one\s+True\s*$/m);
    const wide = await kubectl.run(['get', 'vmi', 'shown', '-o', 'wide']);
    assert.match(wide, /READY\s+LIVE-MIGRATABLE\s+PAUSED/);
    assert.match(wide, /True\s+False\s*$/m);
    assert.match(await kubectl.run(['get', 'vm']), /^NAME\s+AGE\s+STATUS\s+READY\s*$/m);
    assert.match(await kubectl.run(['get', 'vmi', 'shown', '-o', 'yaml']), /^kind: VirtualMachineInstance$/m);
    const json = JSON.parse(await kubectl.run(['get', 'vmi', '-o', 'json']));
    assert.equal(json.kind, 'List');
    assert.match(await kubectl.run(['get', 'vmis', '-o', 'name']), /virtualmachineinstance\.kubevirt\.io\/shown/);
    const sorted = await kubectl.run(['get', 'vmi', '--sort-by=.metadata.name', '-o', 'name']);
    assert.deepEqual(sorted.trim().split('\n'), sorted.trim().split('\n').sort());
    assert.match(await kubectl.run(['get', 'vmi', '-l', 'app in (demo)', '-A']), /shown/);
    assert.match(await kubectl.run(['get', 'all']), /virtualmachine\.kubevirt\.io\/demo/);
  });

  test('get -w prints changes as they come', async () => {
    const child = kubectl.spawn(['get', 'vmi', '-w', '--no-headers', '--field-selector', 'metadata.name=watched']);
    // A piece may end within a line.
    let printed = '';
    const enough = new Promise<void>((resolve) => {
      child.stdout?.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        if (/Running.*\n/.test(printed)) resolve();
      });
    });
    try {
      await kubectl.run(['create', '-f', '-'], vmi('watched'));
      const path = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/watched';
      for (const phase of ['Pending', 'Running']) await api.controller.patch(path, 'merge', { status: { phase } });
      await enough;
    } finally {
      child.kill();
      await once(child, 'close');
    }
    const lines = printed.trim().split('\n');
    const phases = lines.map((line) => line.split(/\s+/)[2]).filter((word) => word);
    assert.deepEqual([...new Set(phases)], ['Pending', 'Running']);
  });

  test('edit, label, annotate and the three kinds of patch', async () => {
    await kubectl.run(['create', '-f', '-'], vmi('edited'));
    const editor = { KUBE_EDITOR: String.raw`sed -i s/app:\ demo/app:\ other/` };
    assert.match(await kubectl.run(['edit', 'vmi', 'edited'], '', editor), /edited/);
    await kubectl.run(['label', 'vmi', 'edited', 'a=b']);
    await kubectl.run(['annotate', 'vmi', 'edited', 'c=d']);
    await kubectl.run(['patch', 'vmi', 'edited', '--type', 'merge', '-p', '{"metadata":{"labels":{"m":"1"}}}']);
    await kubectl.run([
      'patch',
      'vmi',
      'edited',
      '--type',
      'json',
      '-p',
      '[{"op":"add","path":"/metadata/labels/j","value":"1"}]',
    ]);
    const labels = await kubectl.run(['get', 'vmi', 'edited', '-o', 'jsonpath={.metadata.labels}']);
    assert.deepEqual(JSON.parse(labels), { app: 'other', a: 'b', m: '1', j: '1' });
    const refused = await kubectl.try(['patch', 'vmi', 'edited', '-p', '{}']);
    assert.match(refused.stderr, /use kubectl patch --type merge/);
    await kubectl.run(['run', 'patched', '--image=one']);
    await kubectl.run(['patch', 'pod', 'patched', '-p', '{"spec":{"containers":[{"name":"patched","image":"two"}]}}']);
    assert.equal(await kubectl.run(['get', 'pod', 'patched', '-o', 'jsonpath={.spec.containers[*].image}']), 'two');
  });

  test('a user cannot change the spec of a VMI, and is told what to do', async () => {
    await kubectl.run(['create', '-f', '-'], vmi('fixed'));
    const { stderr } = await kubectl.try([
      'patch',
      'vmi',
      'fixed',
      '--type',
      'merge',
      '-p',
      '{"spec":{"hostname":"x"}}',
    ]);
    assert.match(stderr, /delete it and create it again/);
  });

  test('delete waits for finalizers', async () => {
    await kubectl.run(['create', '-f', '-'], vmi('held', 'finalizers: [example.com/hold]'));
    const deleted = kubectl.run(['delete', 'vmi', 'held', '--timeout=20s']);
    const path = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/held';
    const watch = await api.client.watch(`${path.replace('/held', '')}?watch=1&fieldSelector=metadata.name%3Dheld`);
    let event = await watch.next();
    while (event && !event.object.metadata.deletionTimestamp) event = await watch.next();
    watch.close();
    await api.controller.patch(path, 'json', [{ op: 'remove', path: '/metadata/finalizers' }]);
    assert.match(await deleted, /deleted/);
  });

  test('describe works for VMI, VM, pod, node and namespace, and shows events', async () => {
    await kubectl.run(['create', '-f', '-'], vmi('described'));
    const uid = await kubectl.run(['get', 'vmi', 'described', '-o', 'jsonpath={.metadata.uid}']);
    const event = {
      metadata: { generateName: 'described.' },
      involvedObject: {
        apiVersion: 'kubevirt.io/v1',
        kind: 'VirtualMachineInstance',
        namespace: 'default',
        name: 'described',
        uid,
      },
      type: 'Warning',
      reason: 'SyncFailed',
      message: 'no such image',
      source: { component: 'virt-handler' },
      firstTimestamp: new Date().toISOString(),
      lastTimestamp: new Date().toISOString(),
      count: 2,
    };
    assert.equal((await api.controller.post('/api/v1/namespaces/default/events', event)).status, 201);
    const described = await kubectl.run(['describe', 'vmi', 'described']);
    assert.match(described, /Warning\s+SyncFailed\s+.*virt-handler\s+no such image/);
    const node = { metadata: { name: 'one' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } };
    await api.controller.post('/api/v1/nodes', node);
    await kubectl.run(['run', 'described', '--image=x', '--overrides', '{"spec":{"nodeName":"one"}}']);
    assert.match(await kubectl.run(['describe', 'node', 'one']), /described/);
    assert.match(await kubectl.run(['get', 'nodes']), /^one\s+Ready/m);
    assert.match(await kubectl.run(['describe', 'pod', 'described']), /Node:\s+one/);
    assert.match(await kubectl.run(['describe', 'vm', 'demo']), /Kind:\s+VirtualMachine/);
    assert.match(await kubectl.run(['describe', 'ns', 'default']), /Status:\s+Active/);
    assert.match(
      await kubectl.run(['get', 'events']),
      /Warning\s+SyncFailed\s+virtualmachineinstance\/described\s+no such image/,
    );
  });

  test('kubectl events shows the events of one object', { skip: kubectlIsOlderThan(26) }, async () => {
    await kubectl.run(['apply', '-f', '-'], vmi('eventful'));
    const involvedObject = {
      kind: 'VirtualMachineInstance',
      apiVersion: 'kubevirt.io/v1',
      namespace: 'default',
      name: 'eventful',
    };
    const event = {
      metadata: { name: 'eventful.1', namespace: 'default' },
      involvedObject,
      type: 'Warning',
      reason: 'SyncFailed',
      message: 'no such image',
    };
    assert.equal((await api.controller.post('/api/v1/namespaces/default/events', event)).status, 201);
    assert.match(await kubectl.run(['events', '--for', 'vmi/eventful']), /SyncFailed/);
  });

  test('a bound pod stays Terminating until its kubelet has ended it', async () => {
    await kubectl.run(['run', 'slow', '--image=x', '--overrides', '{"spec":{"nodeName":"one"}}']);
    await kubectl.run(['delete', 'pod', 'slow', '--wait=false']);
    assert.match(await kubectl.run(['get', 'pod', 'slow']), /Terminating/);
    await kubectl.run(['delete', 'pod', 'slow', '--force', '--grace-period=0']);
    assert.notEqual((await kubectl.try(['get', 'pod', 'slow'])).code, 0);
  });

  test('logs come from the file of the container, whole, by tail, and followed', async () => {
    await kubectl.run(['run', 'talks', '--image=x']);
    const waiting = await kubectl.try(['logs', 'talks']);
    assert.match(waiting.stderr, /waiting to start/);
    const uid = await kubectl.run(['get', 'pod', 'talks', '-o', 'jsonpath={.metadata.uid}']);
    const dir = path.join(home, 'logs', uid);
    await mkdir(dir, { recursive: true });
    await writeFile(path.join(dir, 'talks.log'), 'one\ntwo\nthree\n');
    assert.equal(await kubectl.run(['logs', 'talks']), 'one\ntwo\nthree\n');
    assert.equal(await kubectl.run(['logs', 'talks', '--tail=2']), 'two\nthree\n');
    assert.equal(await kubectl.run(['logs', 'talks', '--tail=0']), '');
    const follow = kubectl.spawn(['logs', '-f', '--tail=1', 'talks']);
    let text = '';
    const heard = new Promise<void>((resolve) => {
      follow.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
        if (text === '') void writeFile(path.join(dir, 'talks.log'), 'four\n', { flag: 'a' });
        text += chunk;
        if (text.includes('four')) resolve();
      });
    });
    await heard;
    follow.kill();
    assert.equal(text, 'three\nfour\n');
  });

  test('typed commands that speak protobuf: create, auth can-i', async () => {
    await kubectl.run(['create', 'ns', 'typed']);
    await kubectl.run(['create', 'configmap', 'map', '-n', 'typed', '--from-literal=a=b']);
    await kubectl.run(['create', 'secret', 'generic', 'secret', '-n', 'typed', '--from-literal=p=geheim']);
    await kubectl.run(['create', 'sa', 'account', '-n', 'typed']);
    await kubectl.run(['create', 'service', 'clusterip', 'service', '-n', 'typed', '--tcp=80:8080']);
    const get = (what: string, field: string) => kubectl.run(['get', what, '-n', 'typed', '-o', `jsonpath={${field}}`]);
    assert.equal(await get('cm/map', '.data.a'), 'b');
    assert.equal(await get('secret/secret', '.data.p'), Buffer.from('geheim').toString('base64'));
    assert.equal(await get('svc/service', '.spec.ports[0].targetPort'), '8080');
    assert.equal((await kubectl.run(['auth', 'can-i', 'create', 'vmis'])).trim(), 'yes');
    assert.match(await kubectl.run(['auth', 'can-i', '--list']), /\*\.\*/);
  });

  test('kubectl auth whoami names the user of the token', { skip: kubectlIsOlderThan(27) }, async () => {
    assert.match(await kubectl.run(['auth', 'whoami']), /Username\s+user/);
  });

  test('a deleted namespace takes its content along; default stays', async () => {
    await kubectl.run(['create', 'ns', 'doomed']);
    await kubectl.run(['create', 'configmap', 'map', '-n', 'doomed']);
    await kubectl.run(['delete', 'ns', 'doomed', '--timeout=20s']);
    assert.notEqual((await kubectl.try(['get', 'ns', 'doomed'])).code, 0);
    const left = await api.client.get('/api/v1/namespaces/doomed/configmaps');
    assert.deepEqual(left.body.items, []);
    assert.match((await kubectl.try(['delete', 'ns', 'default'])).stderr, /forbidden/i);
  });

  test('bad manifests are refused with the field or the line', async () => {
    const noDomain = await kubectl.try(
      ['apply', '-f', '-'],
      vmi('bad').replace(/ {2}domain:[\s\S]*/, '  hostname: x\n'),
    );
    assert.match(noDomain.stderr, /spec\.domain: Required value/);
    const badName = await kubectl.try(['apply', '-f', '-'], vmi('Bad_Name'));
    assert.match(badName.stderr, /metadata\.name.*RFC 1123/);
    const noType = await kubectl.try(['create', 'deployment', 'x', '--image=y']);
    assert.match(noType.stderr, /this small server has no deployments\.v1\.apps/);
    const definition = await kubectl.try(['delete', 'crd', 'virtualmachines.kubevirt.io']);
    assert.match(definition.stderr, /built in and cannot be changed/);
  });

  test('drain evicts pods, cordon marks the node', async () => {
    await api.controller.post('/api/v1/nodes', { metadata: { name: 'drained' } });
    await kubectl.run([
      'run',
      'evicted',
      '--image=x',
      '--overrides',
      '{"spec":{"nodeName":"drained","terminationGracePeriodSeconds":0}}',
    ]);
    await kubectl.run(['drain', 'drained', '--force', '--timeout=20s']);
    assert.match(await kubectl.run(['get', 'node', 'drained']), /SchedulingDisabled/);
    assert.notEqual((await kubectl.try(['get', 'pod', 'evicted'])).code, 0);
  });
});
