import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { labels, type Pod, type VirtualMachineInstance } from '../src/api/index.ts';
import type { LauncherReport } from '../test/fixtures/scripted-launcher-fleet.ts';
import type { MoveReport } from '../test/fixtures/scripted-migration.ts';
import type { MigrationWatch } from './migration-limits.ts';
import type { PlayedCluster, PlayedNode } from './played-cluster.ts';

/** A guest that is to leave a node. */
export interface Move {
  readonly name: string;
  readonly uid: string;
  readonly from: string;
  /** UID of the pod that it leaves. */
  readonly pod: string;
}

interface Expected {
  readonly moves: readonly Move[];
  /** Guests that stay, as they were. */
  readonly rest: readonly VirtualMachineInstance[];
  readonly memoryBytes: number;
}

/** What launchers say of their own part, of those that have sent a guest. */
export async function reportsOf(
  { kubelets, nodes }: PlayedCluster,
  moves: readonly Move[],
): Promise<(MoveReport & { readonly from: string })[]> {
  const living = (await Promise.all(nodes.map(({ fleet }) => fleet.report()))).flat();
  const reports = new Map([...kubelets.ended.values(), ...living].map((report) => [report.podUid, report]));
  return moves.flatMap(({ pod, from }) => {
    const sent = reports.get(pod)?.moves.filter(({ side }) => side === 'source') ?? [];
    return sent.map((move) => ({ ...move, from }));
  });
}

/** What is lost, left, or was told to a launcher that should not have been; none: all is as after so many migrations one by one. */
export async function faultsOf(cluster: PlayedCluster, watch: MigrationWatch, expected: Expected): Promise<string[]> {
  const living = new Map<string, LauncherReport>();
  for (const { fleet } of cluster.nodes) for (const report of await fleet.report()) living.set(report.podUid, report);
  const vmis = new Map(watch.vmis.map((vmi) => [vmi.metadata.name, vmi]));
  const active = cluster.kubelets.pods.filter(
    ({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed',
  );
  return [
    ...cluster.kubelets.problems,
    ...watch.migrations.flatMap(({ metadata, status }) =>
      status?.phase === 'Succeeded' ? [] : [`${metadata.name} is ${status?.phase}: ${JSON.stringify(status)}`],
    ),
    ...expected.moves.flatMap((move) => {
      const vmi = vmis.get(move.name);
      const pods = active.filter(({ metadata }) => metadata.labels?.[labels.createdBy] === move.uid);
      const target = living.get(pods[0]?.metadata.uid ?? '');
      const faults = [
        ...guestFaults(move, vmi, pods),
        ...sourceFaults(cluster.kubelets.ended.get(move.pod), living.get(move.pod), expected.memoryBytes),
        ...targetFaults(target, expected.memoryBytes),
      ];
      return faults.map((fault) => `${move.name}: ${fault}`);
    }),
    ...expected.rest.flatMap((was) => {
      const is = vmis.get(was.metadata.name);
      const stayed = is?.status?.phase === 'Running' && is.status.nodeName === was.status?.nodeName;
      return stayed
        ? []
        : [`${was.metadata.name}, which was to stay, is ${is?.status?.phase} on ${is?.status?.nodeName}`];
    }),
    ...cluster.nodes.flatMap((node) => {
      const here = watch.vmis.filter(({ status }) => status?.nodeName === node.name).length;
      return nodeFaults(node, here).map((fault) => `${node.name}: ${fault}`);
    }),
  ];
}

function guestFaults({ from }: Move, vmi: VirtualMachineInstance | undefined, pods: readonly Pod[]): string[] {
  const { phase, nodeName, migrationState } = vmi?.status ?? {};
  const own = vmi?.metadata.labels ?? {};
  return [
    ...(phase === 'Running' && nodeName !== undefined && nodeName !== from ? [] : [`it is ${phase} on ${nodeName}`]),
    ...(own[labels.nodeName] === nodeName ? [] : [`its label says ${own[labels.nodeName]}`]),
    ...(own[labels.migrationTargetNodeName] === undefined ? [] : ['it still has the label of a target']),
    ...(migrationState?.completed && !migrationState.failed ? [] : [`its state: ${JSON.stringify(migrationState)}`]),
    ...(pods.length === 1 && pods[0]?.spec.nodeName === nodeName
      ? []
      : [`its pods: ${JSON.stringify(pods.map(({ metadata, spec }) => [metadata.name, spec.nodeName]))}`]),
  ];
}

const timesOf = (report: LauncherReport) => (rpc: keyof LauncherReport['calls']) => report.calls[rpc]?.count ?? 0;

function harmOf({ harm, kills }: LauncherReport): string[] {
  return [...harm, ...(kills === 0 ? [] : [`${kills} kills`])];
}

/** As upstream's agent: one order, then the domain's definition goes, and the launcher with it. */
function sourceFaults(
  report: LauncherReport | undefined,
  living: LauncherReport | undefined,
  memoryBytes: number,
): string[] {
  if (!report) return [`its launcher on the source has not ended: ${JSON.stringify(living)}`];
  const times = timesOf(report);
  const sent = report.moves.filter(({ side }) => side === 'source');
  return [
    ...harmOf(report),
    ...(times('migrateVirtualMachine') === 1 ? [] : [`${times('migrateVirtualMachine')} orders to migrate`]),
    ...(times('shutdownVirtualMachine') === 0 ? [] : ['its source was shut down']),
    ...(report.domain === 'none' ? [] : [`its source is left as ${report.domain}`]),
    ...(sent.length === 1 && sent[0]?.bytes === memoryBytes ? [] : [`it was sent as ${JSON.stringify(sent)}`]),
  ];
}

function targetFaults(report: LauncherReport | undefined, memoryBytes: number): string[] {
  if (!report) return ['it has no launcher'];
  const times = timesOf(report);
  const came = report.moves.filter(({ side }) => side === 'target');
  return [
    ...harmOf(report),
    ...(report.starts === 0 ? [] : ['it was started anew']),
    ...(['syncMigrationTarget', 'finalizeVirtualMachineMigration'] as const).flatMap((rpc) =>
      times(rpc) === 1 ? [] : [`${times(rpc)} calls of ${rpc}`],
    ),
    ...(times('signalTargetPodCleanup') === 0 ? [] : ['its target was told to go']),
    ...(report.domain === 'Running/Unknown' ? [] : [`its domain is ${report.domain}`]),
    ...(came.length === 1 && came[0]?.bytes === memoryBytes ? [] : [`it came as ${JSON.stringify(came)}`]),
  ];
}

/** A record and a launcher for each guest that is there, and nothing of streams. */
function nodeFaults({ agent }: PlayedNode, guests: number): string[] {
  const ghosts = namesIn(path.join(agent.privateDir, 'ghost-records')).length;
  const proxies = namesIn(path.join(agent.privateDir, 'migration-proxies')).filter((name) => name.endsWith('.json'));
  const running = descendantsOf(agent.pid).filter((pid) => commandOf(pid) === 'haproxy');
  return [
    ...(ghosts === guests ? [] : [`${ghosts} ghost records of ${guests} guests`]),
    ...(proxies.length === 0 ? [] : [`records of proxies are left: ${proxies.join(', ')}`]),
    ...(running.length === 0 ? [] : [`${running.length} proxies run`]),
  ];
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

/** Of a process that runs; sessions do not matter. */
function descendantsOf(pid: number): number[] {
  const children = namesIn(`/proc/${pid}/task`).flatMap((task) =>
    readIfThere(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean).map(Number),
  );
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

const commandOf = (pid: number) => readIfThere(`/proc/${pid}/comm`).trim();

/** A process may end at any moment. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
