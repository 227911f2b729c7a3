import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { TestAuthority } from '../fixtures/certificates.ts';
import { bindClaim, schedulable, timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import type { NodeMachine } from './node-machine.ts';

/**
 * Exports with real pods: virt-exportserver of the agent's image serves what is on claims of the node, to whoever shows the token. The tests are one
 * story: each begins where the one before it ended.
 */

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const diskBytes = 8 << 20;
let authority: TestAuthority;
let cluster: InstalledCluster;
let machine: NodeMachine;

before(async () => {
  authority = await TestAuthority.make('export.kubevirt.io');
  for (const [name, text] of [
    ['tls.crt', authority.pair.cert],
    ['tls.key', authority.pair.key],
  ] as const)
    writeFileSync(path.join(authority.dir, name), text);
  cluster = await InstalledCluster.start({
    overlay: 'daemonset/overlays/tight-rights',
    disabledFeatureGates: ['ImageVolume'],
    controllerFlags: [`--exporter-image=localhost/virt-handler:${version}`, `--export-ca-dir=${authority.dir}`],
  });
  machine = cluster.machine;
  makeClaim('disk', 'disk.img', 'content of disk', diskBytes);
  makeClaim('files', 'notes.txt', 'content of notes');
  const volumes = [{ name: 'root', persistentVolumeClaim: { claimName: 'disk' } }];
  const devices = { disks: [{ name: 'root', disk: { bus: 'virtio' } }], autoattachPodInterface: false };
  const domain = { resources: { requests: { memory: '64Mi' } }, devices };
  const template = { spec: { domain, volumes, terminationGracePeriodSeconds: 1 } };
  create('VirtualMachine', 'kubevirt.io/v1', 'vm1', { runStrategy: 'Halted', template });
});
after(async () => {
  await cluster?.stop();
  await authority?.remove();
});

const create = (kind: string, apiVersion: string, name: string, spec: object) =>
  machine.create({ apiVersion, kind, metadata: { name }, spec });
const createExport = (name: string, source: object) =>
  create('VirtualMachineExport', 'export.kubevirt.io/v1', name, { source });

/** A folder of the node with one file, of the user that disks belong to. */
function makeClaim(name: string, file: string, content: string, bytes = content.length): void {
  const folder = `/var/claims/${name}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, file), content);
  truncateSync(path.join(folder, file), bytes);
  for (const each of [folder, path.join(folder, file)]) chownSync(each, 107, 107);
  bindClaim(machine, name, { hostPath: { path: folder } });
}

const exported = (name: string) => machine.get('vmexport', name);
const untilPhase = (name: string, phase: string) => () => {
  const { status } = exported(name);
  assert.equal(status?.phase, phase, JSON.stringify(status));
};

function tokenOf(name: string): string {
  const { tokenSecretRef } = exported(name).status;
  return Buffer.from(machine.get('secret', tokenSecretRef).data.token, 'base64').toString();
}

/** As a client in the cluster asks, who trusts the authority that the status names; nothing leads services to their pods here. */
async function ask(
  name: string,
  url: string,
  token: string,
): Promise<{ readonly code: number; readonly body: Buffer }> {
  const { hostname, pathname } = new URL(url);
  const [{ status }] = machine
    .get('pods', '-l', 'kubevirt.io=virt-exporter')
    .items.filter(({ metadata }: { metadata: { name: string } }) => metadata.name === `virt-export-${name}`);
  const { cert: ca } = exported(name).status.links.internal;
  const headers = { 'x-kubevirt-export-token': token };
  const options = { host: status.podIP, port: 8443, servername: hostname, path: pathname, ca, headers, agent: false };
  return new Promise((resolve, reject) => {
    const asked = request(options, (response) => {
      buffer(response).then((body) => resolve({ code: response.statusCode ?? 0, body }), reject);
    });
    asked.on('error', reject);
    asked.end();
  });
}

function urlOf(name: string, kind: string): string {
  const { volumes } = exported(name).status.links.internal;
  const { url } = volumes[0].formats.find(({ format }: { format: string }) => format === kind) ?? {};
  assert.ok(url, JSON.stringify(volumes));
  return url;
}

test('a VM that does not run: its disk and its manifest are served to whoever shows the token, and to nobody else', async (t) => {
  await schedulable(machine);
  createExport('whole', { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' });
  await timed(t, 'ready', untilPhase('whole', 'Ready'));
  const token = tokenOf('whole');
  const { code, body } = await ask('whole', urlOf('whole', 'raw'), token);
  assert.deepEqual([code, body.length, body.subarray(0, 15).toString()], [200, diskBytes, 'content of disk']);
  const { code: refused } = await ask('whole', urlOf('whole', 'raw'), `${token}x`);
  assert.equal(refused, 401);
  const [{ url }] = exported('whole').status.links.internal.manifests;
  const manifest = await ask('whole', url, token);
  assert.match(manifest.body.toString(), /VirtualMachine/);
  assert.match(manifest.body.toString(), /vm1/);
});

test('a claim with files: they come as an archive', async (t) => {
  createExport('packed', { apiGroup: '', kind: 'PersistentVolumeClaim', name: 'files' });
  await timed(t, 'ready', untilPhase('packed', 'Ready'));
  const { code, body } = await ask('packed', urlOf('packed', 'tar.gz'), tokenOf('packed'));
  assert.equal(code, 200);
  const unpacked = execFileSync('tar', ['-xzO', './notes.txt'], { input: body, encoding: 'utf8' });
  assert.equal(unpacked, 'content of notes');
});

test('the VM is started: its exporter goes before the guest has the disk, and is back when the VM is stopped', async (t) => {
  const strategy = (runStrategy: string) =>
    machine.api.kubectl('patch', 'vm', 'vm1', '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));
  strategy('Always');
  await timed(t, 'paused', () => {
    const { status } = exported('whole');
    const ready = status.conditions.find(({ type }: { type: string }) => type === 'Ready');
    assert.deepEqual([status.phase, ready.reason], ['Pending', 'InUse'], JSON.stringify(status));
    const names = machine
      .get('pods', '-l', 'kubevirt.io=virt-exporter')
      .items.map(({ metadata }: { metadata: { name: string } }) => metadata.name);
    assert.deepEqual(names, ['virt-export-packed']);
  });
  await timed(t, 'runs', () => assert.equal(machine.get('vmi', 'vm1').status?.phase, 'Running'));
  strategy('Halted');
  await timed(t, 'ready again', untilPhase('whole', 'Ready'));
  const { code } = await ask('whole', urlOf('whole', 'gzip'), tokenOf('whole'));
  assert.equal(code, 200);
});

test('nothing is left of exports that are deleted', async (t) => {
  machine.api.kubectl('delete', 'vmexport', 'whole', 'packed', '--wait=false');
  await timed(t, 'gone', () => {
    assert.deepEqual(machine.get('vmexport').items, []);
    assert.deepEqual(machine.get('pods,services', '-l', 'kubevirt.io=virt-exporter').items, []);
    const secrets: { metadata: { name: string } }[] = machine.get('secrets').items;
    assert.deepEqual(
      secrets.filter(({ metadata }) => metadata.name.startsWith('export-token-')),
      [],
    );
  });
});
