import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineInstance } from '../../src/api/index.ts';
import { debianImage, debianVm, serveDebian } from '../fixtures/debian-guest.ts';
import { DiskServer } from '../fixtures/disk-server.ts';
import { eventually, stays } from '../fixtures/eventually.ts';
import { NodeProcess } from '../fixtures/node-process.ts';
import { OwnNetwork } from '../fixtures/own-network.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

/** The node's own key gets in by cloud-init, so that the guest can be looked at whatever its agent does. */
const accessCredentials = [
  {
    sshPublicKey: {
      source: { secret: { secretName: 'virt-node-ssh-key' } },
      propagationMethod: { noCloud: {} },
    },
  },
  {
    sshPublicKey: {
      source: { secret: { secretName: 'keys' } },
      propagationMethod: { qemuGuestAgent: { users: ['root'] } },
    },
  },
  {
    userPassword: { source: { secret: { secretName: 'passwords' } }, propagationMethod: { qemuGuestAgent: {} } },
  },
];

const userData = `#cloud-config
hostname: clouded
write_files:
  - { path: /etc/written, content: by cloud-init }
`;

const probes = {
  // The agent is there before anybody can log in.
  readinessProbe: { exec: { command: ['systemctl', 'is-active', 'ssh'] }, periodSeconds: 5, timeoutSeconds: 5 },
  // Seldom: each failure of the boot's time is an event, and a VM has few of them to spend.
  livenessProbe: { guestAgentPing: {}, periodSeconds: 20, timeoutSeconds: 5, failureThreshold: 1_000 },
};

describe('a Debian as clouds have it, on the standalone node', { skip: needsRoot }, () => {
  const world = needsRoot ? undefined : new OwnNetwork();
  const server = new DiskServer();
  let node: NodeProcess;
  let scratch: string;

  before(async () => {
    assert.ok(existsSync(debianImage), 'there is no Debian: run node scripts/guest/debian/build.mjs');
    world?.enter();
    scratch = await mkdtemp(path.join(tmpdir(), 'virt-debian-'));
    for (const name of ['first', 'second']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', path.join(scratch, name)]);
    }
    const url = await server.start();
    await serveDebian(server);
    node = await NodeProcess.create('/var/tmp');
    await node.start();
    await putSecret('keys', { anna: await publicKey('first') });
    await putSecret('passwords', { debian: 'first-word' });
    await node.apply(debianVm({ url, userData, more: { accessCredentials, ...probes } }));
    await node.vmiUntil('debian', (vmi) => vmi?.status?.phase === 'Running', 60_000);
  });
  after(async () => {
    await node?.dispose();
    await server.stop();
    await rm(scratch, { recursive: true, force: true });
    world?.remove();
  });

  const publicKey = (name: string) => readFile(path.join(scratch, `${name}.pub`), 'utf8');
  const putSecret = (name: string, stringData: object) =>
    node.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData });
  const inGuest = (...command: string[]) => node.cli(['ssh', 'debian', '--user', 'debian'], '', command);
  const asRoot = (key: string) =>
    node.cli(['ssh', 'debian', '--user', 'root', '--identity', path.join(scratch, key)], '', ['id', '-un']);
  const subresource = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/debian`;
  const ask = async (what: string) => JSON.parse(await node.kubectl('get', '--raw', `${subresource}/${what}`));
  const condition = (vmi: VirtualMachineInstance | undefined, type: string) =>
    findCondition(vmi?.status?.conditions ?? [], type);

  test('it boots by EFI, an exec probe makes it ready, cloud-init has done what it was told, and its root file system has the size of its claim', async () => {
    await node.vmiUntil('debian', (vmi) => condition(vmi, 'Ready')?.status === 'True', 900_000);
    const { stdout, stderr } = await inGuest(
      'cloud-init status --wait >/dev/null; hostname; cat /etc/written; echo; test -d /sys/firmware/efi && echo efi; df -m --output=size / | tail -1',
    );
    const [name, written, efi, size] = stdout.split('\n').map((line) => line.trim());
    assert.deepEqual([name, written, efi], ['clouded', 'by cloud-init', 'efi'], stderr);
    assert.ok(Number(size) > 1200, stdout);
  });

  test('what its agent tells: system, users, file systems, addresses', async () => {
    await eventually(async () => {
      const info = await ask('guestosinfo');
      assert.deepEqual([info.hostname, info.os.id, info.os.versionId], ['clouded', 'debian', '12']);
      assert.match(info.guestAgentVersion, /^7\.2/);
      const mounts = (await ask('filesystemlist')).items;
      const root = mounts.find(({ mountPoint }: { mountPoint: string }) => mountPoint === '/');
      assert.equal(root.fileSystemType, 'ext4');
      assert.ok(root.totalBytes > 1.2e9 && root.usedBytes > 1e8, JSON.stringify(root));
    }, 60_000);
    const vmi = await node.vmi('debian');
    assert.equal(vmi?.status?.guestOSInfo?.id, 'debian');
    assert.ok(
      vmi?.status?.interfaces?.some(({ interfaceName }) => interfaceName),
      JSON.stringify(vmi?.status?.interfaces),
    );
  });

  test('keys and passwords are given by its agent, and those of a changed secret', async () => {
    await node.vmiUntil('debian', (vmi) => condition(vmi, 'AccessCredentialsSynchronized')?.status === 'True', 60_000);
    const first = await asRoot('first');
    assert.equal(first.stdout, 'root\n', first.stderr);
    assert.notEqual((await asRoot('second')).code, 0);
    await putSecret('keys', { anna: await publicKey('second') });
    await eventually(async () => assert.equal((await asRoot('second')).stdout, 'root\n'), 90_000);
    assert.notEqual((await asRoot('first')).code, 0);
    await eventually(async () => {
      const events = await node.kubectl('get', 'events', '-o', 'jsonpath={.items[*].reason}');
      assert.match(events, /AccessCredentialsSyncSuccess/);
    });
  });

  test('somebody logs in with the password, and is one of its users', async () => {
    const lines = ['debian', 'first-word', 'sleep 60', ''].join('\n');
    const console_ = node.spawnCli(['console', 'debian']);
    try {
      console_.stdin.write(lines);
      await eventually(async () => {
        const users = (await ask('userlist')).items.map(({ userName }: { userName: string }) => userName);
        assert.ok(users.includes('debian'), users.join(' '));
      }, 60_000);
    } finally {
      console_.kill();
    }
  });

  test('its file systems are frozen and thawed', async () => {
    const body = path.join(scratch, 'freeze.json');
    await writeFile(body, '{"unfreezeTimeout":"60s"}');
    const put = (what: string) => node.kubectl('replace', '--raw', `${subresource}/${what}`, '-f', body);
    await put('freeze');
    await node.vmiUntil('debian', (vmi) => vmi?.status?.fsFreezeStatus === 'frozen', 30_000);
    await put('unfreeze');
    await node.vmiUntil('debian', (vmi) => vmi?.status?.fsFreezeStatus !== 'frozen', 30_000);
    assert.equal((await inGuest('touch', '/tmp/thawed')).code, 0);
  });

  test('after a pause it has the time of the day', async () => {
    assert.equal((await node.cli(['pause', 'debian'])).code, 0);
    // Longer than the answer may be wrong by.
    await stays(async () => assert.equal(condition(await node.vmi('debian'), 'Paused')?.status, 'True'), 6_000);
    assert.equal((await node.cli(['unpause', 'debian'])).code, 0);
    await eventually(async () => {
      const seconds = () => Math.floor(Date.now() / 1000);
      const asked = seconds();
      const told = Number((await inGuest('date', '+%s')).stdout);
      assert.ok(told >= asked - 1 && told <= seconds() + 1, `${asked} when asked, ${told} in the guest`);
    }, 60_000);
  });
});
