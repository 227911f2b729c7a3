import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import type { ClusterNode } from './cluster-node.ts';
import { askedByPod, guestKernel, startOf, timed, userData } from './guests.ts';
import type { InstalledCluster } from './installation.ts';
import type { NodeMachine } from './node-machine.ts';

const patienceMs = 150_000;
/** Not by /var/run, a link that leads from another machine's root to this one's. */
const privateDir = '/run/kubevirt-private';
const isGuest = (line: string) => /qemu-system-\w+\0.*guest=/.test(line);
const made = { apiVersion: 'kubevirt.io/v1' };
const isProxy = (line: string) => /haproxy\0/.test(line);

/** Counts from its boot on, once a second, on its console and for whoever asks. */
const scripts = {
  atBoot:
    '(i=0; while :; do i=$((i + 1)); echo $i >/run/count; echo "count $i" >/dev/console; sleep 1; done) </dev/null &\n',
  whenAsked: 'echo count $(cat /run/count)\necho cpus $(cat /sys/devices/system/cpu/present)\n',
};

/** What a guest said of itself. */
interface Said {
  /** When it booted. */
  readonly started: string;
  readonly count: number;
  /** As its kernel lists them. */
  readonly cpus: string;
}

interface LauncherPod {
  readonly metadata: { readonly uid: string };
  readonly spec: { readonly nodeName?: string };
  readonly status: { readonly phase: string };
}

/** A VM with the network of its pod and a kernel from an image, that moves between two nodes when its own is to be emptied. */
export class MovingVm {
  readonly name: string;
  readonly #cluster: InstalledCluster;
  readonly #machine: NodeMachine;

  constructor(cluster: InstalledCluster, name: string) {
    this.name = name;
    this.#cluster = cluster;
    this.#machine = cluster.machine;
  }

  /** What of it is the guest's. */
  protected get instance() {
    const devices = {
      interfaces: [{ name: 'default', masquerade: {} }],
      disks: [{ name: 'seed', disk: { bus: 'virtio' } }],
    };
    return {
      domain: { resources: { requests: { memory: '192Mi' } }, firmware: { kernelBoot: guestKernel }, devices },
      evictionStrategy: 'LiveMigrate',
      networks: [{ name: 'default', pod: {} }],
      volumes: [{ name: 'seed', cloudInitNoCloud: { userData: userData(scripts) } }],
      terminationGracePeriodSeconds: 1,
    };
  }

  /** Resolves when it runs, and can move. */
  async start(t: TestContext): Promise<void> {
    const metadata = { name: this.name };
    this.#machine.create({ ...made, kind: 'VirtualMachineInstance', metadata, spec: this.instance });
    await this.runs(t);
  }

  /** Resolves when it runs, and can move. */
  async runs(t: TestContext): Promise<void> {
    await timed(t, 'runs', () => {
      const { status } = this.vmi;
      assert.equal(status?.phase, 'Running', JSON.stringify(status));
      const condition = status.conditions.find(({ type }: { type: string }) => type === 'LiveMigratable');
      assert.equal(condition?.status, 'True', JSON.stringify(condition));
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
  get vmi(): any {
    return this.#machine.get('vmi', this.name);
  }

  get node(): ClusterNode {
    return this.#machine.node(this.vmi.status.nodeName);
  }

  get otherNode(): ClusterNode {
    const { node } = this;
    const [other] = this.#machine.nodes.filter((each) => each !== node);
    assert.ok(other);
    return other;
  }

  /** Of its launcher that runs. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  get pod(): any {
    const { nodeName } = this.vmi.status;
    const { items } = this.#machine.get('pods', '-l', `vm.kubevirt.io/name=${this.name}`);
    // Beside it may be one that the guest left before.
    const [pod] = items.filter(
      ({ spec, status }: LauncherPod) => spec.nodeName === nodeName && status.phase === 'Running',
    );
    assert.ok(pod, `no pod that runs on ${nodeName}`);
    return pod;
  }

  /** At the address of its pod, from another pod. */
  async asked(): Promise<Said> {
    const answer = await askedByPod(this.#machine, this.pod.status.podIP);
    const said = (what: string) => new RegExp(`^${what} (\\S+)$`, 'm').exec(answer)?.[1] ?? '';
    return { started: startOf(answer), count: Number(said('count')), cpus: said('cpus') };
  }

  /** What its console shows from now on, until it has counted so far: without a gap. */
  async countedOnConsole(atLeast: number): Promise<void> {
    const { name } = this.node;
    const console = await this.#cluster.consoles(name).stream(this.name, 'console');
    await eventually(() => {
      const counts = [...console.text.matchAll(/count (\d+)\r?\n/g)].map(([, count]) => Number(count));
      const first = counts[0] ?? 0;
      assert.ok(first > 0 && (counts.at(-1) ?? 0) >= Math.max(atLeast, first + 2), console.text.slice(-300));
      assert.deepEqual(
        counts,
        counts.map((_, index) => first + index),
      );
    }, 60_000);
    await console.close();
  }

  migrate(name: string): void {
    const object = { ...made, kind: 'VirtualMachineInstanceMigration', metadata: { name } };
    this.#machine.create({ ...object, spec: { vmiName: this.name } });
  }

  // biome-ignore lint/suspicious/noExplicitAny: as above
  migration(name: string): any {
    return this.#machine.get('vmim', name);
  }

  async untilMigration(name: string, phase: string): Promise<void> {
    await eventually(() => {
      const { status } = this.migration(name);
      const ended = /Succeeded|Failed/.test(status?.phase ?? '');
      assert.ok(status?.phase === phase || !ended, `ended otherwise: ${JSON.stringify(status)}`);
      assert.equal(status?.phase, phase, JSON.stringify([status, this.vmi.status.migrationState]));
    }, patienceMs);
  }

  /** So slow that something can happen meanwhile; null: as fast as it can. */
  throttle(bandwidthPerMigration: string | null): void {
    const migrations = { bandwidthPerMigration, completionTimeoutPerGiB: 2_000, progressTimeout: 300 };
    const patch = JSON.stringify({ spec: { configuration: { migrations } } });
    this.#machine.api.kubectl('patch', 'kubevirt', '-n', 'kubevirt', 'kubevirt', '--type=merge', '-p', patch);
  }

  /** Both ends have a process for the streams, which carry memory. */
  async untilItMoves(name: string): Promise<readonly number[]> {
    await this.untilMigration(name, 'Running');
    let proxies: number[] = [];
    await eventually(() => {
      proxies = this.proxies;
      assert.equal(proxies.length, 2);
    }, patienceMs);
    return proxies;
  }

  /** That carry streams, on both nodes. */
  get proxies(): number[] {
    return this.#machine.processesOf(isProxy);
  }

  /** It runs on this node, it never stopped, and of it nothing is left on the other one. */
  async hasMoved(to: ClusterNode, before: Said, t: TestContext): Promise<void> {
    assert.equal(this.vmi.status.nodeName, to.name);
    await this.goesOn(before);
    await timed(t, 'nothing of it on the node that it left', () => this.hasLeft(this.otherNode));
  }

  async goesOn({ started, count }: Said): Promise<void> {
    const now = await this.asked();
    assert.equal(now.started, started);
    assert.ok(now.count > count, `${now.count} after ${count}`);
    await this.countedOnConsole(now.count + 1);
  }

  hasLeft(node: ClusterNode): void {
    const { uid } = this.vmi.metadata;
    // A launcher that has ended stays as an object, with its log, as long as the migration does.
    const { items } = this.#machine.get('pods', '-l', `vm.kubevirt.io/name=${this.name}`);
    const left: LauncherPod[] = items.filter(({ spec }: LauncherPod) => spec.nodeName === node.name);
    assert.deepEqual(
      left.filter(({ status }) => status.phase !== 'Succeeded'),
      [],
    );
    const guests = this.#machine.processesOf(isGuest).filter((pid) => node.place.hasPodProcess(pid));
    assert.deepEqual(guests, []);
    assert.deepEqual(this.proxies, []);
    const kept = node.place.file(privateDir);
    const names = existsSync(kept) ? readdirSync(kept, { recursive: true, encoding: 'utf8' }) : [];
    assert.deepEqual(
      names.filter((name) => name.includes(uid)),
      [],
    );
    const mounts = node.place.run('findmnt', '-rno', 'TARGET').split('\n');
    assert.deepEqual(
      mounts.filter((target) => left.some(({ metadata }) => target.includes(metadata.uid))),
      [],
    );
  }
}
