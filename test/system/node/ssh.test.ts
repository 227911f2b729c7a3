import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeProcess } from '../../fixtures/node-process.ts';
import { OwnNetwork } from '../../fixtures/own-network.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('a login to the example VM', { skip: needsRoot }, () => {
  const world = needsRoot ? undefined : new OwnNetwork();
  let node: NodeProcess;
  let scratch: string;

  before(async () => {
    world?.enter();
    scratch = await mkdtemp(path.join(tmpdir(), 'virt-ssh-'));
    node = await NodeProcess.create('/var/tmp');
    await node.start(['up'], 'Ctrl-C shuts');
  });
  after(async () => {
    await node?.dispose();
    await rm(scratch, { recursive: true, force: true });
    world?.remove();
  });

  const inGuest = (...command: string[]) => node.cli(['ssh', 'demo'], '', command);

  test('virt-node ssh runs a command in the guest, by the node’s own key, and gives its exit status', async () => {
    assert.match(node.output, /virt-node\.js ssh demo/);
    const asked = await inGuest('hostname; uname -s; exit 7');
    assert.equal(asked.stdout, 'demo\nLinux\n', asked.stderr);
    assert.equal(asked.code, 7);
  });

  test('virt-node scp copies both ways', async () => {
    const [there, back] = ['there', 'back'].map((name) => path.join(scratch, name));
    assert.ok(there && back);
    await writeFile(there, 'from the host\n');
    const into = await node.cli(['scp', there, 'demo:/data/copied']);
    assert.equal(into.code, 0, into.stderr);
    const out = await node.cli(['scp', 'root@demo:/data/copied', back]);
    assert.equal(out.code, 0, out.stderr);
    assert.equal(await readFile(back, 'utf8'), 'from the host\n');
  });

  test('a key that the guest does not know, and a VM that is not there, are told with what to do', async () => {
    const other = path.join(scratch, 'other');
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', other]);
    const refused = await node.cli(['ssh', 'demo', '--identity', other, '--port', '22']);
    assert.equal(refused.code, 255);
    assert.match(refused.stderr, /does not take .*other for the user root/);
    const missing = await node.cli(['ssh', 'nobody']);
    assert.match(missing.stderr, /there is no VM nobody in namespace default/);
  });

  test('a file on the claim is there after the VM and the node were stopped and started; the new host key is no alarm', async () => {
    assert.equal((await inGuest('echo kept >/data/file; sync')).code, 0);
    await node.kubectl('patch', 'vm', 'demo', '--type=merge', '-p', '{"spec":{"runStrategy":"Halted"}}');
    await node.vmiUntil('demo', (vmi) => vmi === undefined, 60_000);
    assert.equal((await node.cli(['stop'])).code, 0);
    await node.ended();
    await node.start();
    await node.kubectl('patch', 'vm', 'demo', '--type=merge', '-p', '{"spec":{"runStrategy":"Always"}}');
    await node.vmiUntil('demo', (vmi) => vmi !== undefined);
    const asked = await inGuest('cat /data/file');
    assert.equal(asked.stdout, 'kept\n', asked.stderr);
    const known = await readdir(path.join(node.paths.sshDir, 'known-hosts'));
    assert.equal(known.length, 1, known.join(' '));
  });
});
