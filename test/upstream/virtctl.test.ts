import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { eventually } from '../fixtures/eventually.ts';
import { NodeProcess } from '../fixtures/node-process.ts';

/** The commands of upstream's virtctl, as people type them, against a standalone node with a real guest. */

const run = promisify(execFile);
const { virtctl: program = '' } = JSON.parse(process.env.KUBELET_PARTS ?? '{}') as { readonly virtctl?: string };
const name = 'demo';

let node: NodeProcess;
let dir: string;

before(async () => {
  assert.ok(program, 'runs on a machine of its own: node scripts/test.mjs upstream');
  dir = await mkdtemp('/var/virtctl-');
  // Directories of the machine's own are too deep for sockets.
  node = await NodeProcess.create('/var');
  await node.start();
  const manifest = await readFile('examples/vm.yaml', 'utf8');
  await writeFile(path.join(dir, 'vm.yaml'), manifest);
  await node.kubectl('apply', '-f', path.join(dir, 'vm.yaml'));
  await node.vmiUntil(name, (vmi) => vmi?.status?.phase === 'Running', 120_000);
  await eventually(async () => assert.equal(await ssh('uname -n'), 'demo\n'), 120_000);
});
after(async () => {
  await node?.dispose();
  if (dir) await rm(dir, { recursive: true, force: true });
});

const env = () => ({ ...process.env, KUBECONFIG: node.paths.kubeconfig, HOME: dir });

/** Resolves with what it said on both; rejects with that when it failed. */
async function virtctl(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await run(program, args, { env: env(), timeout: 120_000 });
  return stdout + stderr;
}

const sshOptions = () => [
  ...['--identity-file', path.join(node.paths.sshDir, 'id_ed25519')],
  ...['-oStrictHostKeyChecking=no', '-oUserKnownHostsFile=/dev/null', '-oLogLevel=ERROR'].map(
    (option) => `--local-ssh-opts=${option}`,
  ),
];

/** What a command in the guest said. */
async function ssh(command: string): Promise<string> {
  const { stdout } = await run(program, ['ssh', ...sshOptions(), `root@vm/${name}`, '--command', command], {
    env: env(),
    timeout: 60_000,
  });
  return stdout;
}

const vmi = async () => (await node.vmi(name))?.status;
const isPaused = async () =>
  (await vmi())?.conditions?.some(({ type, status }) => type === 'Paused' && status === 'True');

test('version and expand', async () => {
  assert.match(await virtctl('version'), /Server Version: .*GitVersion:"v1\.9\.0/);
  assert.match(await virtctl('expand', '--vm', name), /kind: VirtualMachine\b/);
});

test('pause and unpause', async () => {
  await virtctl('pause', 'vm', name);
  await eventually(async () => assert.equal(await isPaused(), true));
  await assert.rejects(virtctl('pause', 'vm', name), /already paused/);
  await virtctl('unpause', 'vm', name);
  await eventually(async () => assert.ok(!(await isPaused())));
});

test('scp both ways', async () => {
  const [there, back] = [path.join(dir, 'there'), path.join(dir, 'back')];
  const bytes = randomBytes(300_000);
  await writeFile(there, bytes);
  await virtctl('scp', ...sshOptions(), there, `root@vm/${name}:/tmp/there`);
  await virtctl('scp', ...sshOptions(), `root@vm/${name}:/tmp/there`, back);
  assert.ok((await readFile(back)).equals(bytes));
});

/** What a server at a local port says first. */
async function greeting(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  const [piece] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return piece.toString('latin1');
}

for (const [what, args, port, expected] of [
  ['port-forward', ['port-forward', `vm/${name}`, '12222:22'], 12_222, /^SSH-2\.0/],
  ['vnc', ['vnc', name, '--proxy-only', '--port', '15999'], 15_999, /^RFB 003\.008/],
] as const) {
  test(`${what} by a local port`, async (t) => {
    const child = spawn(program, args, { env: env(), stdio: 'ignore' });
    t.after(() => child.kill());
    await eventually(async () => assert.match(await greeting(port), expected), 30_000);
  });
}

test('console: what is typed comes to the guest', async (t) => {
  // It takes a terminal, and is left by Ctrl-].
  const child = spawn('script', ['-qec', `${program} console ${name}`, '/dev/null'], { env: env() });
  t.after(() => child.kill());
  let said = '';
  child.stdout.on('data', (piece: Buffer) => {
    said += piece;
  });
  await eventually(() => {
    if (!said.includes('demo login:')) child.stdin.write('\r');
    assert.match(said, /demo login:/);
  }, 30_000);
  child.stdin.write('\x1d');
  await once(child, 'exit');
});

test('expose: a Service at a port of the machine', async () => {
  await virtctl('expose', 'vm', name, '--name', 'shell', '--port', '2022', '--target-port', '22', '--type', 'NodePort');
  const port = Number(await node.kubectl('get', 'service', 'shell', '-o', 'jsonpath={.spec.ports[0].nodePort}'));
  await eventually(async () => assert.match(await greeting(port), /^SSH-2\.0/), 30_000);
});

test('image-upload, addvolume and removevolume: the guest reads what was uploaded', async () => {
  const image = path.join(dir, 'image');
  const bytes = randomBytes(8 * 1024 * 1024);
  await writeFile(image, bytes);
  const size = ['--size', '64Mi', '--access-mode', 'ReadWriteOnce'];
  await virtctl('image-upload', 'dv', 'more', ...size, '--image-path', image, '--insecure');
  await virtctl('addvolume', name, '--volume-name', 'more');
  const phaseOf = async () => (await vmi())?.volumeStatus?.find((each) => each.name === 'more')?.phase;
  await eventually(async () => assert.equal(await phaseOf(), 'Ready'), 60_000);
  const sum = createHash('md5').update(bytes).digest('hex');
  assert.match(await ssh('dd if=/dev/sda bs=1M count=8 2>/dev/null | md5sum'), new RegExp(`^${sum}`));
  await assert.rejects(virtctl('addvolume', name, '--volume-name', 'more'), /already exists/);
  await virtctl('removevolume', name, '--volume-name', 'more');
  await eventually(async () => assert.equal(await phaseOf(), undefined), 60_000);
  assert.equal(await ssh('ls /sys/block | grep -c sd || true'), '0\n');
  const volumes = await node.kubectl('get', 'vm', name, '-o', 'jsonpath={.spec.template.spec.volumes[*].name}');
  assert.equal(volumes, 'data cloudinit');
});

test('memory-dump: made, downloaded, forgotten', async () => {
  await node.apply({
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'dump' } },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '500Mi' } } },
  });
  await virtctl('memory-dump', 'get', name, '--claim-name', 'dump');
  const phase = () => node.kubectl('get', 'vm', name, '-o', 'jsonpath={.status.memoryDumpRequest.phase}');
  await eventually(async () => assert.equal(await phase(), 'Completed'), 60_000);
  const output = path.join(dir, 'dump.tar.gz');
  await virtctl('memory-dump', 'download', name, '--output', output, '--port-forward');
  const { stdout } = await run('tar', ['tzf', output]);
  assert.match(stdout, /demo-dump-\d{8}-\d{6}\.memory\.dump/);
  await virtctl('memory-dump', 'remove', name);
  await eventually(async () => assert.equal(await phase(), ''), 60_000);
});

test('soft-reboot, reset and restart', async () => {
  assert.match(await virtctl('soft-reboot', name), /was scheduled to soft-reboot/);
  assert.match(await virtctl('reset', name), /was scheduled to reset/);
  const before = (await node.vmi(name))?.metadata.uid;
  await virtctl('restart', name);
  await node.vmiUntil(name, (found) => found?.status?.phase === 'Running' && found.metadata.uid !== before, 120_000);
});

test('what a node cannot do is refused in words', async () => {
  await assert.rejects(virtctl('migrate', name), /--live-migration=false/);
  await assert.rejects(virtctl('userlist', name), /does not have guest agent connected/);
  assert.match(await virtctl('evacuate-cancel', 'vm', name), /was canceled evacuation/);
  await assert.rejects(virtctl('start', 'nobody'), /there is no VirtualMachine default\/nobody/);
});

test('stop; vmexport of the disk of a VM that is stopped; start', async () => {
  await virtctl('stop', name);
  await node.vmiUntil(name, (found) => found === undefined, 120_000);
  const output = path.join(dir, 'disk.img.gz');
  const to = ['--output', output, '--volume', 'data', '--port-forward'];
  await virtctl('vmexport', 'download', 'export', `--vm=${name}`, ...to);
  const disk = gunzipSync(await readFile(output));
  const claim = await node.kubectl('get', 'pvc', 'demo-data', '-o', 'jsonpath={.metadata.uid}');
  const image = path.join(node.paths.claimsDir, `default_demo-data_${claim}`, 'disk.img');
  assert.equal(disk.length, (await stat(image)).size);
  assert.ok(disk.equals(await readFile(image)));
  await virtctl('start', name);
  await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 120_000);
});

test('create vm: what it writes is taken', async () => {
  const manifest = path.join(dir, 'made.yaml');
  const source = '--volume-import=type:pvc,src:default/demo-data';
  await writeFile(manifest, await virtctl('create', 'vm', '--name', 'made', '--run-strategy', 'Halted', source));
  await node.kubectl('apply', '-f', manifest);
  assert.equal(await node.kubectl('get', 'vm', 'made', '-o', 'jsonpath={.spec.runStrategy}'), 'Halted');
});
