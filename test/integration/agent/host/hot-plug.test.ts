import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { bundleProgram } from '../../../../scripts/bundle.mjs';
import { type HostHook, HostWork } from '../../../../src/agent/vmi/host/index.ts';
import type { Domain } from '../../../../src/api/index.ts';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { domainOf } from '../../../fixtures/agent/builders.ts';
import { memoryFiles } from '../../../fixtures/agent/host-hooks.ts';
import { DeviceCgroups } from '../../../fixtures/device-cgroups.ts';
import { blockClaim, HotPlugPods, pluggedVmi, statusOf } from '../../../fixtures/hot-plug-pods.ts';
import { MountNamespace } from '../../../fixtures/mount-namespace.ts';

/** With the kernel's own mounts and nodes, in namespaces of the test. */

const skip = process.getuid?.() === 0 ? false : 'only root mounts and makes nodes';

suite('volumes that are plugged into a launcher', { skip }, () => {
  let pods: HotPlugPods;

  beforeEach(async () => {
    pods = await HotPlugPods.start();
  });
  afterEach(() => pods.stop());

  const image = statusOf('image', 'hp');
  const dump = statusOf('dump', 'hp', { memoryDumpVolume: { claimName: 'dump' } });
  const block = statusOf('block', 'hp', blockClaim);
  const all = [image, dump, block];
  const attachAll = () => pods.attach('hp', { images: { image: 'content', dump: '' }, devices: { block: '240 7' } });
  const adjust = async (vmi = pluggedVmi(all), deps = {}) => {
    const result = await pods.hook(deps).adjust?.(pods.context(vmi));
    assert.equal(result?.kind, 'done');
    return result;
  };
  const settle = (vmi: ReturnType<typeof pluggedVmi>, domain?: Domain) =>
    pods.hook().settle?.(pods.context(vmi, 'settling', domain));
  const release = () =>
    pods.hook().release?.({ uid: 'uid-1', stage: 'done', state: pods.saved, signal: new AbortController().signal });
  const rdev = (file: string) => statSync(file).rdev;
  const names = () => readdirSync(pods.plugged).sort();

  test('a start gets all of them: a node, an image, a directory, for the user qemu', async () => {
    await attachAll();
    const result = await pods.hook().prepare(pods.context(pluggedVmi(all), 'start'));
    assert.deepEqual(result, {
      kind: 'done',
      facts: { volumes: ['image', 'dump', 'block'], awaited: {}, failed: {} },
      events: [],
      summary: 'image, dump, block',
    });
    assert.deepEqual(readdirSync(pods.inLauncher).sort(), ['block', 'dump', 'image.img']);
    assert.equal(readFileSync(`${pods.inLauncher}/image.img`, 'utf8'), 'content');
    writeFileSync(`${pods.inLauncher}/dump/memory`, 'memory');
    assert.ok(statSync(`${pods.inLauncher}/block`).isBlockDevice());
    assert.equal(rdev(`${pods.inLauncher}/block`), 240 * 256 + 7);
    for (const name of ['block', 'dump', 'image.img']) assert.equal(statSync(`${pods.inLauncher}/${name}`).uid, 107);
    assert.equal(pods.record, pods.recordOf('image.img', 'dump', 'block'));
    assert.deepEqual(await pods.hook().observe?.({ ...pods.context(pluggedVmi(all)), facts: undefined }), {
      mountedVolumes: ['image', 'dump', 'block'],
    });
  });

  test('a disk may be opened in the launcher’s cgroup as long as it is plugged, and all else is as before', async () => {
    await attachAll();
    const cgroups = new DeviceCgroups();
    try {
      await cgroups.restrict();
      cgroups.take(pods.launcher.pid);
      const { open } = await cgroups.start();
      execFileSync('mknod', [`${pods.plugged}/probe`, 'b', '240', '7']);
      const probe = async () => [await open(`${pods.plugged}/probe`), await open('/dev/null'), await open('/dev/zero')];
      assert.deepEqual(await probe(), ['EPERM', 'open', 'EPERM']);
      await adjust();
      assert.deepEqual(await probe(), ['ENXIO', 'open', 'EPERM']);
      await settle(pluggedVmi(all, ['block']));
      assert.deepEqual(await probe(), ['EPERM', 'open', 'EPERM']);
      await adjust();
      await release();
      assert.deepEqual(await probe(), ['EPERM', 'open', 'EPERM']);
      rmSync(`${pods.plugged}/probe`);
    } finally {
      cgroups.give(pods.launcher.pid);
      await cgroups.remove();
    }
  });

  test('the same again changes nothing', async () => {
    await attachAll();
    await adjust();
    const before = pods.machine.mountsAt(
      `${pods.directory}/pods/launcher/volumes/kubernetes.io~empty-dir/hotplug-disks/image.img`,
    );
    const { facts } = await adjust();
    assert.deepEqual(facts.volumes, ['image', 'dump', 'block']);
    assert.equal(before.length, 1);
    assert.equal(
      pods.machine.mountsAt(`${pods.directory}/pods/launcher/volumes/kubernetes.io~empty-dir/hotplug-disks/image.img`)
        .length,
      1,
    );
    assert.deepEqual(names(), ['block', 'dump', 'image.img']);
  });

  test('a start waits for what is not there yet, and a running guest gets the rest meanwhile', async () => {
    const late = statusOf('late', 'later');
    const unattached = statusOf('unattached', '');
    await attachAll();
    const waits = await pods.hook().prepare(pods.context(pluggedVmi([...all, late]), 'start'));
    assert.equal(waits.kind === 'wait' && waits.afterMs, 1_000);
    assert.match(waits.kind === 'wait' ? waits.because : '', /attachment pod is not on this node yet/);
    const { facts, events } = await adjust(pluggedVmi([late, unattached, ...all]));
    assert.deepEqual(facts.volumes, ['image', 'dump', 'block']);
    assert.deepEqual(Object.keys(facts.awaited), ['late', 'unattached']);
    assert.deepEqual(events, []);
    await pods.attach('later', { images: { late: 'late' } });
    assert.deepEqual((await adjust(pluggedVmi([late]))).facts.volumes, ['late']);
    assert.equal(readFileSync(`${pods.inLauncher}/late.img`, 'utf8'), 'late');
  });

  test('a guest that comes from another node has its volumes from the attachment pod of this one', async () => {
    await pods.attach('here', { images: { image: 'here' } });
    const vmi = pluggedVmi([image]);
    const arriving = { ...vmi, status: { ...vmi.status, migrationState: { targetAttachmentPodUID: 'here' } } };
    const result = await pods.hook().prepare(pods.context(arriving, 'incoming'));
    assert.equal(result.kind, 'done');
    assert.equal(readFileSync(`${pods.inLauncher}/image.img`, 'utf8'), 'here');
    assert.equal((await pods.hook().prepare(pods.context(vmi, 'incoming'))).kind, 'done');
  });

  test('what is not asked for any more is taken away, the rest stays; then nothing is left of it', async () => {
    await attachAll();
    await adjust();
    const without = pluggedVmi(all, ['image', 'block']);
    const settled = await settle(without);
    assert.deepEqual(settled?.kind === 'done' && settled.facts.volumes, ['dump']);
    assert.deepEqual(names(), ['dump']);
    assert.deepEqual(readdirSync(pods.inLauncher), ['dump']);
    assert.equal(pods.record, pods.recordOf('dump'));
    await settle(pluggedVmi(all, ['image', 'block', 'dump']));
    assert.deepEqual([names(), pods.record], [[], undefined]);
  });

  test('what its domain still has stays, while others go; without a known domain nothing goes', async () => {
    await attachAll();
    await adjust();
    const without = pluggedVmi(all, ['image', 'block']);
    const holding = domainOf();
    holding.Spec.Devices.Disks = [
      {
        Device: 'disk',
        Type: 'block',
        Source: { Dev: '/dev/block', File: '' },
        Target: { Bus: 'scsi', Device: 'sda', Tray: '' },
        Alias: { Name: 'block', UserDefined: true },
      },
    ];
    const { domain: _, ...unknown } = pods.context(without, 'settling');
    await pods.hook().settle?.(unknown);
    assert.deepEqual(names(), ['block', 'dump', 'image.img']);
    await settle(without, holding);
    assert.deepEqual(names(), ['block', 'dump']);
    assert.equal(pods.record, pods.recordOf('dump', 'block'));
    await settle(without);
    assert.deepEqual(names(), ['dump']);
  });

  test('all of it is released, twice, and without the pods', async () => {
    await attachAll();
    await adjust();
    await release();
    assert.deepEqual([names(), pods.record], [[], undefined]);
    await release();
    await adjust();
    execFileSync('nsenter', [
      `--mount=/proc/${pods.machine.pid}/ns/mnt`,
      'umount',
      '-R',
      `${pods.directory}/pods/launcher/volumes/kubernetes.io~empty-dir/hotplug-disks/image.img`,
    ]);
    rmSync(`${pods.plugged}/image.img`);
    pods.records.files.set('uid-1', pods.recordOf('image.img').replaceAll('/launcher/', '/gone/'));
    await release();
    assert.equal(pods.record, undefined);
  });

  test('what upstream’s agent plugged is taken over and cleaned up, from an old record and from a torn one, too', async () => {
    await attachAll();
    for (const record of [
      (text: string) => text,
      (text: string) => text.replace('true', 'false'),
      (text: string) => text.slice(0, -30),
    ]) {
      await adjust();
      pods.records.files.set('uid-1', record(pods.recordOf('image.img', 'dump', 'block')));
      const { facts } = await adjust();
      assert.deepEqual(facts.volumes, ['image', 'dump', 'block']);
      await settle(pluggedVmi(all, ['block']));
      assert.deepEqual(names(), ['dump', 'image.img']);
      await release();
      assert.deepEqual([names(), pods.record], [[], undefined]);
    }
  });

  test('what was mounted before this agent’s pod was made is taken out, and the copy in its own namespace with it', async (t) => {
    await attachAll();
    await adjust();
    const dir = mkdtempSync(path.resolve('.build', 'unplug-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const program = path.join(dir, 'unplug-main.mjs');
    await bundleProgram('../../test/fixtures/unplug-main', program);
    // As upstream's DaemonSet has it: the pods' directory without propagation.
    const agent = await MountNamespace.start(':', { of: pods.machine, propagation: 'private' });
    t.after(() => agent.stop());
    const plugged = `${pods.directory}/pods/launcher/volumes/kubernetes.io~empty-dir/hotplug-disks`;
    for (const name of ['image.img', 'dump']) {
      assert.equal(agent.mountsAt(`${plugged}/${name}`).length, 1);
      await agent.run(`exec ${process.execPath} ${program} ${pods.machine.pid} ${plugged} ${name}`);
      assert.deepEqual(agent.mountsAt(`${plugged}/${name}`), []);
    }
    assert.deepEqual(names(), ['block']);
  });

  test('a path in the record that is no pod’s is left alone', async () => {
    mkdirSync(pods.seen(`${pods.directory}/other`));
    pods.write(`${pods.directory}/other/file`, 'x');
    const entries = [
      '/other/file',
      '/pods/../other/file',
      `/pods/launcher/volumes/kubernetes.io~empty-dir/hotplug-disks/..`,
    ];
    const mountTargetEntries = entries.map((entry) => ({ targetFile: `${pods.directory}${entry}` }));
    pods.records.files.set(
      'uid-1',
      JSON.stringify({ mountTargetEntries: [...mountTargetEntries, 7, null], usesSafePaths: true }),
    );
    await release();
    assert.ok(existsSync(pods.seen(`${pods.directory}/other/file`)));
    assert.equal(pods.record, undefined);
  });

  test('one that cannot be plugged is told, and keeps no other from the guest', async () => {
    await attachAll();
    symlinkSync('/etc/passwd', `${pods.plugged}/image.img`);
    const { facts, events } = await adjust();
    assert.deepEqual(facts.volumes, ['dump', 'block']);
    assert.equal(events?.length, 1);
    assert.deepEqual([events?.[0]?.type, events?.[0]?.reason], ['Warning', 'HotplugFailed']);
    assert.match(events?.[0]?.message ?? '', /^volume image cannot be plugged: .* was not made for it/);
    await assert.rejects(pods.hook().prepare(pods.context(pluggedVmi(all), 'start')), { code: 'MOUNT_TARGET' });
    await release();
    assert.deepEqual(names(), ['image.img']);
  });

  test('what is said of a volume that cannot be plugged stays said when another one is taken away', async () => {
    await attachAll();
    symlinkSync('/etc/passwd', `${pods.plugged}/image.img`);
    const hooks = [pods.hook() as unknown as HostHook];
    const work = new HostWork({ hooks, files: memoryFiles(), clock: systemClock, log: silentLogger });
    const run = (purpose: 'running' | 'settling', without: readonly string[] = []) => {
      const { state: _, ...context } = pods.context(pluggedVmi([...all, statusOf('late', 'later')], without), purpose);
      return work.run({ ...context, key: 'default/vm' });
    };
    const facts = () => work.facts('uid-1') as Record<string, { volumes: string[]; failed: object; awaited: object }>;
    await run('running');
    const before = facts()['hotplug-volumes'];
    assert.deepEqual([Object.keys(before?.failed ?? {}), Object.keys(before?.awaited ?? {})], [['image'], ['late']]);
    await run('settling', ['dump']);
    assert.deepEqual(facts()['hotplug-volumes'], { ...before, volumes: ['block'] });
    // What is not asked for any more is no failure, and nothing is waited for.
    await run('settling', ['dump', 'image', 'late']);
    assert.deepEqual(facts()['hotplug-volumes'], { volumes: ['block'], failed: {}, awaited: {} });
  });

  test('pipes, sockets and links in any place are refused, and never waited for', async () => {
    const pod = await attachAll();
    const at = (place: string) => `/proc/${pod.pid}/root/${place}`;
    const failureOf = async (name: string) => (await adjust()).facts.failed[name] ?? '';
    execFileSync('mkfifo', [`${pods.plugged}/block`, `${pods.plugged}/dump`]);
    assert.match(await failureOf('block'), /was not made for it/);
    assert.match(await failureOf('dump'), /was not made for it/);
    for (const name of ['block', 'dump']) rmSync(`${pods.plugged}/${name}`);
    rmSync(`${pods.plugged}/image.img`, { force: true });
    await release();
    rmSync(at('image/disk.img'));
    symlinkSync('/path/hp.sock', at('image/disk.img'));
    assert.match(await failureOf('image'), /symbolic link/);
    rmSync(at('image/disk.img'));
    execFileSync('mkfifo', [at('image/disk.img')]);
    assert.match(await failureOf('image'), /no plain file/);
    rmSync(at('path/hp.sock'));
    execFileSync('mkfifo', [at('path/hp.sock')]);
    assert.match(await failureOf('image'), /no socket/);
    rmSync(at('path/hp.sock'));
    symlinkSync('/run/other', at('path/hp.sock'));
    assert.match(await failureOf('image'), /symbolic link/);
  });

  test('a socket behind which another process listens lends no files', async () => {
    await pods.attach('liar', { images: { image: 'secret' }, lies: true });
    const { facts } = await adjust(pluggedVmi([statusOf('image', 'liar')]));
    assert.match(facts.failed.image ?? '', /is not the attachment pod's/);
    assert.deepEqual(names(), []);
  });

  test('a node that is another device than its source is made anew before the guest has it, and left when it has', async () => {
    await attachAll();
    execFileSync('mknod', [`${pods.plugged}/block`, 'b', '240', '9']);
    const attached = { ...block, target: 'sda', phase: 'Ready' };
    assert.match((await adjust(pluggedVmi([attached]))).facts.failed.block ?? '', /another device/);
    assert.equal(rdev(`${pods.plugged}/block`), 240 * 256 + 9);
    assert.deepEqual((await adjust(pluggedVmi([block]))).facts.volumes, ['block']);
    assert.equal(rdev(`${pods.plugged}/block`), 240 * 256 + 7);
  });

  test('an image that is another one than its source is mounted anew before the guest has it, and left when it has', async () => {
    await attachAll();
    await adjust(pluggedVmi([image]));
    await pods.attach('second', { images: { image: 'second' } });
    const moved = statusOf('image', 'second');
    assert.match((await adjust(pluggedVmi([{ ...moved, target: 'sda' }]))).facts.failed.image ?? '', /another image/);
    assert.equal(readFileSync(`${pods.inLauncher}/image.img`, 'utf8'), 'content');
    await adjust(pluggedVmi([moved]));
    assert.equal(readFileSync(`${pods.inLauncher}/image.img`, 'utf8'), 'second');
  });

  test('several devices for one volume, and a block device for files of the VM itself, are refused in words', async () => {
    await attachAll();
    const source = pods.seen(`${pods.directory}/pods/hp/volumes/kubernetes.io~empty-dir/hotplug-disks/block`);
    execFileSync('mknod', [`${source}/other`, 'b', '240', '10']);
    assert.match((await adjust(pluggedVmi([block]))).facts.failed.block ?? '', /has 2 devices/);
    const vmi = pluggedVmi([block]);
    const utility = {
      ...vmi,
      spec: { ...vmi.spec, volumes: [], utilityVolumes: [{ name: 'block', claimName: 'block' }] },
    };
    assert.match((await adjust(utility)).facts.failed.block ?? '', /its claim is a block device/);
  });

  test('a launcher whose pod takes no volumes says so, and one that is gone is none', async () => {
    await attachAll();
    const vmi = pluggedVmi(all);
    const elsewhere = { ...vmi, status: { ...vmi.status, activePods: { other: 'node1' } } };
    assert.match((await adjust(elsewhere)).facts.failed.image ?? '', /no directory for hot-plugged volumes/);
    const gone = { ...pods.context(vmi), launcherPid: 2 ** 22 + 1 };
    await assert.rejects(pods.hook().prepare(gone), { code: 'HOTPLUG_DISABLED' });
  });

  test('where no device can be allowed, no node is made, and the guest gets the rest', async () => {
    await attachAll();
    const withoutCgroups = pods.hook({}, 2 ** 22 + 1);
    const result = await withoutCgroups.adjust?.(pods.context(pluggedVmi(all)));
    assert.deepEqual(result?.kind === 'done' && result.facts.volumes, ['image', 'dump']);
    assert.match(result?.kind === 'done' ? (result.facts.failed.block ?? '') : '', /cannot be read/);
    assert.deepEqual(names(), ['dump', 'image.img']);
  });

  test('a volume without content yet, and a directory of the image where a volume should be, are waited for', async () => {
    const pod = await attachAll();
    rmSync(`/proc/${pod.pid}/root/image/disk.img`);
    mkdirSync(`/proc/${pod.pid}/root/unmounted`);
    const { facts } = await adjust(pluggedVmi([image, statusOf('unmounted', 'hp')]));
    assert.deepEqual(facts.failed, {});
    assert.deepEqual(Object.keys(facts.awaited), ['image', 'unmounted']);
  });

  test('an agent that ends before any step leaves what the next one completes, and takes away', async () => {
    await attachAll();
    const vmi = pluggedVmi(all);
    let steps = 0;
    for (let lives = 0; ; lives++) {
      pods.saved = undefined;
      const agent = new Mortal(lives, pods);
      await agent.live(pods.hook(agent.deps).adjust?.(agent.context(pods.context(vmi))));
      if (!agent.isDead) break;
      steps++;
      assert.deepEqual(
        (await adjust()).facts.volumes,
        ['image', 'dump', 'block'],
        `after ${agent.happened.join(', ')}`,
      );
      const ending = new Mortal(lives, pods);
      const signal = new AbortController().signal;
      await ending.live(pods.hook(ending.deps).release?.({ uid: 'uid-1', stage: 'done', state: pods.saved, signal }));
      await release();
      assert.deepEqual([names(), pods.record], [[], undefined], `after ${ending.happened.join(', ')}`);
    }
    assert.ok(steps >= 6, `only ${steps} steps`);
  });
});

/** An agent's process that is killed before the n-th thing that lasts; nothing of it happens from then on. */
class Mortal {
  readonly happened: string[] = [];
  readonly #lives: number;
  readonly #pods: HotPlugPods;

  constructor(lives: number, pods: HotPlugPods) {
    this.#lives = lives;
    this.#pods = pods;
  }

  get isDead(): boolean {
    return this.happened.length > this.#lives;
  }

  async #step(what: string): Promise<void> {
    this.happened.push(what);
    if (this.isDead) await new Promise(() => undefined);
  }

  get deps() {
    const { mounts, records } = this.#pods;
    const step = (what: string) => this.#step(what);
    return {
      mounts: {
        open: mounts.open.bind(mounts),
        protect: mounts.protect.bind(mounts),
        stop: mounts.stop.bind(mounts),
        bind: async (...given: Parameters<typeof mounts.bind>) => step('bind').then(() => mounts.bind(...given)),
        unmount: async (...given: Parameters<typeof mounts.unmount>) =>
          step('unmount').then(() => mounts.unmount(...given)),
        remove: async (...given: Parameters<typeof mounts.remove>) =>
          step('unlink').then(() => mounts.remove(...given)),
      },
      plugRecords: {
        ...records,
        exchange: async (...given: Parameters<typeof records.exchange>) =>
          step(given[1].after === undefined ? 'remove' : 'write').then(() => records.exchange(...given)),
      },
    };
  }

  context<T extends { state: { save(state: never): Promise<void> } }>(context: T): T {
    const { state } = context;
    const save = async (saved: never) => this.#step('save').then(() => state.save(saved));
    return { ...context, state: { ...state, save } };
  }

  /** Resolves when it is done or dead. */
  async live(work: Promise<unknown> | undefined): Promise<void> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    void work?.then(end, end);
    while (!isOver && !this.isDead) await new Promise((resolve) => setImmediate(resolve));
  }
}
