import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { type Pod, type PodStatus, resources } from '../../../src/api/index.ts';
import { silentLogger, sleep } from '../../../src/base/index.ts';
import {
  ClaimDirectories,
  HostDisks,
  ImageStore,
  LoopDevices,
  PodRunner,
  Sandboxes,
  VolumeFiles,
} from '../../../src/standalone/index.ts';
import { stays } from '../../fixtures/eventually.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'sandboxes mount: this test needs root';
/** Says when it answers a request to end: before, that ends it as any other program. */
const waits = 'trap "exit 0" TERM; echo up; while :; do sleep 0.02; done';
const hostIp = '127.0.0.1';

/** An API server with the pods of one node, and a cache of it that shows what was written only when it is told to. */
class FakePods {
  isSynced = true;
  lagging = false;
  readonly cached = new Map<string, Pod>();
  /** What was asked of the API server, in order. */
  readonly calls: string[] = [];
  readonly failing = new Map<'patchStatus' | 'delete', number>();
  #listener: (uid: string) => void = () => undefined;

  get(uid: string): Pod | undefined {
    return this.cached.get(uid);
  }

  list(): readonly Pod[] {
    return [...this.cached.values()];
  }

  subscribe(onChange: (uid: string) => void): () => void {
    this.#listener = onChange;
    return () => {
      this.#listener = () => undefined;
    };
  }

  show(uid: string, pod: Pod | undefined): void {
    if (pod) this.cached.set(uid, pod);
    else this.cached.delete(uid);
    this.#listener(uid);
  }

  async patchStatus(pod: Pod, status: PodStatus): Promise<void> {
    this.#mayFail('patchStatus');
    this.calls.push(`status ${status.phase} ${describeState(status)}`);
    const current = this.cached.get(uidOf(pod));
    if (current && !this.lagging) this.show(uidOf(pod), { ...current, status: { ...current.status, ...status } });
  }

  async delete(pod: Pod): Promise<void> {
    this.#mayFail('delete');
    this.calls.push('delete');
    this.show(uidOf(pod), undefined);
  }

  async readObject(): Promise<undefined> {
    return undefined;
  }

  async claim(): Promise<undefined> {
    return undefined;
  }

  async volume(): Promise<undefined> {
    return undefined;
  }

  async hostDisksOf(): Promise<ReadonlyMap<string, never>> {
    return new Map<string, never>();
  }

  recordEvent(_pod: Pod, type: string, reason: string, message: string): void {
    this.calls.push(`event ${type} ${reason}: ${message}`);
  }

  #mayFail(what: 'patchStatus' | 'delete'): void {
    const left = this.failing.get(what) ?? 0;
    if (left === 0) return;
    this.failing.set(what, left - 1);
    this.calls.push(`${what} fails`);
    throw new Error('the API server is away');
  }
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? '';
}

function describeState({ containerStatuses }: PodStatus): string {
  const { waiting, running, terminated } = containerStatuses?.[0]?.state ?? {};
  return waiting?.reason ?? (running ? 'running' : `${terminated?.reason} ${terminated?.exitCode}`);
}

function podOf(uid: string, script: string, command = '/bin/sh'): Pod {
  return {
    apiVersion: 'v1',
    kind: resources.pods.kind,
    metadata: { name: `pod-${uid}`, namespace: 'default', uid },
    spec: {
      containers: [{ name: 'compute', image: 'launcher', command: [command, '-c', script] }],
      terminationGracePeriodSeconds: 20,
    },
  };
}

function deleted(pod: Pod, graceSeconds = 20): Pod {
  const deletionTimestamp = new Date().toISOString();
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp, deletionGracePeriodSeconds: graceSeconds } };
}

describe('pod runner', { skip: needsRoot }, () => {
  let dir: string;
  let pods: FakePods;
  let runner: PodRunner | undefined;
  let sandboxes: Sandboxes;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-runner-'));
    const libvirtCacheDir = path.join(dir, 'cache');
    sandboxes = new Sandboxes({
      podsDir: path.join(dir, 'pods'),
      libvirtCacheDir,
      cgroupRoot: undefined,
      programs: [],
    });
  });

  afterEach(async () => {
    await runner?.stop();
    runner = undefined;
    for (const uid of await sandboxes.list()) {
      await sandboxes.kill(uid);
      await untilState(uid, 'exited', 'lost', 'none');
      await sandboxes.remove(uid);
    }
  });

  after(() => rm(dir, { recursive: true, force: true }));

  async function start(source = new FakePods()): Promise<PodRunner> {
    pods = source;
    const options = {
      hostIp,
      podLogsDir: path.join(dir, 'logs'),
      programs: { '/bin/sh': ['/bin/sh'] },
      env: {},
      kvm: 'fails' as const,
    };
    const images = new ImageStore({ dir: path.join(dir, 'images') });
    const ownersDir = path.join(dir, 'owners');
    const hostDisks = new HostDisks({ dirs: [path.join(dir, 'disks')], ownersDir, nodeDirs: [] });
    const owner = { uid: 107, gid: 107 };
    const volumesDir = path.join(dir, 'claims');
    const files = new VolumeFiles({ volumesDir, snapshotsDir: path.join(dir, 'snapshots'), owner });
    const networks = { join: async () => undefined, addressesOf: () => [], release: async () => undefined };
    runner = new PodRunner(
      { ...options, retryMs: 20 },
      {
        pods,
        sandboxes,
        images,
        hostDisks,
        claims: new ClaimDirectories({ files, loops: new LoopDevices(), onChange: () => () => undefined }, pods),
        networks,
        log: silentLogger,
      },
    );
    await runner.start();
    return runner;
  }

  async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
    for (const signal = AbortSignal.timeout(20_000); !(await isSo()); ) {
      await sleep(10, signal).catch(() => assert.fail(`not so: ${what}; ${pods.calls.join(', ')}`));
    }
  }

  async function untilState(uid: string, ...kinds: string[]): Promise<void> {
    await until(`sandbox ${kinds}`, async () => kinds.includes((await sandboxes.inspect(uid)).kind));
  }

  async function untilUp(uid: string): Promise<void> {
    await untilCalled('status Running running');
    const file = path.join(dir, 'logs', uid, 'compute.log');
    await until('the program is up', async () => /^up$/m.test(await readFile(file, 'utf8')));
  }

  const untilCalled = (call: string) => until(call, () => pods.calls.includes(call));
  const times = (call: string) => pods.calls.filter((each) => each === call).length;

  test('a pod is started and reported; deleted, it ends, and its end is reported before it is taken out of the API', async () => {
    await start();
    pods.show('a1', podOf('a1', waits));
    await untilUp('a1');
    pods.show('a1', deleted(pods.cached.get('a1') ?? podOf('a1', waits)));
    await untilCalled('delete');
    await until('files gone', () => !existsSync(sandboxes.podDir('a1')) && !existsSync(path.join(dir, 'logs', 'a1')));
    const calls = pods.calls.filter((call) => call !== 'status Pending ContainerCreating');
    assert.deepEqual(calls, [
      'event Normal Started: Started container compute',
      'status Running running',
      'status Succeeded Completed 0',
      'delete',
    ]);
  });

  test('a pod that cannot be started is tried again and again, with one event and one status', async () => {
    await start();
    pods.show('b1', podOf('b1', waits, '/bin/other'));
    await untilCalled('status Pending CreateContainerConfigError');
    const failed = () =>
      pods.calls.filter((call) => call.startsWith('event Warning Failed: CreateContainerConfigError'));
    await stays(() => {
      assert.equal(failed().length, 1);
      assert.equal(times('status Pending CreateContainerConfigError'), 1);
    }, 200);
    pods.show('b1', podOf('b1', waits));
    await untilCalled('status Running running');
  });

  test('a pod is ready when its probe says so, and ends when it is not well, as a kubelet would have it', async () => {
    await start();
    const script = [
      'trap "exit 0" TERM',
      'until [ -e /tmp/well ]; do sleep 0.1; done; sleep 1; touch /tmp/ready',
      'sleep 2; rm /tmp/well; while :; do sleep 0.1; done',
    ].join('; ');
    const pod = podOf('probed', `touch /tmp/well; ${script}`);
    const often = { initialDelaySeconds: 1, periodSeconds: 1, failureThreshold: 3 };
    const asking = (line: string) => ({ ...often, exec: { command: ['/bin/sh', '-c', line] } });
    Object.assign(pod.spec.containers[0] ?? {}, {
      readinessProbe: asking('test -e /tmp/ready'),
      livenessProbe: asking('test -e /tmp/well || { echo feels sick; exit 3; }'),
    });
    pods.show('probed', pod);
    await untilCalled('status Running running');
    assert.equal(pods.cached.get('probed')?.status?.containerStatuses?.[0]?.ready, false);
    await until('ready', () => pods.cached.get('probed')?.status?.containerStatuses?.[0]?.ready === true);
    await untilCalled('event Normal Killing: Container compute failed liveness probe');
    await untilCalled('status Succeeded Completed 0');
    assert.ok(times('event Warning Unhealthy: Liveness probe failed: feels sick') >= 3, pods.calls.join('\n'));
    assert.ok(times('event Warning Unhealthy: Readiness probe failed: the command ended with 1') >= 1);
  });

  test('a probe of a port of a pod without an address is refused before anything is started', async () => {
    await start();
    const pod = podOf('unreachable', waits);
    Object.assign(pod.spec.containers[0] ?? {}, { readinessProbe: { tcpSocket: { port: 22 } } });
    pods.show('unreachable', pod);
    await untilCalled('status Pending CreateContainerConfigError');
    const told = pods.calls.find((call) => call.startsWith('event Warning Failed'));
    assert.match(told ?? '', /readinessProbe\.tcpSocket: VMs have user networking here.*dnsmasq-base/);
    assert.equal((await sandboxes.inspect('unreachable')).kind, 'none');
  });

  test('an image that is put into its directory is seen at once', async () => {
    await start();
    const pod = podOf('b2', waits);
    const image = { name: 'disk', image: { reference: 'example.com/disk:1' } };
    const [container] = pod.spec.containers;
    assert.ok(container);
    const volumeMounts = [{ name: 'disk', mountPath: '/var/run/disk' }];
    pods.show('b2', { ...pod, spec: { ...pod.spec, volumes: [image], containers: [{ ...container, volumeMounts }] } });
    await untilCalled('status Pending ErrImagePull');
    const added = new ImageStore({ dir: path.join(dir, 'images') }).directoryOf('example.com/disk:1');
    await mkdir(added);
    await untilCalled('status Running running');
  });

  test('unknown is not absent: before the first complete list nothing is an orphan', async () => {
    await start();
    pods.show('c1', podOf('c1', waits));
    await untilCalled('status Running running');
    await runner?.stop();
    const unsynced = new FakePods();
    unsynced.isSynced = false;
    await start(unsynced);
    await stays(async () => {
      assert.equal((await sandboxes.inspect('c1')).kind, 'running');
      assert.deepEqual(unsynced.calls, []);
    }, 1_500);
    pods.isSynced = true;
    await until('the orphan is gone', () => !existsSync(sandboxes.podDir('c1')));
    assert.deepEqual(pods.calls, []);
  });

  test('a restart touches no pod and goes on from disk', async () => {
    await start();
    pods.show('d1', podOf('d1', 'trap "" TERM; echo up; while :; do sleep 0.02; done'));
    await untilUp('d1');
    pods.show('d1', deleted(pods.cached.get('d1') ?? podOf('d1', waits), 2));
    await until('it is asked to end', async () => (await sandboxes.terminatingSinceMs('d1')) !== undefined);
    const since = await sandboxes.terminatingSinceMs('d1');
    await runner?.stop();
    assert.equal((await sandboxes.inspect('d1')).kind, 'running');
    const later = new FakePods();
    later.cached.set('d1', pods.cached.get('d1') ?? podOf('d1', waits));
    await start(later);
    await until('it is up or ended', async () => pods.calls.length > 0);
    assert.equal((await sandboxes.terminatingSinceMs('d1')) ?? since, since, 'the grace period does not begin anew');
    await untilCalled('delete');
    assert.deepEqual(pods.calls, ['status Failed Error 137', 'delete']);
  });

  test('an end that was reported is not reported again when the pod cannot be taken out of the API', async () => {
    await start();
    pods.show('e1', podOf('e1', waits));
    await untilUp('e1');
    pods.failing.set('delete', 2);
    pods.lagging = true;
    pods.show('e1', deleted(pods.cached.get('e1') ?? podOf('e1', waits)));
    await untilCalled('delete');
    assert.deepEqual(pods.calls.slice(-4), ['status Succeeded Completed 0', 'delete fails', 'delete fails', 'delete']);
  });

  test('a status that cannot be written is written later', async () => {
    const source = new FakePods();
    source.failing.set('patchStatus', 3);
    await start(source);
    pods.show('f1', podOf('f1', waits));
    await untilCalled('status Running running');
    assert.equal(times('patchStatus fails'), 3);
    assert.equal(times('event Normal Started: Started container compute'), 1);
  });

  test('a pod that ended by itself is reported, and stays until it is deleted', async () => {
    await start();
    pods.show('g1', podOf('g1', 'echo last words; exit 3'));
    await untilCalled('status Failed Error 3');
    await stays(() => assert.equal(times('delete'), 0), 100);
    assert.ok(existsSync(sandboxes.podDir('g1')));
    pods.show('g1', undefined);
    await until('files gone', () => !existsSync(sandboxes.podDir('g1')));
  });

  test('a drain ends all pods and waits until their end is reported; the objects stay', async () => {
    const draining = await start();
    pods.show('h1', podOf('h1', waits));
    await untilUp('h1');
    await draining.drain(AbortSignal.timeout(20_000));
    assert.equal(pods.cached.get('h1')?.status?.phase, 'Succeeded');
    assert.equal(pods.cached.get('h1')?.status?.message, 'The node was stopped.');
    assert.equal(times('delete'), 0);
    pods.show('h2', podOf('h2', waits));
    await untilCalled('status Pending ContainerCreating');
    assert.equal((await sandboxes.inspect('h2')).kind, 'none');
  });
});
