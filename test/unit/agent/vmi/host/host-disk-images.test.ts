import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, suite, type TestContext, test } from 'node:test';
import { makeImage } from '../../../../../src/agent/vmi/host/disk-image.ts';
import { HostError, hostDiskImages } from '../../../../../src/agent/vmi/host/index.ts';
import { claimImagePath, type VirtualMachineInstance } from '../../../../../src/api/index.ts';
import type { ClusterConfig } from '../../../../../src/cluster-config/index.ts';
import { SafePath } from '../../../../../src/host/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { eventsOf, hookContext } from '../../../../fixtures/agent/host-hooks.ts';

const pid = 77;
const needsRoot = process.getuid?.() === 0 ? false : 'only root can give files away';

interface Wish {
  readonly file?: string;
  readonly volume?: string;
  readonly capacity?: unknown;
  readonly config?: Partial<ClusterConfig>;
}

/** A launcher's root with the directory of one volume. */
function launcher(t: TestContext) {
  const procDir = mkdtempSync(path.join(tmpdir(), 'host-disk-'));
  t.after(() => rmSync(procDir, { recursive: true, force: true }));
  const root = path.join(procDir, String(pid), 'root');
  const directory = path.join(root, 'run/kubevirt-private/vmi-disks/data');
  mkdirSync(directory, { recursive: true });
  mkdirSync(path.join(root, 'var'));
  symlinkSync('/run', path.join(root, 'var/run'));
  const hook = hostDiskImages({ procDir });
  const prepareVmi = async (vmi: VirtualMachineInstance, config: Partial<ClusterConfig> = {}) =>
    eventsOf(await hook.prepare(hookContext(vmi, pid, config)));
  const prepare = ({ file = 'disk.img', volume = 'data', capacity = '1Mi', config = {} }: Wish = {}) => {
    const hostDisk = { path: `/somewhere/${file}`, type: 'DiskOrCreate' as const, capacity: capacity as string };
    const vmi = vmiOf('Scheduled', { spec: { domain: {}, volumes: [{ name: volume, hostDisk }] } });
    return prepareVmi(vmi, config);
  };
  return { root, directory, prepare, prepareVmi };
}

const refusedAs =
  (code: string, text = /./) =>
  (error: unknown) =>
    error instanceof HostError && error.code === code && text.test(error.message);

suite('the image of a host disk', { skip: needsRoot }, () => {
  let launched: ReturnType<typeof launcher>;
  beforeEach((t) => {
    launched = launcher(t as TestContext);
  });

  test('is QEMU’s alone, and has one name', async () => {
    await launched.prepare();
    const image = statSync(path.join(launched.directory, 'disk.img'));
    assert.deepEqual([image.uid, image.gid, image.mode & 0o777, image.nlink], [107, 107, 0o600, 1]);
  });

  test('of a claim has its directory given to QEMU; a directory of the machine that a VMI names keeps its owner', async () => {
    const nonRoot = (hostDiskPath: string) =>
      vmiOf('Scheduled', {
        status: { runtimeUser: 107 },
        spec: { domain: {}, volumes: [{ name: 'data', hostDisk: { path: hostDiskPath, type: 'Disk' } }] },
      });
    await launched.prepareVmi(nonRoot('/etc/x.img'));
    assert.deepEqual([statSync(launched.directory).uid, statSync(launched.directory).gid], [0, 0]);
    await launched.prepareVmi(nonRoot(claimImagePath('data')));
    assert.deepEqual([statSync(launched.directory).uid, statSync(launched.directory).gid], [107, 107]);
  });

  const places: Readonly<Record<string, (file: string) => void>> = {
    'a pipe': (file) => void execFileSync('mkfifo', [file]),
    'a device': (file) => void execFileSync('mknod', [file, 'c', '1', '3']),
    'a directory': (file) => mkdirSync(file),
    'a link to a file': (file) => symlinkSync('/etc/hostname', file),
    'a link that leads nowhere': (file) => symlinkSync('/nowhere', file),
    'a link to itself': (file) => symlinkSync('disk.img', file),
  };
  for (const [what, put] of Object.entries(places)) {
    test(`is refused when ${what} is in its place, at once`, { timeout: 5_000 }, async () => {
      put(path.join(launched.directory, 'disk.img'));
      await assert.rejects(launched.prepare(), refusedAs('DISK_REPLACED'));
      assert.deepEqual(readdirSync(launched.directory), ['disk.img']);
    });

    test(`is made, or refused, when ${what} is in its draft's place`, { timeout: 5_000 }, async () => {
      const draft = path.join(launched.directory, '.disk-image.new');
      put(draft);
      const reported = await launched.prepare().then(
        () => existsSync(draft),
        (error: unknown) => error instanceof HostError && statSync(draft).isDirectory(),
      );
      assert.equal(reported, what === 'a directory');
    });
  }

  test('is not made through a link in place of its directory', async () => {
    rmSync(launched.directory, { recursive: true });
    mkdirSync(path.join(launched.root, 'etc'));
    symlinkSync('/etc', launched.directory);
    await assert.rejects(launched.prepare(), refusedAs('DISK_REPLACED', /symbolic link/));
    assert.deepEqual(readdirSync(path.join(launched.root, 'etc')), []);
  });

  test('is not made in what is no directory', async () => {
    rmSync(launched.directory, { recursive: true });
    writeFileSync(launched.directory, 'a file');
    await assert.rejects(launched.prepare(), refusedAs('DISK_REPLACED', /no directory/));
  });

  for (const file of ['..', '.', 'a\0b', 'x'.repeat(256), 'ü'.repeat(128)]) {
    test(`is refused when no directory can have its name: ${JSON.stringify(file.slice(0, 10))}`, async () => {
      await assert.rejects(launched.prepare({ file }), refusedAs('DISK_NAME'));
      assert.deepEqual(readdirSync(launched.directory), []);
    });
  }

  test('may have the longest name that a directory takes', async () => {
    const file = 'x'.repeat(255);
    await launched.prepare({ file });
    assert.deepEqual(readdirSync(launched.directory), [file]);
  });

  for (const volume of ['..', '../..', 'data/..', 'data/', '', 'a\0', 'x'.repeat(300)]) {
    test(`is refused when its volume cannot be called that: ${JSON.stringify(volume.slice(0, 10))}`, async () => {
      await assert.rejects(launched.prepare({ volume }), refusedAs('DISK_NAME'));
    });
  }

  for (const capacity of ['1e30', '1e400', '-1', '-1e30', '0', '0.4', 'NaN', '', null, {}, Number.NaN]) {
    test(`is refused with a capacity of ${JSON.stringify(capacity)}`, async () => {
      await assert.rejects(launched.prepare({ capacity }), refusedAs('DISK_TOO_LARGE'));
      assert.deepEqual(readdirSync(launched.directory), []);
    });
  }

  test('has whole bytes', async () => {
    await launched.prepare({ capacity: '1000.7' });
    assert.equal(statSync(path.join(launched.directory, 'disk.img')).size, 1000);
  });

  test('on a file system without room for one more file is refused with what to do', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,nr_inodes=1', 'host-disk-test', launched.directory]);
    try {
      await assert.rejects(launched.prepare(), refusedAs('DISK_NOT_MADE', /the volume is full/));
      assert.deepEqual(readdirSync(launched.directory), []);
    } finally {
      execFileSync('umount', [launched.directory]);
    }
  });

  test('that somebody made meanwhile is left as it is', async () => {
    const image = path.join(launched.directory, 'disk.img');
    const opened = hostile(launched.directory, () => writeFileSync(image, 'the user’s'));
    makeImage(opened, 'disk.img', 1024);
    opened.close();
    assert.equal(readFileSync(image, 'utf8'), 'the user’s');
    assert.deepEqual(readdirSync(launched.directory), ['disk.img']);
  });

  test('is told to be somebody else’s when its draft was put aside for another file', async () => {
    const draft = path.join(launched.directory, '.disk-image.new');
    const victim = path.join(launched.root, 'victim');
    writeFileSync(victim, 'of the host');
    const opened = hostile(launched.directory, () => {
      rmSync(draft);
      linkSync(victim, draft);
    });
    assert.throws(() => makeImage(opened, 'disk.img', 1024), refusedAs('DISK_REPLACED'));
    opened.close();
    assert.equal(readFileSync(victim, 'utf8'), 'of the host');
    assert.equal(statSync(victim).uid, 0);
  });

  test('is made in its place where a file system gives no second names, and is gone again when that fails', async () => {
    const opened = hostile(launched.directory, () => {
      throw Object.assign(new Error('no links here'), { code: 'EPERM' });
    });
    makeImage(opened, 'disk.img', 4096);
    assert.equal(statSync(path.join(launched.directory, 'disk.img')).size, 4096);
    assert.throws(() => makeImage(opened, 'other.img', 1.5), { code: 'ERR_OUT_OF_RANGE' });
    opened.close();
    assert.deepEqual(readdirSync(launched.directory), ['disk.img']);
  });
});

/** A directory in which something happens right before the image gets its name. */
function hostile(directory: string, happen: () => void): SafePath {
  const opened = new SafePath(openSync(directory, constants.O_RDONLY), directory);
  const link = opened.link.bind(opened);
  opened.link = (from, to) => {
    happen();
    link(from, to);
  };
  return opened;
}
