import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { HostError, hostDiskImages } from '../../src/agent/vmi/host/index.ts';
import { openNoFollow } from '../../src/host/index.ts';
import { vmiOf } from '../fixtures/agent/builders.ts';
import { hookContext } from '../fixtures/agent/host-hooks.ts';
import { type Attacker, attack } from '../fixtures/attacker.ts';
import { eventually } from '../fixtures/eventually.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can become another user';
/** What a launcher runs as. It needs no pod of its own for this: a directory plays its root. */
const launcher: Attacker = { uid: 107, gid: 107 };
const pid = 77;
/** Before the mend a link won within 120 tries. */
const limit = { tries: 2_000, ms: 3_000 };

/** A launcher's root as the agent sees it, files of the host beside it, and files of its image that are not the launcher's. */
function machine(t: { after(fn: () => void): void }) {
  const base = mkdtempSync(path.join(tmpdir(), 'host-disk-race-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  chmodSync(base, 0o755);
  const root = path.join(base, 'proc', String(pid), 'root');
  const disks = path.join(root, 'run/kubevirt-private/vmi-disks');
  const directory = path.join(disks, 'data');
  const victimDirectory = path.join(root, 'etc');
  for (const each of [directory, victimDirectory, path.join(root, 'var')]) mkdirSync(each, { recursive: true });
  symlinkSync('/run', path.join(root, 'var/run'));
  for (const each of [disks, directory]) chownSync(each, launcher.uid, launcher.gid);
  const victim = path.join(base, 'victim');
  for (const file of [victim, path.join(victimDirectory, 'passwd')]) writeFileSync(file, 'root:x:0:0', { mode: 0o644 });
  const victims = [victim, victimDirectory, path.join(victimDirectory, 'passwd')];
  const shown = () => ({
    attributes: victims.map((file) => {
      const { size: bytes, uid, gid, mode, nlink } = lstatSync(file);
      return { file, bytes: lstatSync(file).isFile() ? bytes : 0, uid, gid, mode, nlink };
    }),
    names: readdirSync(victimDirectory),
  });
  return { base, procDir: path.join(base, 'proc'), directory, victim, shown };
}

const hostDisk = { path: '/somewhere/disk.img', type: 'DiskOrCreate' as const, capacity: '64Mi' };
const context = hookContext(
  vmiOf('Scheduled', {
    spec: { domain: {}, volumes: [{ name: 'data', hostDisk }] },
    status: { runtimeUser: 107 },
  }),
  pid,
);

for (const kind of ['link', 'hard link', 'pipe', 'directory', 'file', 'path']) {
  test(`a launcher that swaps names while its disk is made harms no file of others: ${kind}`, {
    skip: needsRoot,
  }, async (t) => {
    const { base, procDir, directory, victim, shown } = machine(t);
    const before = shown();
    const stopFile = path.join(base, 'stop');
    const input = { directory, victim, victimAsSeen: '/etc', kind, stopFile, forMs: limit.ms * 3 };
    const attacking = attack<{ swapped: number }>('swap-disk', launcher, input);
    const own = path.join(path.dirname(directory), 'own');
    await eventually(() => assert.ok(existsSync(own), 'the attacker has not begun'));
    const hook = hostDiskImages({ procDir });
    const seen = { made: 0, refused: 0, untyped: '' };
    const tryOnce = async () => {
      if (kind === 'path') removeImage(directory);
      else
        for (const name of readdirSync(directory)) rmSync(path.join(directory, name), { recursive: true, force: true });
      await hook.prepare(context);
    };
    const endMs = Date.now() + limit.ms;
    for (let tries = 0; tries < limit.tries && Date.now() < endMs && seen.untyped === ''; tries++) {
      await tryOnce().then(
        () => seen.made++,
        (error: unknown) => {
          // The test's own removal of what is there may meet the attacker, too.
          if (error instanceof HostError || isOfRemoval(error)) seen.refused++;
          else seen.untyped = String(error);
        },
      );
      if (!isDeepStrictEqual(shown(), before)) break;
    }
    writeFileSync(stopFile, '');
    const { swapped } = await attacking;
    t.diagnostic(JSON.stringify({ ...seen, swapped }));
    assert.deepEqual(shown(), before);
    assert.equal(seen.untyped, '');
    assert.ok(seen.made > 0, 'no disk was ever made');
    assert.ok(swapped > 0, 'nothing was ever swapped');
  });
}

function isOfRemoval(error: unknown): boolean {
  const call = error instanceof Error && 'syscall' in error ? String(error.syscall) : '';
  return ['scandir', 'rm', 'lstat', 'rmdir', 'unlink'].includes(call);
}

/** Where the directory itself is swapped a removal by path would do the harm that is looked for. */
function removeImage(directory: string): void {
  try {
    const place = openNoFollow(path.dirname(directory), path.basename(directory));
    try {
      place.unlink('disk.img');
    } finally {
      place.close();
    }
  } catch {
    // It is away, or empty.
  }
}
