import {
  controllerOf,
  type ExplainFacts,
  type Key,
  type KubeObject,
  keyOf,
  type Pod,
  parseKey,
  resources,
  type Service,
  type VirtualMachineExport,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import type { MachineDefaults } from '../../instancetype/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  factsParts,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import type { Authority } from '../authority.ts';
import { Lookup } from '../instancetypes/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { storeStatus } from '../snapshot-source/index.ts';
import { type AccessOptions, ExportAccess } from './access.ts';
import { decideExport, type ExportDecision } from './decide.ts';
import { executors } from './execute.ts';
import { namesOf } from './names.ts';
import type { CertificateTimes, ExportObservation } from './observation.ts';
import { type ObserveDeps, observeExport } from './observe.ts';
import type { ExporterSettings } from './pod.ts';
import { exportStatusOf, type Said } from './status.ts';

export interface ExportControllerOptions extends AccessOptions {
  /** Exports worked on side by side. */
  readonly workers: number;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

/** What the configuration says of exporter pods now. */
export interface ExportSettings {
  readonly exporter: ExporterSettings;
  readonly certificates: CertificateTimes;
  readonly machineDefaults: MachineDefaults;
}

export interface ExportControllerDeps extends Omit<ObserveDeps, 'client' | 'access' | 'certificates'> {
  readonly client: KubeClient;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly services: ReadYourWrites<Service>;
  readonly vms: ObserveDeps['vms'] & Followed;
  readonly vmis: ObserveDeps['vmis'] & Followed;
  readonly snapshots: ObserveDeps['snapshots'] & Followed;
  readonly contents: ObserveDeps['contents'] & Followed;
  readonly settings: () => ExportSettings;
  /** Signs certificates of exporter pods. */
  readonly authority: Authority;
  /** Signs those of launchers which bring a backup to one. */
  readonly backupAuthority: Pick<Authority, 'bundle'>;
  readonly backups: ObserveDeps['backups'] & Followed;
  readonly trackers: ObserveDeps['trackers'] & { readonly synced: boolean };
  /** So many letters and digits that nobody guesses. */
  readonly randomText: (length: number) => string;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Calls back when a claim, named then, has changed, or how far it is filled. */
  readonly onStorageChange: (listener: (claim?: Key) => void) => () => void;
  readonly observer?: ReconcileObserver | undefined;
}

/** Gives out disks of VMs, of snapshots and of claims by exporter pods. */
export class ExportController implements Component {
  readonly name = 'export-controller';
  readonly reconciler: Reconciler<ExportObservation, ExportDecision, ExplainFacts>;
  readonly #deps: ExportControllerDeps;
  readonly #access: ExportAccess;
  readonly #lookup: Lookup;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers, ...options }: ExportControllerOptions, deps: ExportControllerDeps) {
    this.#deps = deps;
    this.#access = new ExportAccess(options, deps);
    this.#lookup = new Lookup(deps.client);
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs, claims and pods have to be synced; the others need not be. */
  async start(): Promise<void> {
    const { exports, ownPods, services, vms, vmis, snapshots, contents, backups, onStorageChange } = this.#deps;
    const ofVm = (key: Key) => this.#wake((each) => isOf(each, 'VirtualMachine', key));
    this.#subscriptions.push(
      exports.onChange((key) => this.reconciler.wake(key)),
      ownPods.onChange((key) => this.#podChanged(key, ownPods.get(key))),
      services.onChange((key) => this.#wakeOwner(services.get(key), key)),
      vms.onChange(ofVm),
      vmis.onChange(ofVm),
      snapshots.onChange((key) => this.#wake((each) => isOf(each, 'VirtualMachineSnapshot', key))),
      backups.onChange((key) => this.#wake((each) => isOf(each, 'VirtualMachineBackup', key))),
      contents.onChange((key) => this.#wake((each) => isIn(each, key) && isOfSnapshot(each))),
      onStorageChange((claim) => this.#wake((each) => claim === undefined || this.#hasClaim(each, claim))),
    );
    for (const key of exports.keys()) this.reconciler.wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** An exporter pod's own export; and those whose claims another pod takes, or leaves. */
  #podChanged(key: Key, pod: Pod | undefined): void {
    this.#wakeOwner(pod, key);
    if (pod && controllerOf(pod)?.kind === resources.virtualMachineExports.kind) return;
    const claims = (pod?.spec.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) => claim?.claimName ?? []);
    const named = claims.map((claim) => `${pod?.metadata.namespace}/${claim}`);
    this.#wake((each) => isIn(each, key) && (!pod || named.some((claim) => this.#hasClaim(each, claim))));
  }

  /** What is gone is known by its name. */
  #wakeOwner(object: KubeObject | undefined, key: Key): void {
    const owner = object && controllerOf(object);
    if (owner?.kind === resources.virtualMachineExports.kind)
      this.reconciler.wake(`${object?.metadata.namespace}/${owner.name}`);
    if (object) return;
    this.#wake((each) => {
      const names = namesOf(each);
      return isIn(each, key) && [names.pod, names.service].includes(parseKey(key)?.name ?? '');
    });
  }

  /** Those of a VM and of a snapshot have many: any of their namespace may be one. */
  #hasClaim(vmExport: VirtualMachineExport, claim: Key): boolean {
    const { kind } = vmExport.spec.source ?? {};
    return kind === 'PersistentVolumeClaim' ? isOf(vmExport, kind, claim) : isIn(vmExport, claim);
  }

  #wake(isMeant: (vmExport: VirtualMachineExport) => boolean): void {
    for (const each of this.#deps.exports.list()) if (isMeant(each)) this.reconciler.wake(keyOf(each));
  }

  #parts(): ReconcileParts<ExportObservation, ExportDecision, ExplainFacts> {
    const deps = this.#deps;
    const access = this.#access;
    const observing = { ...deps, access, certificates: () => deps.settings().certificates };
    const words = {
      field: 'vmexport',
      object: 'the export',
      onChange: 'when the export, its source or its pod changes',
    };
    const { exports, services, ownPods, vms, vmis, snapshots, contents, backups, trackers } = deps;
    const caches = [exports, services, ownPods, vms, vmis, snapshots, contents, backups, trackers];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: (key, signal) => observeExport(key, observing, signal),
      decide: decideExport,
      execute: async (observation, { steps }, signal) => {
        if (observation.kind !== 'present') return [];
        const { client, clock, randomText, authority, backupAuthority } = deps;
        const { exporter: settings, machineDefaults } = deps.settings();
        const parts = { client, ownPods, services, lookup: this.#lookup, authority, backupAuthority, randomText };
        const context = { ...parts, settings, machineDefaults, observation, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.vmExport.metadata.resourceVersion),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (seen, event) =>
        recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.vmExport, event),
    };
  }

  async #write(
    { observation, decision: { says }, outcomes }: Attempt<ExportObservation, ExportDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    if (observation.kind !== 'present' || !says) return { kind: 'no-object' };
    const { client, exports } = this.#deps;
    const { vmExport } = observation;
    const failure = stepFailureOf(outcomes)?.message;
    const said: Said =
      failure === undefined
        ? says
        : { phase: 'Pending', ready: { status: 'False', reason: 'Initializing', message: failure } };
    // A service that was made just now.
    const service = this.#deps.services.get(`${vmExport.metadata.namespace}/${namesOf(vmExport).service}`);
    const status = exportStatusOf({ ...observation, service: observation.service ?? service }, said);
    const write = { type: resources.virtualMachineExports, object: vmExport, status, events: [] };
    return storeStatus<VirtualMachineExport>(write, { client, objects: exports }, report, signal);
  }
}

function isIn({ metadata }: VirtualMachineExport, key: Key): boolean {
  return parseKey(key)?.namespace === metadata.namespace;
}

function isOf({ metadata, spec }: VirtualMachineExport, kind: string, key: Key): boolean {
  return spec.source?.kind === kind && `${metadata.namespace}/${spec.source.name}` === key;
}

function isOfSnapshot({ spec }: VirtualMachineExport): boolean {
  return spec.source?.kind === 'VirtualMachineSnapshot';
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: ExportObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { vmExport, source, pod, users } = observation;
  const { problem, volumes, wanted } = source;
  const free = users.length === 0 ? 'free' : `in use by ${users.join(', ')}`;
  return {
    phase: vmExport.status?.phase || 'none',
    source: `${vmExport.spec.source?.kind} ${vmExport.spec.source?.name}`,
    state: problem?.message ?? free,
    volumes: `${volumes.length} of ${volumes.length + wanted.length}`,
    pod: pod ? (pod.status?.phase ?? 'Pending') : 'none',
  };
}
