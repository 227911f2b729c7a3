import path from 'node:path';
import type { Key, VmiEvent } from '../../api/index.ts';
import { type Clock, type Component, type Logger, systemClock } from '../../base/index.ts';
import { DomainCache, type NotifyListeners } from '../../domain-cache/index.ts';
import { isProcessAlive, type RecordFiles, recordDirectory, type SharedRecordFiles } from '../../host/index.ts';
import { EventRecorder } from '../../kube/index.ts';
import { LauncherClients, type LauncherHost } from '../../launcher-client/index.ts';
import type { ReconcileObserver } from '../../reconcile/index.ts';
import type { AgentOptions } from '../options.ts';
import { KubeVmis, kubeBackupTrackers, kubeVmiLookup, kubeVmiWriter, launcherPort } from './adapters/index.ts';
import { type HostHook, HostWork, type HostWorkFacts, OrphanedHostWork } from './host/index.ts';
import { defaultDispatcherOptions, VmiDispatcher } from './loop/index.ts';
import type { AgentPorts } from './ports.ts';

/**
 * The composition of the VMI loop: the parts it is made of, in the order in which they start. The agent's program and the
 * simulator both use it, so what ten thousand simulated worlds show is shown of this very wiring.
 */

/** What the agent lives in: time, chance, and the machine on which launchers run. */
export interface AgentWorld {
  readonly clock: Clock;
  readonly random: () => number;
  /** Sockets, processes and files of this machine unless given. */
  readonly launchers?: LauncherHost;
  readonly notifyListeners?: NotifyListeners;
  readonly recordFiles?: RecordFiles;
  readonly checkpointFiles?: SharedRecordFiles;
}

export const thisWorld: AgentWorld = { clock: systemClock, random: Math.random };

export type VmiOptions = Pick<
  AgentOptions,
  'nodeName' | 'podsDir' | 'shareDir' | 'privateDir' | 'domainResyncPeriodMs' | 'watchdogTimeoutMs'
>;

export interface VmiParts {
  readonly vmis: KubeVmis;
  readonly recorder: EventRecorder;
  readonly clients: LauncherClients;
  readonly domains: DomainCache;
  readonly hostWork: HostWork<HostWorkFacts>;
}

export interface VmiPartsDeps {
  readonly client: ConstructorParameters<typeof KubeVmis>[1]['client'];
  readonly eventClient: ConstructorParameters<typeof EventRecorder>[1]['client'];
  /** Resolves when the VMI loop has nothing to do: events may be written. */
  readonly whenQuiet: () => Promise<void>;
  /** In the order in which they prepare. */
  readonly hooks: readonly HostHook[];
  readonly log: Logger;
}

/** Nothing is started and nothing is asked yet. */
export function makeVmiParts(options: VmiOptions, deps: VmiPartsDeps, world: AgentWorld): VmiParts {
  const { client, eventClient, whenQuiet, hooks, log } = deps;
  const { clock, random } = world;
  const vmis = new KubeVmis(options.nodeName, { client, log, clock, random });
  const recorder = new EventRecorder(
    { component: 'virt-handler', host: options.nodeName },
    { client: eventClient, log, whenQuiet, clock, random },
  );
  const record = (key: Key, uid: string, { type, reason, message }: VmiEvent) => {
    const vmi = vmis.get(key);
    if (vmi?.metadata.uid === uid) recorder.record(vmi, type, reason, message);
  };
  // Not among upstream's directories: its records of mounts are those of its own hooks.
  const files = world.checkpointFiles ?? recordDirectory(path.join(options.privateDir, 'host-work'));
  const hostWork = new HostWork<HostWorkFacts>({ hooks, files, clock, log });
  return { vmis, recorder, hostWork, ...launcherSide(options, log, record, world) };
}

type OnLauncherEvent = NonNullable<ConstructorParameters<typeof DomainCache>[1]['onLauncherEvent']>;

/** The clients know no domain cache: it follows what they publish. */
function launcherSide(options: VmiOptions, logger: Logger, onLauncherEvent: OnLauncherEvent, world: AgentWorld) {
  const { shareDir, privateDir, podsDir, nodeName, domainResyncPeriodMs, watchdogTimeoutMs } = options;
  const { clock, random, launchers: host, notifyListeners: listeners, recordFiles } = world;
  // A socket that is late is this agent's decision (rule launcher-never-ready), not a proof of death.
  const initTimeoutMs = Number.POSITIVE_INFINITY;
  const clients = new LauncherClients({ podsDir, nodeName, initTimeoutMs }, { ...(host && { host }), clock, logger });
  const watchdogMs = (Math.floor(watchdogTimeoutMs / 3000) + 1) * 1000;
  const domains = new DomainCache(
    { shareDir, privateDir, resyncMs: domainResyncPeriodMs, watchdogMs },
    {
      launchers: clients,
      onLauncherEvent,
      onProblem: (key, uid, problem) => {
        if (problem) onLauncherEvent(key, uid, { type: 'Warning', reason: 'SyncFailed', message: problem.message });
      },
      ...(listeners && { listeners }),
      ...(recordFiles && { recordFiles }),
      clock,
      random,
      logger,
    },
  );
  return { clients, domains };
}

/** What the loop needs that is not of its own parts. */
export interface Surroundings
  extends Pick<AgentPorts, 'config' | 'host' | 'migrationProxies' | 'migrationNotes' | 'clock'> {
  readonly client: Parameters<typeof kubeVmiLookup>[0] &
    Parameters<typeof kubeVmiWriter>[0] &
    Parameters<typeof kubeBackupTrackers>[0];
}

/** The real parts fitted to what the VMI loop asks for. */
export function vmiPorts(
  { vmis, recorder, clients, domains, hostWork }: VmiParts,
  surroundings: Surroundings,
): AgentPorts {
  const { client, ...others } = surroundings;
  return {
    vmis,
    lookup: kubeVmiLookup(client),
    writer: kubeVmiWriter(client),
    backupTrackers: kubeBackupTrackers(client),
    events: eventPort(recorder),
    domains,
    ghosts: domains.ghostRecords,
    launchers: launcherPort(clients),
    hostWork,
    ...others,
  };
}

export function eventPort(recorder: EventRecorder): AgentPorts['events'] {
  return {
    record: (vmi, { type, reason, message }) => recorder.record(vmi, type, reason, message),
    flush: () => recorder.flush(),
  };
}

export function makeDispatcher(
  ports: AgentPorts,
  { log, observer }: { readonly log: Logger; readonly observer?: ReconcileObserver },
  { random }: AgentWorld,
): VmiDispatcher {
  return new VmiDispatcher(defaultDispatcherOptions, { ports, log, random, ...(observer && { observer }) });
}

/** To be started when the VMIs are listed and the loop runs. */
export function orphanedHostWork(
  { nodeName }: Pick<VmiOptions, 'nodeName'>,
  { hostWork: work, vmis, domains }: VmiParts,
  { ghosts, lookup }: Pick<AgentPorts, 'ghosts' | 'lookup'>,
  { log, world }: { readonly log: Logger; readonly world: AgentWorld },
): OrphanedHostWork {
  const isAlive = world.launchers?.isProcessAlive ?? isProcessAlive;
  const deps = { work, vmis, domains, ghosts, lookup, isProcessAlive: isAlive, clock: world.clock, log };
  return new OrphanedHostWork({ nodeName }, deps);
}

/**
 * In the order in which they start, `between` before anything waits for the API server; the last one waits for it without
 * limit.
 */
export function vmiComponents(
  { vmis, recorder, clients, domains, hostWork }: VmiParts,
  between: readonly Component[] = [],
) {
  const nothing = async () => undefined;
  const components: Component[] = [
    { name: 'events', start: nothing, stop: () => recorder.stop() },
    { name: 'launchers', start: nothing, stop: async () => clients.stop() },
    { name: 'domains', start: () => domains.start(), stop: () => domains.stop() },
    hostWork,
    ...between,
    {
      name: vmis.name,
      start: async (signal) => {
        await vmis.start();
        await vmis.waitForSync(signal);
      },
      stop: () => vmis.stop(),
    },
  ];
  return components;
}
