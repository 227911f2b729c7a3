import {
  type Key,
  keyOf,
  labelQuery,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
  type VirtualMachineInstanceReplicaSet,
  type VirtualMachinePool,
} from '../api/index.ts';
import { type Clock, type Component, Lifecycle, type Logger, shareParts, systemClock } from '../base/index.ts';
import {
  activeKubeVirt,
  type ControllerConfig,
  type ControllerConfigBase,
  controllerConfigReader,
  type KubeVirt,
  KubeVirtSettings,
} from '../cluster-config/index.ts';
import { JsonSocket } from '../http/index.ts';
import { EventRecorder, Informer, type KubeClient } from '../kube/index.ts';
import { cachedObjects, ReadYourWrites } from '../reconcile/index.ts';
import { DataVolumes } from './data-volumes/index.ts';
import { DisruptionBudgets } from './disruption-budget/index.ts';
import { EvacuationController, evacuationRules } from './evacuation/index.ts';
import { errorAnswer, explain } from './explain/index.ts';
import { keptStateIndexes } from './kept-state/index.ts';
import { addObjectMetrics, ControllerMeters, type QueueName } from './metrics/index.ts';
import { MigrationController, type MigrationRetries, migrationRules } from './migration/index.ts';
import { NodeController, nodeRules } from './node/index.ts';
import { PoolController, poolRules } from './pool/index.ts';
import { NamespaceQuotas } from './quota/index.ts';
import { randomText } from './random-text.ts';
import { ownWriteEchoMs } from './reconciling.ts';
import { ReplicaSetController, replicaSetRules } from './replica-set/index.ts';
import { type SchedulableNode, StandaloneScheduler } from './scheduler/index.ts';
import { type AuthorityPlaces, SnapshotControllers } from './snapshot-controllers.ts';
import { vmsByClaim, volumeIndexes } from './snapshot-source/index.ts';
import { lowestFrequency, TscLabels } from './tsc/index.ts';
import { VmController, vmIndexes, vmRules, vmsByDataVolume } from './vm/index.ts';
import { NewVmis, podIndexes, podsByVmi, VmiController, vmiIndexes, vmiRules, vmisByClaim } from './vmi/index.ts';
import { WorkloadUpdateController } from './workload-update/index.ts';

export interface ControllerOptions {
  readonly config: ControllerConfigBase;
  readonly vmWorkers: number;
  readonly vmiWorkers: number;
  readonly migrationWorkers: number;
  /** Of a migration that a loss has ended before its guest had moved; 1 unless given. */
  readonly migrationRetries?: MigrationRetries;
  readonly evacuationWorkers: number;
  readonly nodeWorkers: number;
  readonly replicaSetWorkers: number;
  readonly poolWorkers: number;
  readonly snapshotWorkers: number;
  readonly restoreWorkers: number;
  readonly cloneWorkers: number;
  readonly exportWorkers: number;
  readonly backupWorkers: number;
  readonly authorities: AuthorityPlaces;
  /** Bind launcher pods to nodes: where no kube-scheduler runs. */
  readonly standaloneScheduler: boolean;
  /** The Unix socket for questions on decisions, if there shall be one. */
  readonly explain?: { readonly socketFile: string; readonly pid: number };
}

/** What virt-controller knows of itself. */
export interface ControllerFigures {
  /** All controllers have begun and not ended. */
  readonly isWorking: boolean;
  /** By the plural of their resource. */
  readonly caches: readonly { readonly resource: string; readonly objects: number }[];
  /** `resourceVersion` of the KubeVirt object; empty: none. */
  readonly configVersion: string;
  /** Failures in a row of watching it. */
  readonly configFailures: number;
  /** Objects that fail over and over. */
  readonly quarantined: number;
  readonly events: { readonly waiting: number; readonly dropped: number };
}

export interface ControllerDeps {
  readonly client: KubeClient;
  /** Events come behind what they tell of and are no decisions: with a client of their own they delay nothing. `client` unless given. */
  readonly eventClient?: KubeClient;
  /** What is counted is counted there. */
  readonly meters?: ControllerMeters;
  readonly log: Logger;
  readonly randomUuid: () => string;
  readonly random?: () => number;
  readonly clock?: Clock;
}

/** Source of the events of VM, VMI and migration, as upstream names it. */
const component = 'virtualmachine-controller';
const syncWarningMs = 15_000;

/** What a burst of a thousand starts tells of. */
const eventQueueSize = 10_000;
const eventWriters = 8;

/**
 * All of virt-controller's parts on one set of caches. A replica that stands by follows its caches, and works when it leads:
 * `follow`, `work`, `rest`, `stop`; `start` is the first two.
 */
export class Controller implements Component {
  readonly name = 'virt-controller';
  readonly #deps: Required<ControllerDeps>;
  readonly #informers: Informers;
  readonly #unawaited: UnawaitedInformers;
  readonly #events: EventRecorder;
  readonly #workers: Lifecycle;
  readonly #vmis: VmiController;
  readonly #vms: VmController;
  readonly #migrations: MigrationController;
  readonly #evacuation: EvacuationController;
  readonly #nodes: NodeController;
  readonly #workloads: WorkloadUpdateController;
  readonly #replicaSets: ReplicaSetController;
  readonly #pools: PoolController;
  readonly #tscLabels: TscLabels;
  readonly #snapshots: SnapshotControllers;
  readonly #settings: KubeVirtSettings<ControllerConfig>;
  #isWorking = false;
  #endCounting: (() => void)[] = [];

  constructor(options: ControllerOptions, deps: ControllerDeps) {
    const { client: eventClient } = deps;
    const meters = new ControllerMeters();
    this.#deps = { random: Math.random, clock: systemClock, eventClient, meters, ...deps };
    this.#informers = makeInformers(this.#deps);
    this.#unawaited = makeUnawaitedInformers(this.#deps);
    const { client, log, clock, random, randomUuid } = this.#deps;
    const counted = (queue: QueueName) => ({ observer: this.#deps.meters.observer(queue) });
    const reader = controllerConfigReader(options.config);
    this.#settings = new KubeVirtSettings({ reader, kubevirts: this.#informers.kubevirts, clock, log });
    const events = new EventRecorder(
      { component, queueSize: eventQueueSize, writers: eventWriters },
      { client: this.#deps.eventClient, log, clock, random },
    );
    this.#events = events;
    const { pods, nodes } = this.#informers;
    const overlay = { giveUp: { afterMs: ownWriteEchoMs, clock }, wakeOnEcho: true };
    const vms = new ReadYourWrites(cachedObjects(this.#informers.vms, keyOf), overlay);
    const vmis = new ReadYourWrites(cachedObjects(this.#informers.vmis, keyOf), overlay);
    const ownPods = new ReadYourWrites(cachedObjects(pods, keyOf), overlay);
    const config = () => this.#settings.current;
    const quotas = new NamespaceQuotas({ client, clock });
    const shared = { client, log, clock, random, events, vms, vmis, pods, ownPods, quotas, config };
    const tscFrequency = () => config().minimumTscFrequency ?? lowestFrequency(nodes.list(), vmis.list(), undefined);
    const dataVolumes = new DataVolumes({ client, clock, log, random });
    this.#vmis = new VmiController(
      { workers: options.vmiWorkers },
      { ...shared, ...claimsOf(this.#informers), dataVolumes, tscFrequency, randomUuid, ...counted('vmi') },
    );
    const { claims } = this.#informers;
    const ofClaims = { claims, vmsOfClaim: (claim: Key) => this.#informers.vms.byIndex(vmsByClaim, claim).map(keyOf) };
    const ofSnapshots = { ...shared, ...ofClaims, dataVolumes, overlay, randomText, meters: this.#deps.meters };
    this.#snapshots = new SnapshotControllers(options, ofSnapshots);
    const { volumeStatuses } = this.#snapshots;
    const { launchers, attachmentPods } = this.#vmis;
    const newVmis = new NewVmis({ config, clock, randomUuid });
    this.#vms = new VmController(
      { workers: options.vmWorkers },
      { ...shared, ...vmsOf(this.#informers), dataVolumes, volumeStatuses, newVmis, launchers, ...counted('vm') },
    );
    const migrations = new ReadYourWrites(cachedObjects(this.#informers.migrations, keyOf), overlay);
    this.#migrations = new MigrationController(
      { workers: options.migrationWorkers, retries: options.migrationRetries ?? 1 },
      { ...shared, migrations, nodes, claims, launchers, attachmentPods, ...counted('migration') },
    );
    this.#evacuation = new EvacuationController(
      { workers: options.evacuationWorkers },
      { ...shared, migrations, nodes, ...counted('evacuation') },
    );
    this.#nodes = new NodeController({ workers: options.nodeWorkers }, { ...shared, nodes, ...counted('node') });
    this.#workloads = new WorkloadUpdateController({
      ...{ ...shared, migrations, kubevirts: this.#informers.kubevirts },
      observer: this.#deps.meters.queueObserver('workload-update'),
    });
    const sets = new ReadYourWrites(cachedObjects(this.#unawaited.replicaSets, keyOf), overlay);
    this.#replicaSets = new ReplicaSetController(
      { workers: options.replicaSetWorkers },
      { ...shared, sets, ...counted('replicaset') },
    );
    const pools = new ReadYourWrites(cachedObjects(this.#unawaited.pools, keyOf), overlay);
    this.#pools = new PoolController({ workers: options.poolWorkers }, { ...shared, pools, ...counted('pool') });
    this.#tscLabels = new TscLabels({ ...shared, nodes, observer: meters.queueObserver('tsc-labels') });
    const scheduler = options.standaloneScheduler ? [new StandaloneScheduler({ ...shared, nodes })] : [];
    this.#workers = new Lifecycle([
      ...this.#explainServer(options),
      dataVolumes,
      this.#vmis,
      this.#vms,
      this.#migrations,
      this.#evacuation,
      this.#nodes,
      this.#workloads,
      this.#replicaSets,
      this.#pools,
      this.#tscLabels,
      ...this.#snapshots.components,
      new DisruptionBudgets(shared),
      ...scheduler,
    ]);
    this.#addMetrics();
  }

  #addMetrics(): void {
    const { meters } = this.#deps;
    meters.read('vm', this.#vms.reconciler);
    meters.read('vmi', this.#vmis.reconciler);
    meters.read('migration', this.#migrations.reconciler);
    meters.read('evacuation', this.#evacuation.reconciler);
    meters.read('node', this.#nodes.reconciler);
    meters.read('workload-update', this.#workloads.reconciler);
    meters.read('replicaset', this.#replicaSets.reconciler);
    meters.read('pool', this.#pools.reconciler);
    meters.read('tsc-labels', this.#tscLabels.reconciler);
    this.#snapshots.addMetrics(meters, () => this.#isWorking);
    const { vms, vmis, migrations, pods } = this.#informers;
    addObjectMetrics(meters.registry, {
      isLeading: () => this.#isWorking,
      ...{ vms: () => vms.list(), vmis: () => vmis.list(), migrations: () => migrations.list() },
      podsOf: (uid) => pods.byIndex(podsByVmi, uid),
      evictionStrategy: () => this.#settings.current.evictionStrategy,
      launcherImage: () => this.#settings.current.launcherImage,
    });
  }

  get #notAwaited() {
    return [...Object.values(this.#unawaited), ...this.#snapshots.informers];
  }

  /** The configuration of now; followed from `follow` on. */
  get settings(): Pick<KubeVirtSettings<ControllerConfig>, 'current' | 'select'> {
    return this.#settings;
  }

  /** What it knows of itself, for health and metrics. */
  get figures(): ControllerFigures {
    const caches = [...Object.values(this.#informers), ...this.#notAwaited].map(({ name, size }) => ({
      resource: name.replace('informer ', ''),
      objects: size,
    }));
    const { kubevirts } = this.#informers;
    const reconcilers = [this.#vms, this.#vmis, this.#migrations, this.#evacuation, this.#nodes, this.#replicaSets];
    const ofKinds = [
      ...[...reconcilers, this.#pools].map(({ reconciler }) => reconciler),
      ...this.#snapshots.reconcilers,
    ];
    const crashLoops = ofKinds.map((reconciler) => reconciler.crashLoops.keys().length);
    return {
      isWorking: this.#isWorking,
      caches,
      configVersion: activeKubeVirt(kubevirts.list())?.metadata.resourceVersion ?? '',
      configFailures: kubevirts.health.failures,
      quarantined: crashLoops.reduce((sum, count) => sum + count, 0),
      events: { waiting: this.#events.waiting, dropped: this.#events.dropped },
    };
  }

  /** Resolves when the caches are read and the work has begun. */
  async start(signal: AbortSignal): Promise<void> {
    await this.follow(signal);
    await this.work(signal);
  }

  /** Fills the caches and keeps them fresh, the configuration with them; writes nothing. Resolves when they are read. */
  async follow(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const informers = Object.values(this.#informers);
    for (const informer of [...informers, ...this.#notAwaited]) await informer.start();
    const cancel = clock.schedule(syncWarningMs, () => {
      const waiting = informers.filter(({ hasSynced }) => !hasSynced);
      const errors = waiting.map(({ name, health }) => `${name}: ${health.lastError ?? 'no answer yet'}`);
      log.warn({ errors }, 'still waiting for the first list from the API server');
    });
    try {
      await this.#informers.kubevirts.waitForSync(signal);
      this.#settings.begin();
      await Promise.all(informers.map((informer) => informer.waitForSync(signal)));
    } finally {
      cancel();
    }
  }

  /** After `follow`, by one process at a time. Resolves when all controllers are at work. */
  async work(signal: AbortSignal): Promise<void> {
    this.#count();
    await this.#workers.start(signal);
    this.#isWorking = true;
    this.#settings.select(
      (config) => config,
      () => {
        if (!this.#isWorking) return;
        this.#vms.wakeAll();
        this.#vmis.wakeAll();
        this.#migrations.wakeAll();
        this.#evacuation.wakeAll();
        this.#tscLabels.wake();
      },
    );
    this.#settings.select(
      ({ unused }) => unused,
      (fields) => {
        if (fields.length === 0) return;
        this.#deps.log.warn({ fields }, 'fields of the KubeVirt object that nothing here uses yet');
      },
    );
    const { vmis, vms } = this.#informers;
    this.#deps.log.info({ vmis: vmis.size, vms: vms.size }, 'virt-controller is at work');
  }

  #count(): void {
    const { meters } = this.#deps;
    const { vmis, migrations } = this.#informers;
    this.#endCounting = [
      vmis.addHandlers({
        updated: (older, newer) => meters.phaseTimes.vmiChanged(older, newer),
        deleted: (vmi) => meters.vmiGone(keyOf(vmi)),
      }),
      migrations.addHandlers({ updated: (older, newer) => meters.phaseTimes.migrationChanged(older, newer) }),
    ];
  }

  #explainServer({ explain: where }: ControllerOptions): Component[] {
    if (!where) return [];
    const { clock, log } = this.#deps;
    const controllers = {
      vm: { source: this.#vms.reconciler, rules: vmRules },
      vmi: { source: this.#vmis.reconciler, rules: vmiRules },
      vmim: { source: this.#migrations.reconciler, rules: migrationRules },
      vmirs: { source: this.#replicaSets.reconciler, rules: replicaSetRules },
      vmpool: { source: this.#pools.reconciler, rules: poolRules },
      ...this.#snapshots.explained,
      node: { source: this.#nodes.reconciler, rules: nodeRules },
      evacuation: { source: this.#evacuation.reconciler, rules: evacuationRules },
    };
    const answer = (method: string, target: string) => explain(method, target, { controllers, clock });
    const options = { ...where, name: 'explain server', other: 'another virt-controller' };
    return [new JsonSocket(options, { answer, refuse: errorAnswer, log, clock })];
  }

  /** No more decisions: what is under way is ended. Events that wait are written until `stop`. */
  async rest(): Promise<void> {
    this.#isWorking = false;
    for (const end of this.#endCounting.splice(0)) end();
    await this.#workers.stop();
  }

  async stop(): Promise<void> {
    try {
      await this.rest();
      await this.#settings.stop();
    } finally {
      await this.#events.stop(2_000);
      const informers = [...Object.values(this.#informers), ...this.#notAwaited];
      await Promise.all(informers.map((informer) => informer.stop()));
    }
  }
}

function claimsOf({ claims, vmis }: Informers) {
  return { claims, vmisOfClaim: (claim: Key) => vmis.byIndex(vmisByClaim, claim).map(keyOf) };
}

function vmsOf({ claims, vms }: Informers) {
  return { claims, vmsOfDataVolume: (key: Key) => vms.byIndex(vmsByDataVolume, key).map(keyOf) };
}

type Informers = ReturnType<typeof makeInformers>;

/** Thousands of them are alike in most parts: guests of one template, and their pods. */
const alike = { share: shareParts };

function makeInformers(deps: Required<ControllerDeps>) {
  const { client, log, clock, random } = deps;
  const shared = { client, log, clock, random };
  return {
    kubevirts: new Informer<KubeVirt>({ type: resources.kubevirts }, shared),
    vms: new Informer<VirtualMachine>(
      { ...alike, type: resources.virtualMachines, indexes: { ...vmIndexes, ...volumeIndexes } },
      shared,
    ),
    vmis: new Informer<VirtualMachineInstance>(
      { ...alike, type: resources.virtualMachineInstances, indexes: vmiIndexes },
      shared,
    ),
    migrations: new Informer<VirtualMachineInstanceMigration>({ ...alike, type: resources.migrations }, shared),
    claims: new Informer<PersistentVolumeClaim>(
      { ...alike, type: resources.persistentVolumeClaims, indexes: keptStateIndexes },
      shared,
    ),
    pods: new Informer<Pod>(
      {
        ...alike,
        type: resources.pods,
        labelSelector: labelQuery({ key: 'kubevirt.io', operator: 'Exists' }),
        indexes: podIndexes,
      },
      shared,
    ),
    nodes: new Informer<SchedulableNode>({ ...alike, type: resources.nodes }, shared),
  };
}

type UnawaitedInformers = ReturnType<typeof makeUnawaitedInformers>;

/** Of kinds that a cluster may not have: nothing waits for their first list, and where there are none they cost a watch without events. */
function makeUnawaitedInformers(deps: Required<ControllerDeps>) {
  return {
    replicaSets: new Informer<VirtualMachineInstanceReplicaSet>({ type: resources.replicaSets }, deps),
    pools: new Informer<VirtualMachinePool>({ type: resources.pools }, deps),
  };
}
