import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleProgram } from '../scripts/bundle.mjs';
import {
  isFinalMigration,
  isWaitingMigration,
  labels,
  type MigrationState,
  type Pod,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../src/api/index.ts';
import { Cluster, embeddedApi, token } from '../test/fixtures/controller/cluster.ts';
import type { Figure } from './figures.ts';
import { cpuSeconds, residentMegabytes } from './migration-bench.ts';

export interface MigrationsAtOnceOptions {
  readonly vms: number;
  readonly migrations: number;
  readonly say: (text: string) => void;
}

type Vmi = VirtualMachineInstance;
type Migration = VirtualMachineInstanceMigration;

const { virtualMachineInstances: vmis, migrations: jobs, pods } = resources;
/** Pairs of nodes: guests of a pair begin on its first one and move to the other. */
const pairs = 3;
const turnMs = 50;
const longestMs = 600_000;
const now = () => new Date().toISOString();
const isEnded = ({ status }: Pod) => status?.phase === 'Succeeded' || status?.phase === 'Failed';

/**
 * Many migrations at once among many guests that rest: virt-controller as a program, beside the embedded API and scripted kubelets, agents and
 * launchers in this process. Throws when a limit is not kept or a migration is lost.
 */
export async function migrationsAtOnceBench({ vms, migrations, say }: MigrationsAtOnceOptions): Promise<Figure[]> {
  const dir = mkdtempSync(path.join(tmpdir(), 'at-once-'));
  const cluster = new Cluster(await embeddedApi());
  const controller = await startController(dir, cluster);
  try {
    const play = new ScriptedNodes(cluster);
    for (let number = 1; number <= 2 * pairs; number++) await cluster.addNode(`node${number}`, labelsOf(number));
    for (let number = 0; number < vms; number++) await cluster.client.create(vmis, guest(number));
    await play.until(({ guests }) => guests.filter(({ status }) => status?.phase === 'Running').length === vms);
    say(`${vms} guests run; ${migrations} migrations are asked for`);
    const before = { cpu: cpuSeconds(controller.pid ?? 0), writes: await play.writes(), startMs: performance.now() };
    await Promise.all(
      Array.from({ length: migrations }, (_, number) => cluster.client.create(jobs, migrationOf(number))),
    );
    await play.until(({ migrations: all }) => all.length === migrations && all.every(isFinalMigration));
    const seconds = (performance.now() - before.startMs) / 1_000;
    const lost = play.seen.migrations.filter(({ status }) => status?.phase !== 'Succeeded');
    if (lost.length > 0) throw new Error(`${lost.length} migrations are lost: ${JSON.stringify(lost[0]?.status)}`);
    const one = (name: string, unit: Figure['unit'], value: number): Figure => ({ name, unit, samples: [value] });
    return [
      one(`${migrations} migrations among ${vms} guests`, 'ms', seconds * 1_000),
      one('most at once in the cluster (limit 5)', '1', play.most.cluster),
      one('most at once from one node (limit 2)', '1', play.most.node),
      one(
        'CPU of virt-controller per migration',
        'ms',
        ((cpuSeconds(controller.pid ?? 0) - before.cpu) * 1e3) / migrations,
      ),
      one('memory of virt-controller', 'MB', residentMegabytes(controller.pid ?? 0)),
      one('writes of virt-controller per migration', '1', ((await play.writes()) - before.writes) / migrations),
    ];
  } finally {
    const exit = once(controller, 'exit');
    controller.kill('SIGTERM');
    await exit;
    await cluster.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function startController(dir: string, { server }: Cluster): Promise<ChildProcess> {
  const program = path.join(dir, 'virt-controller.mjs');
  await bundleProgram('virt-controller', program);
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: { token } }],
  };
  writeFileSync(path.join(dir, 'kubeconfig'), JSON.stringify(config));
  const args = [
    program,
    '--kubeconfig',
    path.join(dir, 'kubeconfig'),
    '--standalone-scheduler',
    '--leader-elect=false',
  ];
  return spawn(process.execPath, args, { stdio: 'ignore' });
}

function labelsOf(number: number): Record<string, string> {
  const cpu = ['host-model-cpu', 'cpu-model-migration'].map((kind) => [`${kind}.node.kubevirt.io/Penryn`, 'true']);
  const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': `node${number}` };
  return { ...own, pair: String(Math.ceil(number / 2)), ...Object.fromEntries(cpu) };
}

function guest(number: number): Vmi {
  const nodeSelector = { pair: String((number % pairs) + 1) };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: vmis.kind,
    metadata: { name: `vm${number}`, namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } }, nodeSelector },
  };
}

function migrationOf(number: number): Migration {
  const metadata = { name: `job${number}`, namespace: 'default' };
  return { apiVersion: 'kubevirt.io/v1', kind: jobs.kind, metadata, spec: { vmiName: `vm${number}` } };
}

interface Seen {
  readonly guests: readonly Vmi[];
  readonly migrations: readonly Migration[];
}

/** Kubelets and agents of all nodes: each turn they do the next thing for every pod and every guest that is to move. */
class ScriptedNodes {
  seen: Seen = { guests: [], migrations: [] };
  readonly most = { cluster: 0, node: 0 };
  readonly #cluster: Cluster;
  #ownWrites = 0;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Of all others than these nodes and the migrations' creation: versions of the API server are counted. */
  async writes(): Promise<number> {
    const { resourceVersion } = await this.#cluster.client.list(resources.kubevirts);
    return Number(resourceVersion) - this.#ownWrites;
  }

  async until(holds: (seen: Seen) => boolean): Promise<void> {
    const endMs = performance.now() + longestMs;
    while (!holds(this.seen)) {
      if (performance.now() > endMs) throw new Error('the guests did not come as far in ten minutes');
      await this.#turn();
      await new Promise((resolve) => setTimeout(resolve, turnMs));
    }
  }

  async #turn(): Promise<void> {
    const { client } = this.#cluster;
    const [guests, migrations, launchers] = [
      (await client.list<Vmi>(vmis)).items,
      (await client.list<Migration>(jobs)).items,
      (await client.list<Pod>(pods)).items,
    ];
    this.seen = { guests, migrations };
    this.#judge();
    for (const pod of launchers)
      if (pod.spec.nodeName && (pod.status?.phase ?? 'Pending') === 'Pending') await this.#run(pod);
    for (const vmi of guests) await this.#advance(vmi, launchers);
  }

  #judge(): void {
    const { guests, migrations } = this.seen;
    const moving = migrations.filter((each) => !isFinalMigration(each) && !isWaitingMigration(each));
    const sourceOf = ({ spec }: Migration) => {
      const { status } = guests.find(({ metadata }) => metadata.name === spec.vmiName) ?? {};
      return status?.migrationState?.completed ? undefined : status?.nodeName;
    };
    const sources = moving.flatMap((each) => sourceOf(each) ?? []);
    const onNode = sources.map((node) => sources.filter((each) => each === node).length);
    this.most.cluster = Math.max(this.most.cluster, moving.length);
    this.most.node = Math.max(this.most.node, ...onNode);
    if (this.most.cluster > 5 || this.most.node > 2)
      throw new Error(`limits are not kept: ${JSON.stringify(this.most)}`);
  }

  async #run(pod: Pod): Promise<void> {
    await this.#cluster.runPod(pod);
    this.#ownWrites++;
  }

  async #advance(vmi: Vmi, launchers: readonly Pod[]): Promise<void> {
    const { status = {} } = vmi;
    const state = status.migrationState;
    if (status.phase === 'Scheduled') {
      const conditions = [{ type: 'LiveMigratable', status: 'True', lastTransitionTime: now() }];
      await this.#report(vmi, { phase: 'Running', conditions, selinuxContext: 'none' });
    } else if (state && !state.completed) await this.#move(vmi, state, launchers);
  }

  async #move(vmi: Vmi, state: MigrationState, launchers: readonly Pod[]): Promise<void> {
    if (!state.targetNodeAddress) await this.#report(vmi, { migrationState: { targetNodeAddress: '10.0.0.2' } });
    else if (!state.startTimestamp)
      await this.#report(vmi, { migrationState: { startTimestamp: now(), mode: 'PreCopy' } });
    else {
      const own = { [labels.nodeName]: state.targetNode, [labels.migrationTargetNodeName]: null };
      const arrived = { endTimestamp: now(), completed: true };
      await this.#report(vmi, { nodeName: state.targetNode, migrationState: arrived }, { labels: own });
      const source = launchers.find((pod) => pod.metadata.name === state.sourcePod && !isEnded(pod));
      if (!source) return;
      await this.#cluster.setPodStatus(source, { phase: 'Succeeded' });
      this.#ownWrites++;
    }
  }

  async #report({ metadata: { name } }: Vmi, status: object, metadata: object = {}): Promise<void> {
    await this.#cluster.client.patch(vmis, { namespace: 'default', name }, { metadata, status }, 'merge');
    this.#ownWrites++;
  }
}
