import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { HostHook, HostOutcome } from '../../../../src/agent/vmi/host/index.ts';
import { HostWork, hostDiskImages } from '../../../../src/agent/vmi/host/index.ts';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { Storage } from '../../../../src/host/index.ts';
import { vmiOf } from '../../../fixtures/agent/builders.ts';
import { memoryFiles } from '../../../fixtures/agent/host-hooks.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { HotPlugPods, pluggedVmi, statusOf } from '../../../fixtures/hot-plug-pods.ts';
import { ServedFileSystem, whyNotServed } from '../../../fixtures/served-file-system.ts';

/** A claim whose server is gone, and comes back: a real file system, by FUSE, whose server is stopped. */

const skip = whyNotServed() ?? false;

suite('storage that does not answer', { skip, timeout: 120_000 }, () => {
  let pods: HotPlugPods;
  let storage: Storage;
  let served: ServedFileSystem;
  let work: HostWork;

  const [good, dead] = [statusOf('good', 'hp'), statusOf('dead', 'hp')];
  const both = pluggedVmi([dead, good]);

  beforeEach(async () => {
    pods = await HotPlugPods.start();
    storage = new Storage({ deadlineMs: 500 });
    const pod = await pods.attach('hp', { images: { good: 'good' } });
    served = await pods.serve(pod, 'hp', 'dead', 'served');
    const hooks = [pods.hook({ storage }) as unknown as HostHook];
    work = new HostWork({ hooks, files: memoryFiles(), clock: systemClock, log: silentLogger });
  });
  afterEach(async () => {
    served.answerAgain();
    await storage.stop();
    await pods.stop();
  });

  const run = (uid: string, vmi = both, purpose: 'start' | 'running' = 'running') => {
    const { state: _, ...context } = pods.context(vmi, purpose);
    return work.run({ ...context, key: 'default/vm', uid });
  };
  const failed = ({ events }: HostOutcome) => events.map(({ message }) => message);
  /** The longest time in which no timer ran meanwhile. */
  const longestPause = async (during: () => Promise<unknown>) => {
    let [last, longest] = [performance.now(), 0];
    const look = () => {
      const now = performance.now();
      [longest, last] = [Math.max(longest, now - last), now];
    };
    const timer = setInterval(look, 10);
    await during();
    look();
    clearInterval(timer);
    return longest;
  };

  test('costs its own VM alone, and is said; when it answers again all goes on', async () => {
    served.silence();
    const holding = async () => {
      const outcome = await run('uid-1');
      assert.deepEqual(work.facts('uid-1'), {
        'hotplug-volumes': {
          volumes: ['good'],
          awaited: {},
          failed: { dead: failed(outcome)[0] },
        },
      });
      assert.match(
        failed(outcome)[0] ?? '',
        /^volume dead cannot be plugged: the storage of volume dead of VMI uid-1 does not answer: check the server/,
      );
    };
    assert.ok((await longestPause(holding)) < 10_000, 'the thread of all VMs went on');
    // Tried again and again it holds no more threads, and is no other event.
    for (const _try of [1, 2, 3]) assert.deepEqual(failed(await run('uid-1')), []);
    assert.deepEqual(storage.held, ['volume dead of VMI uid-1']);
    const other = await run('uid-2', pluggedVmi([good]), 'start');
    assert.deepEqual([other.kind, other.parts.map(({ outcome }) => outcome)], ['done', ['done']]);
    assert.equal((await work.release('uid-2', new AbortController().signal)).kind, 'done');
    served.answerAgain();
    await eventually(() => assert.deepEqual(storage.held, []));
    await run('uid-1');
    assert.deepEqual(work.facts('uid-1'), {
      'hotplug-volumes': { volumes: ['dead', 'good'], awaited: {}, failed: {} },
    });
    assert.equal(readFileSync(`${pods.inLauncher}/dead.img`, 'utf8'), 'served');
    assert.equal(statSync(`${pods.inLauncher}/dead.img`).uid, 107);
  });

  test('holds no start of another guest when an image is to be made on it, which is made when it answers', async () => {
    const disks = '/run/kubevirt-private/vmi-disks';
    await pods.launcher.run(`mkdir -p ${disks}/claim ${disks}/local`);
    const claim = await ServedFileSystem.mount(pods.launcher, `${disks}/claim`, 'served');
    const hooks = [hostDiskImages({}, { storage }) as unknown as HostHook];
    const images = new HostWork({ hooks, files: memoryFiles(), clock: systemClock, log: silentLogger });
    const start = (uid: string, name: string) => {
      const hostDisk = { type: 'DiskOrCreate', path: `/var${disks}/${name}/disk.img`, capacity: '1Mi' };
      const vmi = vmiOf('Scheduled', { spec: { domain: {}, volumes: [{ name, hostDisk }] } } as never);
      const { state: _, ...context } = pods.context(vmi, 'start');
      return images.run({ ...context, key: 'default/vm', uid });
    };
    claim.silence();
    const holding = async () => {
      const [dead, local] = await Promise.all([start('uid-1', 'claim'), start('uid-2', 'local')]);
      assert.equal(local.kind, 'done');
      assert.match(
        String(dead.kind === 'failed' && dead.error),
        /the storage of volume claim of VMI uid-1 does not answer/,
      );
    };
    assert.ok((await longestPause(holding)) < 10_000, 'the thread of all VMs went on');
    claim.answerAgain();
    await eventually(() => assert.deepEqual(storage.held, []));
    assert.equal((await start('uid-1', 'claim')).kind, 'done');
    assert.deepEqual(images.facts('uid-1'), {
      'host-disk-images': { images: [{ volume: 'claim', sizeBytes: 6, wantedBytes: 2 ** 20 }] },
    });
    await claim.stop();
  });

  test('refuses a start in words, and holds none when it is plugged already and taken away', async () => {
    await run('uid-1');
    assert.equal(readFileSync(`${pods.inLauncher}/dead.img`, 'utf8'), 'served');
    served.silence();
    const again = await run('uid-1');
    assert.match(failed(again)[0] ?? '', /the storage of volume dead of VMI uid-1 does not answer/);
    const start = await run('uid-3', pluggedVmi([dead]), 'start');
    assert.equal(start.kind, 'failed');
    assert.equal(start.kind === 'failed' && (start.error as { code?: string }).code, 'STORAGE_SILENT');
    const { state: _, ...context } = pods.context(pluggedVmi([dead, good], ['dead']), 'settling');
    const settled = await work.run({ ...context, key: 'default/vm', uid: 'uid-1' });
    assert.equal(settled.kind, 'done');
    assert.deepEqual(pods.records.files.get('uid-1'), pods.recordOf('good.img'));
    served.answerAgain();
    await eventually(() => assert.deepEqual(storage.held, []));
  });
});
