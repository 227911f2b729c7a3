import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { KernelMounts, openNoFollow, type SafePath } from '../../../src/host/index.ts';
import { MountWorker } from '../../../src/host/mounts/worker.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { MountNamespace } from '../../fixtures/mount-namespace.ts';
import { ServedFileSystem, whyNotServed } from '../../fixtures/served-file-system.ts';

const run = promisify(execFile);
const skip = process.getuid?.() === 0 ? false : 'only root makes a mount namespace';

suite('mounts in the mount namespace of another process', { skip }, () => {
  let dir: string;
  let host: MountNamespace;
  let sidecar: MountNamespace;
  let mounts: KernelMounts;

  before(async () => {
    dir = mkdtempSync(path.resolve('.build', 'mounts-'));
    // What is in these exists in one namespace each, and not here.
    host = await MountNamespace.start(`mount -t tmpfs host ${dir}; : > ${dir}/target; mkdir ${dir}/directory`);
    sidecar = await MountNamespace.start(
      `mount -t tmpfs side ${dir}; echo content > ${dir}/image; mkdir ${dir}/folder`,
    );
    mounts = new KernelMounts({ pid: host.pid });
  });
  after(async () => {
    await mounts?.stop();
    await host?.stop();
    await sidecar?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const target = (name = 'target') => mounts.open(dir, name);
  const image = (name = 'image') => openNoFollow(`${sidecar.root}${dir}`, name);
  const isMounted = (name = 'target') => using(openNoFollow(host.root, dir.slice(1)), (at) => at.isMountPoint(name));
  const bind = (readOnly: boolean) =>
    usingAsync(image(), (source) =>
      usingAsync(target(), (on) => mounts.bind(source, on, { readOnly, sourcePid: sidecar.pid })),
    );
  const unmount = (name?: string) => usingAsync(target(name), (on) => mounts.unmount(on));

  test('a file of one container appears in the machine, truly read-only, and goes', async () => {
    assert.equal(isMounted(), false);
    await bind(true);
    const file = `${host.root}${dir}/target`;
    assert.equal(readFileSync(file, 'utf8'), 'content\n');
    assert.deepEqual(
      host.mountsAt(`${dir}/target`).map(({ root, options }) => [root, options.includes('ro')]),
      [['/image', true]],
    );
    assert.throws(() => writeFileSync(file, 'other'), { code: 'EROFS' });
    assert.equal(isMounted(), true);
    await unmount();
    assert.equal(isMounted(), false);
    assert.equal(statSync(file).size, 0);
  });

  test('writable when asked for, and read-only afterwards', async () => {
    await bind(false);
    const file = `${host.root}${dir}/target`;
    writeFileSync(file, 'content\n');
    await usingAsync(target(), (on) => mounts.protect(on));
    assert.throws(() => writeFileSync(file, 'other'), { code: 'EROFS' });
    // The sidecar's own file stays its own.
    writeFileSync(`${sidecar.root}${dir}/image`, 'content\n');
    await unmount();
  });

  test('what is open stays readable after the unmount', async () => {
    await bind(true);
    const opened = await open(`${host.root}${dir}/target`);
    await unmount();
    assert.equal(await opened.readFile('utf8'), 'content\n');
    await opened.close();
  });

  test('nothing mounted: said, and nothing is unmounted', async () => {
    await assert.rejects(unmount(), { code: 'NOT_MOUNTED' });
    await assert.rejects(unmount('directory'), { code: 'NOT_MOUNTED' });
  });

  test('a directory is not mounted on a file', async () => {
    const attempt = usingAsync(image('folder'), (source) =>
      usingAsync(target(), (on) => mounts.bind(source, on, { readOnly: true, sourcePid: sidecar.pid })),
    );
    await assert.rejects(attempt, { code: 'OTHER_KIND' });
  });

  test('a source or a target of another namespace is refused', async () => {
    const bindAs = (source: SafePath, on: SafePath, sourcePid: number) =>
      usingAsync(source, () => usingAsync(on, () => mounts.bind(source, on, { readOnly: true, sourcePid })));
    await assert.rejects(bindAs(image(), target(), host.pid), { code: 'NOT_IN_NAMESPACE' });
    await assert.rejects(bindAs(image(), image(), sidecar.pid), { code: 'NOT_IN_NAMESPACE' });
    assert.equal(isMounted(), false);
  });

  test('a process that has ended has no namespace', async () => {
    const ended = new KernelMounts({ pid: 4_194_304 });
    await assert.rejects(
      usingAsync(target(), (on) => ended.unmount(on)),
      { code: 'NAMESPACE_GONE' },
    );
    await ended.stop();
  });

  test('many at once, and no descriptor stays open', async () => {
    await bind(true);
    await unmount();
    const open = () => readdirSync('/proc/self/fd').length;
    const first = open();
    await Promise.all(Array.from({ length: 50 }, () => bind(true)));
    assert.equal(host.mountsAt(`${dir}/target`).length, 50);
    for (let left = 50; left > 0; left--) await unmount();
    assert.equal(isMounted(), false);
    assert.equal(open(), first);
  });

  test('this process and its file threads stay in their own namespace', async () => {
    const namespace = readlinkSync('/proc/self/ns/mnt');
    await bind(true);
    await unmount();
    assert.equal(readlinkSync('/proc/self/ns/mnt'), namespace);
    mkdirSync(path.join(dir, 'own'), { recursive: true });
    const own = path.join(dir, 'own', 'file');
    writeFileSync(own, 'here');
    const texts = await Promise.all(Array.from({ length: 16 }, () => readFile(own, 'utf8')));
    assert.deepEqual(new Set(texts), new Set(['here']));
  });

  test('a bundle as it is shipped mounts, too, and says which rights are missing', async () => {
    const file = path.join(dir, 'mounts-main.mjs');
    await bundleProgram('../../test/fixtures/mounts-main', file);
    const source = `${dir}/directory/source`.slice(1);
    writeFileSync(`${host.root}/${source}`, 'of the machine');
    const args = [file, String(host.pid), source, dir, 'target'];
    await run(process.execPath, args);
    assert.equal(readFileSync(`${host.root}${dir}/target`, 'utf8'), 'of the machine');
    await unmount();
    const without = ['--bounding-set', '-sys_admin', process.execPath, ...args];
    await assert.rejects(run('setpriv', without), /NO_RIGHTS[\s\S]*CAP_SYS_ADMIN|CAP_SYS_ADMIN[\s\S]*NO_RIGHTS/);
    assert.equal(isMounted(), false);
  });
});

suite('mounts of storage that does not answer', { skip: whyNotServed() ?? false, timeout: 120_000 }, () => {
  let dir: string;
  let host: MountNamespace;
  let served: ServedFileSystem;
  let mounts: KernelMounts;

  before(async () => {
    dir = mkdtempSync(path.resolve('.build', 'held-mounts-'));
    host = await MountNamespace.start(
      `mount -t tmpfs host ${dir}; mkdir ${dir}/served ${dir}/dead-pod ${dir}/pod; echo content > ${dir}/image;
       for pod in dead-pod pod; do for name in a b c; do : > ${dir}/$pod/$name; done; done`,
    );
    served = await ServedFileSystem.mount(host, `${dir}/served`, 'served');
    mounts = new KernelMounts({ pid: host.pid, deadlineMs: 3_000 });
  });
  after(async () => {
    served?.answerAgain();
    await mounts?.stop();
    await served?.stop();
    await host?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  test('its callers are told in time, others mount meanwhile, and all goes on when it answers again', async () => {
    const image = openNoFollow(host.root, `${dir}/served/disk.img`.slice(1));
    const open = readdirSync('/proc/self/fd').length;
    const bind = (source: SafePath, pod: string, name: string) =>
      usingAsync(mounts.open(dir, `${pod}/${name}`), (on) => mounts.bind(source, on, { readOnly: false }));
    served.silence();
    const held = Promise.allSettled([bind(image, 'dead-pod', 'a'), bind(image, 'dead-pod', 'b')]);
    await usingAsync(openNoFollow(host.root, `${dir}/image`.slice(1)), (source) => bind(source, 'pod', 'a'));
    assert.equal(readFileSync(`${host.root}${dir}/pod/a`, 'utf8'), 'content\n');
    const codes = (await held).map((each) => each.status === 'rejected' && each.reason.code);
    assert.deepEqual(codes, ['THREAD_ENDED', 'THREAD_ENDED']);
    // Of this pod no more threads are held; the others have theirs.
    await assert.rejects(bind(image, 'dead-pod', 'c'), {
      code: 'THREADS_HELD',
      message: /2 of .*dead-pod\/a.*dead-pod\/b/,
    });
    await usingAsync(openNoFollow(host.root, `${dir}/image`.slice(1)), (source) => bind(source, 'pod', 'b'));
    served.answerAgain();
    await eventually(() => bind(image, 'dead-pod', 'c'));
    assert.equal(readFileSync(`${host.root}${dir}/dead-pod/c`, 'utf8'), 'served');
    // What was given up was not done later: its caller may have taken its target away.
    assert.deepEqual([host.mountsAt(`${dir}/dead-pod/a`), host.mountsAt(`${dir}/dead-pod/b`)], [[], []]);
    await mounts.stop();
    assert.ok(readdirSync('/proc/self/fd').length <= open);
    image.close();
  });

  test('a program with a thread that is held ends, with its own code', async () => {
    const file = path.join(dir, 'held-mount-main.mjs');
    await bundleProgram('../../test/fixtures/held-mount-main', file);
    const args = [file, String(host.pid), `${dir}/served/disk.img`.slice(1), `${dir}/pod`, 'c', String(served.pid)];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 30_000 });
    served.answerAgain();
    assert.deepEqual([status, stdout], [7, 'THREAD_ENDED']);
  });
});

suite('the thread that mounts', () => {
  const order = () => ({ kind: 'unmount', namespace: -1, target: -1 }) as const;

  test('one that ends is noticed, and another one is started for the next call', async () => {
    const worker = new MountWorker({
      program: `require('node:worker_threads').parentPort.once('message', () => process.exit(1))`,
    });
    await assert.rejects(worker.call(order), { code: 'THREAD_ENDED' });
    await assert.rejects(worker.call(order), { code: 'THREAD_ENDED' });
    await worker.stop();
  });

  test('one that throws says why', async () => {
    const worker = new MountWorker({ program: `throw new Error('no such library')` });
    await assert.rejects(worker.call(order), { code: 'THREAD_ENDED', message: /no such library/ });
    await worker.stop();
  });

  test('one that does not answer is given up', async () => {
    const program = `require('node:worker_threads').parentPort.on('message', () => {})`;
    const worker = new MountWorker({ program, deadlineMs: 50 });
    await assert.rejects(worker.call(order), { code: 'THREAD_ENDED', message: /no answer within 50 ms/ });
    await worker.stop();
  });

  test('answers of the kernel come as they are, with the real one', async () => {
    const worker = new MountWorker();
    const { refused } = await worker.call(order);
    assert.equal(refused?.step, 'enter');
    await worker.stop();
  });
});

function using<T>(opened: SafePath, use: (opened: SafePath) => T): T {
  try {
    return use(opened);
  } finally {
    opened.close();
  }
}

async function usingAsync<T>(opened: SafePath, use: (opened: SafePath) => Promise<T>): Promise<T> {
  try {
    return await use(opened);
  } finally {
    opened.close();
  }
}
