import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { containerDisks } from '../../../../src/agent/vmi/host/index.ts';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import {
  type HostMounts,
  KernelMounts,
  openTrusted,
  recordDirectory,
  type SharedRecordFiles,
} from '../../../../src/host/index.ts';
import { uid } from '../../../fixtures/agent/builders.ts';
import { hookContext } from '../../../fixtures/agent/host-hooks.ts';
import { DiskPod } from '../../../fixtures/disk-pod.ts';
import { eventually } from '../../../fixtures/eventually.ts';

const skip = process.getuid?.() === 0 ? false : 'only root makes a mount namespace';
const kernelBoot = {
  volumes: [],
  domain: {
    devices: {},
    firmware: {
      kernelBoot: { container: { image: 'kernel', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initrd' } },
    },
  },
};

suite('images of side containers', { skip }, () => {
  let pod: DiskPod;
  let kernel: KernelMounts;
  let records: SharedRecordFiles;
  let nowMs = 0;
  let image: string;

  before(async () => {
    pod = await DiskPod.start();
    kernel = new KernelMounts({ pid: pod.machine.pid });
    records = recordDirectory(path.join(pod.dir, 'container-disk-mount-state'));
    image = pod.makeImage('image', { 'disk/demo.img': 'the disk', 'boot/vmlinuz': 'kernel', 'boot/initrd': 'initrd' });
  });
  after(async () => {
    await kernel?.stop();
    await pod?.stop();
  });
  afterEach(async () => {
    await pod.clear();
    await records.remove(uid);
    rmSync(path.join(pod.podsDir, pod.podUid, 'containers'), { recursive: true, force: true });
  });

  const hookOf = (deps: { mounts?: HostMounts; records?: SharedRecordFiles } = {}) =>
    containerDisks(
      { podsDir: pod.podsDir, machinePodsDir: pod.podsDir, nodeName: 'node' },
      { mounts: kernel, records, monotonicMs: () => nowMs, log: silentLogger, ...deps },
    );
  const prepare = (vmi = pod.vmi(), { imageVolume = false, hook = hookOf() } = {}) =>
    hook.prepare(hookContext(vmi, pod.launcher.pid, { imageVolume }) as never);
  const release = (hook = hookOf()) =>
    hook.release?.({ uid, stage: undefined, state: undefined, signal: new AbortController().signal });
  const kindOf = async (vmi?: VirtualMachineInstance, options?: { imageVolume?: boolean }) =>
    (await prepare(vmi, options)).kind;
  const recordFile = () => path.join(pod.dir, 'container-disk-mount-state', uid);

  test('the disk appears in the launcher, read-only, once, and goes with the record and the side container', async () => {
    const sidecar = await pod.startSidecar(image, 'disk_0.sock');
    const ended = once(sidecar, 'exit');
    for (const _try of [1, 2]) {
      const end = await prepare();
      assert.deepEqual(end.kind === 'done' && end.facts, { mounted: ['volume root'] });
      assert.deepEqual(pod.mounted(), ['disk_0.img ro']);
    }
    assert.equal(pod.seen('disk_0.img'), 'the disk');
    const base = `${pod.podsDir}/${pod.podUid}/volumes/kubernetes.io~empty-dir/container-disks`;
    assert.deepEqual(JSON.parse(readFileSync(recordFile(), 'utf8')), {
      mountTargetEntries: [{ targetFile: `${base}/disk_0.img`, socketFile: `${base}/disk_0.sock` }],
      usesSafePaths: true,
    });
    assert.equal(statSync(recordFile()).mode & 0o777, 0o600);
    for (const _try of [1, 2]) await release();
    assert.deepEqual([pod.mounted(), pod.names, existsSync(recordFile())], [[], [], false]);
    await ended;
  });

  test("kernel and initrd appear in a directory that is not the tenant's, and all of it goes", async () => {
    await pod.startSidecar(image, 'kernel-boot.sock');
    await prepare(pod.vmi(kernelBoot));
    assert.deepEqual(pod.mounted().sort(), ['kernel-boot/initrd ro', 'kernel-boot/vmlinuz ro']);
    assert.equal(pod.seen('kernel-boot/vmlinuz'), 'kernel');
    const directory = statSync(path.join(pod.disksDir, 'kernel-boot'));
    assert.deepEqual([directory.uid, directory.gid, directory.mode & 0o777], [0, 0, 0o755]);
    await release();
    assert.deepEqual([pod.mounted(), pod.names], [[], []]);
  });

  test('a side container that is not there is waited for, and named after a minute', async () => {
    const hook = hookOf();
    for (const ms of [0, 30_000, 60_000]) {
      nowMs = ms;
      const end = await prepare(pod.vmi(), { hook });
      assert.deepEqual(end.kind === 'wait' && [end.afterMs, /volume root is not ready/.test(end.because)], [
        1_000,
        true,
      ]);
    }
    nowMs = 60_001;
    await assert.rejects(prepare(pod.vmi(), { hook }), { code: 'DISK_CONTAINER', message: /volume root .* pulled/ });
    nowMs = 0;
    assert.equal(existsSync(recordFile()), false);
  });

  test('a socket that nobody listens on is one that is not ready', async () => {
    const sidecar = await pod.startSidecar(image, 'disk_0.sock');
    const ended = once(sidecar, 'exit');
    sidecar.kill('SIGKILL');
    await ended;
    assert.equal(await kindOf(), 'wait');
  });

  test('the gate and the pod decide how images come, also for a pod from before the gate was switched', async () => {
    assert.equal(await kindOf(pod.vmi(), { imageVolume: true }), 'done', 'as volumes: nothing to do');
    mkdirSync(path.join(pod.podsDir, pod.podUid, 'containers/container-disk-binary'), { recursive: true });
    assert.equal(await kindOf(pod.vmi(), { imageVolume: true }), 'wait', 'made for side containers');
    rmSync(path.join(pod.podsDir, pod.podUid, 'containers'), { recursive: true });
    assert.equal(await kindOf(), 'wait', 'the gate is off');
    await pod.launcher.run('mount -t tmpfs run /run; mkdir -p /run/kubevirt-image-volume/disk_0');
    assert.equal(await kindOf(), 'done', 'made for volumes');
    await pod.launcher.run('umount /run');
    assert.equal(await kindOf(pod.vmi({ volumes: [{ name: 'empty', emptyDisk: { capacity: '1Mi' } }] })), 'done');
  });

  test('directories of two pods are refused until one goes', async () => {
    const other = '6d8f36ea-0000-4000-8000-000000000002';
    const directory = path.join(pod.podsDir, other, 'volumes/kubernetes.io~empty-dir/container-disks');
    mkdirSync(directory, { recursive: true });
    const vmi = pod.vmi();
    vmi.status = { ...vmi.status, activePods: { ...vmi.status?.activePods, [other]: 'node' } };
    await assert.rejects(prepare(vmi), { code: 'SEVERAL_PODS' });
    rmSync(path.join(pod.podsDir, other), { recursive: true });
    assert.equal(await kindOf(vmi), 'wait');
  });

  suite('of a tenant who means harm', () => {
    const target = (name = 'disk_0.img') => path.join(pod.disksDir, name);
    const outside = () => path.join(pod.dir, 'outside');
    const refusals: readonly (readonly [string, string, () => void])[] = [
      ['a link in place of the target', 'MOUNT_TARGET', () => symlinkSync(outside(), target())],
      ['a pipe in place of the target', 'MOUNT_TARGET', () => execFileSync('mkfifo', [target()])],
      ['a directory in place of the target', 'MOUNT_TARGET', () => mkdirSync(target())],
    ];
    for (const [what, code, harm] of refusals) {
      test(`${what} is refused, and nothing is mounted or touched`, async () => {
        await pod.startSidecar(image, 'disk_0.sock');
        harm();
        await assert.rejects(prepare(), { code });
        assert.deepEqual([pod.mounted(), existsSync(outside())], [[], false]);
        await release();
        assert.equal(existsSync(recordFile()), false);
      });
    }

    const kernelRefusals: readonly (readonly [string, () => void])[] = [
      ['a link', () => symlinkSync(pod.dir, target('kernel-boot'))],
      ['a file', () => writeFileSync(target('kernel-boot'), '')],
    ];
    for (const [what, harm] of kernelRefusals) {
      test(`${what} in place of the directory for kernel and initrd is refused`, async () => {
        await pod.startSidecar(image, 'kernel-boot.sock');
        harm();
        await assert.rejects(prepare(pod.vmi(kernelBoot)), { code: 'MOUNT_TARGET' });
        await release();
        assert.deepEqual([pod.mounted(), statSync(pod.dir).mode & 0o777], [[], 0o700]);
      });
    }

    test('a link, a pipe and a file in place of the socket are refused', async () => {
      await pod.startSidecar(image, 'real.sock');
      symlinkSync('real.sock', target('disk_0.sock'));
      await assert.rejects(prepare(), { code: 'DISK_CONTAINER' });
      rmSync(target('disk_0.sock'));
      execFileSync('mkfifo', [target('disk_0.sock')]);
      await assert.rejects(prepare(), { code: 'DISK_CONTAINER' });
      rmSync(target('disk_0.sock'));
      writeFileSync(target('disk_0.sock'), '');
      await assert.rejects(prepare(), { code: 'DISK_CONTAINER' });
      assert.deepEqual(pod.mounted(), []);
    });

    test('a socket of another process lends no file of it', async (t) => {
      const directory = openTrusted(pod.disksDir);
      const server = createServer().listen(directory.newSocketAddress('disk_0.sock'));
      t.after(() => {
        server.close();
        directory.close();
      });
      await once(server, 'listening');
      const vmi = pod.vmi({ volumes: [{ name: 'root', containerDisk: { image: 'demo', path: '/etc/shadow' } }] });
      await assert.rejects(prepare(vmi), { code: 'DISK_CONTAINER', message: /no side container of this pod/ });
      assert.deepEqual(pod.mounted(), []);
    });

    test('a socket of another pod’s side container lends no file of it', async () => {
      const other = path.join(pod.dir, 'other-pod');
      mkdirSync(other, { recursive: true });
      await pod.startSidecar(image, 'disk_0.sock', other);
      linkSync(path.join(other, 'disk_0.sock'), target('disk_0.sock'));
      await assert.rejects(prepare(), { code: 'DISK_CONTAINER', message: /no side container of this pod/ });
      assert.deepEqual(pod.mounted(), []);
    });

    const images: readonly (readonly [
      string,
      string | undefined,
      Readonly<Record<string, string>>,
      (dir: string) => void,
    ])[] = [
      ['no disk', undefined, { 'boot/x': '' }, () => undefined],
      ['an empty directory', undefined, {}, (dir) => mkdirSync(path.join(dir, 'disk'))],
      ['two disks', undefined, { 'disk/a': '', 'disk/b': '' }, () => undefined],
      ['a missing file', '/nowhere', {}, () => undefined],
      ['a pipe', '/pipe', {}, (dir) => execFileSync('mkfifo', [path.join(dir, 'pipe')])],
      ['a directory', '/boot', { 'boot/x': '' }, () => undefined],
      ['a link in a circle', '/loop', {}, (dir) => symlinkSync('loop', path.join(dir, 'loop'))],
      ['a link out of the image', '/out', {}, (dir) => symlinkSync('../outside-of-image', path.join(dir, 'out'))],
      ['what is mounted in its container', '/mounted/file', {}, () => undefined],
    ];
    for (const [index, [what, imagePath, files, make]] of images.entries()) {
      test(`an image with ${what} is refused`, async () => {
        writeFileSync(path.join(pod.dir, 'outside-of-image'), 'secret');
        const bad = pod.makeImage(`bad-${index}`, files);
        make(bad);
        await pod.startSidecar(bad, 'disk_0.sock');
        const containerDisk = { image: 'demo', ...(imagePath !== undefined && { path: imagePath }) };
        const vmi = pod.vmi({ volumes: [{ name: 'root', containerDisk }] });
        await assert.rejects(prepare(vmi), { code: 'DISK_IMAGE', message: /volume root/ });
        assert.deepEqual(pod.mounted(), []);
        await release();
      });
    }

    test('links within the image are followed within it', async () => {
      const linked = pod.makeImage('linked', { 'deep/real.img': 'linked disk' });
      symlinkSync('/deep', path.join(linked, 'disk'));
      await pod.startSidecar(linked, 'disk_0.sock');
      await prepare();
      assert.equal(pod.seen('disk_0.img'), 'linked disk');
      await release();
    });

    test('a target that was renamed while it was mounted on is unmounted all the same', async () => {
      await pod.startSidecar(image, 'disk_0.sock');
      await prepare();
      renameSync(target(), target('elsewhere'));
      assert.deepEqual(pod.mounted(), ['elsewhere ro']);
      await release();
      assert.deepEqual(pod.mounted(), []);
    });
  });

  suite('taken over', () => {
    const upstreamRecord = () => {
      const base = `volumes/kubernetes.io~empty-dir/container-disks`;
      const [machine, short] = [`/var/lib/kubelet/pods/${pod.podUid}/${base}`, `/pods/${pod.podUid}/${base}`];
      const entry = (target: string, socket: string) => ({
        targetFile: `${machine}/${target}`,
        socketFile: `${short}/${socket}`,
      });
      const mountTargetEntries = [entry('kernel-boot', 'kernel-boot.sock'), entry('disk_0.img', 'disk_0.sock')];
      return JSON.stringify({ mountTargetEntries, usesSafePaths: true });
    };

    test('what upstream mounted is cleaned up by its record, whatever stands above in the stack', async () => {
      await pod.machine.run(`cd ${pod.disksDir}; touch disk_0.img; mount --bind ${image}/disk/demo.img disk_0.img; mount --bind ${image}/disk/demo.img disk_0.img
        mkdir kernel-boot; touch kernel-boot/vmlinuz; mount --bind ${image}/boot/vmlinuz kernel-boot/vmlinuz`);
      await records.list();
      await records.replace(uid, upstreamRecord());
      await release();
      assert.deepEqual([pod.mounted(), pod.names, existsSync(recordFile())], [[], [], false]);
    });

    test('a record that was torn while it was written still cleans up', async () => {
      await pod.startSidecar(image, 'disk_0.sock');
      await prepare();
      await records.replace(uid, upstreamRecord().slice(0, -20));
      await release();
      assert.deepEqual([pod.mounted(), existsSync(recordFile())], [[], false]);
    });

    test('a record with paths of others touches none of them', async () => {
      const foreign = path.join(pod.dir, 'foreign.img');
      writeFileSync(foreign, 'foreign');
      await records.list();
      const entry = (targetFile: string) => ({ targetFile, socketFile: foreign });
      const mountTargetEntries = [
        entry(foreign),
        entry(`${pod.disksDir}/../../../../../foreign.img`),
        entry('disk_0.img'),
      ];
      await records.replace(uid, JSON.stringify({ mountTargetEntries, usesSafePaths: true }));
      await release();
      assert.deepEqual([readFileSync(foreign, 'utf8'), existsSync(recordFile())], ['foreign', false]);
    });

    test('a mount that upstream left writable becomes read-only', async () => {
      await pod.startSidecar(image, 'disk_0.sock');
      await prepare();
      await pod.machine.run(`mount -o remount,bind,rw ${pod.disksDir}/disk_0.img`);
      assert.deepEqual(pod.mounted(), ['disk_0.img rw']);
      await prepare();
      assert.deepEqual(pod.mounted(), ['disk_0.img ro']);
      await release();
    });

    test('the image of a side container that was started again is mounted in place of the first', async () => {
      const first = await pod.startSidecar(image, 'disk_0.sock');
      await prepare();
      const ended = once(first, 'exit');
      first.kill('SIGTERM');
      await ended;
      await pod.startSidecar(pod.makeImage('again', { 'disk/demo.img': 'again' }), 'disk_0.sock');
      await prepare();
      assert.deepEqual([pod.mounted(), pod.seen('disk_0.img')], [['disk_0.img ro'], 'again']);
      await release();
    });
  });

  test('a full disk refuses before anything is mounted', async () => {
    await pod.startSidecar(image, 'disk_0.sock');
    const full: SharedRecordFiles = {
      ...records,
      exchange: () => Promise.reject(Object.assign(new Error('no space left'), { code: 'ENOSPC' })),
    };
    await assert.rejects(prepare(pod.vmi(), { hook: hookOf({ records: full }) }), { code: 'MOUNT_RECORD' });
    assert.deepEqual([pod.mounted(), pod.names], [[], ['disk_0.sock']]);
  });

  suite('after a process that ended', () => {
    const disks = {
      volumes: [
        { name: 'a', containerDisk: { image: 'x' } },
        { name: 'b', containerDisk: { image: 'x' } },
      ],
    };
    const both = () => pod.vmi({ ...kernelBoot, ...disks });

    /** From the `lives`-th change on nothing happens any more; resolves true when it came so far. */
    const dying = (lives: number) => {
      let left = lives;
      let die = (_: boolean) => {};
      const death = new Promise<boolean>((resolve) => (die = resolve));
      const step = async <T>(act: () => Promise<T>): Promise<T> => {
        if (left-- > 0) return act();
        die(true);
        return new Promise(() => undefined);
      };
      const mounts: HostMounts = {
        open: (trusted, relative) => kernel.open(trusted, relative),
        bind: (...args) => step(() => kernel.bind(...args)),
        protect: (...args) => step(() => kernel.protect(...args)),
        unmount: (...args) => step(() => kernel.unmount(...args)),
        remove: (...args) => step(() => kernel.remove(...args)),
        stop: async () => undefined,
      };
      const files: SharedRecordFiles = { ...records, exchange: (...args) => step(() => records.exchange(...args)) };
      return { hook: hookOf({ mounts, records: files }), death };
    };
    const startAll = async () => {
      for (const socket of ['disk_0.sock', 'disk_1.sock', 'kernel-boot.sock']) await pod.startSidecar(image, socket);
    };
    const whole = ['disk_0.img ro', 'disk_1.img ro', 'kernel-boot/initrd ro', 'kernel-boot/vmlinuz ro'];
    const steps = Array.from({ length: 6 }, (_, index) => index);

    test('before any step of the mounting: the next one ends the same, nothing doubled, and cleans up', async () => {
      await startAll();
      const died: boolean[] = [];
      for (const lives of steps) {
        const { hook, death } = dying(lives);
        died.push(await Promise.race([death, prepare(both(), { hook }).then(() => false)]));
        await prepare(both());
        assert.deepEqual(pod.mounted().sort(), whole, `after ${lives} steps`);
        await pod.machine.run(`umount ${whole.map((line) => `${pod.disksDir}/${line.split(' ')[0]}`).join(' ')}`);
        await records.remove(uid);
      }
      assert.deepEqual(died, [true, true, true, true, true, false]);
    });

    test('before any step of the mounting: the next one cleans up at once', async () => {
      for (const lives of steps) {
        await startAll();
        const { hook, death } = dying(lives);
        await Promise.race([death, prepare(both(), { hook })]);
        await release();
        assert.deepEqual([pod.mounted(), existsSync(recordFile())], [[], false], `after ${lives} steps`);
        await pod.clear();
      }
    });

    test('before any step of the unmounting: the next one ends it', async () => {
      const died: boolean[] = [];
      for (const lives of steps) {
        await startAll();
        await prepare(both());
        const { hook, death } = dying(lives);
        died.push(await Promise.race([death, Promise.resolve(release(hook)).then(() => false)]));
        await release();
        assert.deepEqual([pod.mounted(), pod.names, existsSync(recordFile())], [[], [], false], `after ${lives} steps`);
        await pod.clear();
      }
      assert.deepEqual(died, [true, true, true, true, true, false]);
    });
  });

  test('checksums are computed once, of what is mounted, where the status has none', async () => {
    await pod.startSidecar(image, 'disk_0.sock');
    await pod.startSidecar(image, 'kernel-boot.sock');
    const hook = hookOf();
    const vmi = pod.vmi({ ...kernelBoot, volumes: [{ name: 'root', containerDisk: { image: 'x' } }] });
    const prepared = await prepare(vmi, { hook });
    const facts = prepared.kind === 'done' ? prepared.facts : undefined;
    const { signal } = new AbortController();
    const observe = () => hook.observe?.({ uid, vmi, launcherPid: pod.launcher.pid, facts, signal });
    assert.deepEqual(await observe(), {}, 'nobody waits for it');
    const expected = { volumes: { root: crc32('the disk') }, kernel: crc32('kernel'), initrd: crc32('initrd') };
    await eventually(async () => assert.deepEqual(await observe(), { imageChecksums: expected }));
    const checksum = (text: string) => ({ checksum: crc32(text) });
    const told = {
      ...vmi,
      status: {
        ...vmi.status,
        volumeStatus: [{ name: 'root', target: 'vda', containerDiskVolume: checksum('the disk') }],
        kernelBootStatus: { kernelInfo: checksum('kernel'), initrdInfo: checksum('initrd') },
      },
    };
    assert.equal(hook.mayObserve?.({ vmi: told, facts }), false);
    await release(hook);
  });

  test('no descriptor stays open', async () => {
    await pod.startSidecar(image, 'disk_0.sock');
    await prepare();
    const open = readdirSync('/proc/self/fd').length;
    for (let round = 0; round < 5; round++) await prepare();
    await assert.rejects(prepare(pod.vmi({ volumes: [{ name: 'r', containerDisk: { image: 'd', path: '/no' } }] })));
    assert.equal(readdirSync('/proc/self/fd').length, open);
    await release();
  });
});
