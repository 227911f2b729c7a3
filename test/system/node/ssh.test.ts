import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { launcherPid, libvirtPid, NodeProcess } from '../../fixtures/node-process.ts';
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

  test('kill -9 of each program in turn, while the guest writes to its claim: no record that it has told as kept is lost', async () => {
    const records = new GuestRecords(node);
    await records.writeFrom(10_000);
    const programs = ['virt-handler', 'virt-controller', 'apiserver'] as const;
    const { uid = '' } = (await node.vmi('demo'))?.metadata ?? {};
    const qemu = await node.qemuPid('demo');
    for (const program of programs) await killed(program, () => node.pidOf(program));
    await node.end('SIGKILL');
    await node.start();
    await records.moreAreKept();
    await killed('the libvirt daemon', () => libvirtPid(uid));
    assert.equal(await node.qemuPid('demo'), qemu, 'it is still the guest of the begin');
    // Its guest ends with it, and the VM is started again.
    for (const [from, find] of [
      [20_000, () => launcherPid(uid)],
      [30_000, () => node.qemuPid('demo')],
    ] as const) {
      const { uid: before } = (await node.vmi('demo'))?.metadata ?? {};
      process.kill(await pidBy(find), 'SIGKILL');
      await node.vmiUntil('demo', (vmi) => vmi?.metadata.uid !== before && vmi?.status?.phase === 'Running', 60_000);
      await records.writeFrom(from);
    }
    assert.deepEqual(await records.lost(), []);

    /** It comes back, and the guest has written on meanwhile. */
    async function killed(what: string, find: () => Promise<number | undefined>): Promise<void> {
      const pid = await pidBy(find);
      process.kill(pid, 'SIGKILL');
      await eventually(async () => assert.notEqual(await pidBy(find), pid, what), 60_000);
      await records.moreAreKept();
    }
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

async function pidBy(find: () => Promise<number | undefined>): Promise<number> {
  const pid = await find();
  assert.ok(pid);
  return pid;
}

/** What the guest of the VM demo writes to its claim, and tells on its console when it is synced: each record has a place of its own in one file. */
class GuestRecords {
  readonly #node: NodeProcess;
  readonly #kept = new Set<number>();

  constructor(node: NodeProcess) {
    this.#node = node;
  }

  /** Resolves when the first ones are kept. Of the guest that runs now. */
  async writeFrom(first: number): Promise<void> {
    const room = '[ -e /data/log ] || dd if=/dev/zero of=/data/log bs=4096 count=128; sync';
    const record = `printf '%07d\\n' $n | dd of=/data/log bs=8 seek=$n conv=notrunc,fsync 2>/dev/null`;
    const loop = `n=${first}; while :; do ${record} && echo "kept $n"; n=$((n+1)); sleep 0.1; done`;
    const started = await this.#inGuest(
      `${room}; setsid sh -c '${loop.replaceAll("'", `'"'"'`)}' </dev/null >/dev/ttyS0 2>&1 &`,
    );
    assert.equal(started.code, 0, started.stderr);
    await this.#listen();
    await this.moreAreKept();
  }

  async moreAreKept(): Promise<void> {
    const before = this.#kept.size;
    await eventually(() => assert.ok(this.#kept.size > before + 3, `${this.#kept.size} were kept`), 60_000);
  }

  /** Those that were kept and are not on the claim. */
  async lost(): Promise<number[]> {
    // The guest writes on, and tells of more than is read.
    const kept = [...this.#kept];
    const { stdout } = await this.#inGuest(`tr -d '\\000' </data/log`);
    const found = new Set(stdout.split('\n').filter(Boolean).map(Number));
    return kept.filter((record) => !found.has(record));
  }

  /** Goes on when the agent does, until the guest ends. */
  async #listen(): Promise<void> {
    const serial = await this.#node.serial('demo');
    let text = '';
    serial.on('error', () => undefined);
    serial.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const end = text.lastIndexOf('\n') + 1;
      for (const [, record] of text.slice(0, end).matchAll(/kept (\d+)\r?\n/g)) this.#kept.add(Number(record));
      text = text.slice(end);
    });
  }

  #inGuest(...command: string[]) {
    return this.#node.cli(['ssh', 'demo'], '', command);
  }
}
