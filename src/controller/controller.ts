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
import { type Clock, type Component, Lifecycle, type Logger, systemClock } from '../base/index.ts';
import {
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
import { EvacuationController } from './evacuation/index.ts';
import { errorAnswer, explain } from './explain/index.ts';
import { MigrationController, migrationRules } from './migration/index.ts';
import { NodeController } from './node/index.ts';
import { PoolController, poolRules } from './pool/index.ts';
import { ownWriteEchoMs } from './reconciling.ts';
import { ReplicaSetController, replicaSetRules } from './replica-set/index.ts';
import { type SchedulableNode, StandaloneScheduler } from './scheduler/index.ts';
import { VmController, vmRules } from './vm/index.ts';
import { podIndexes, VmiController, vmiIndexes, vmiRules, vmisByClaim } from './vmi/index.ts';
import { WorkloadUpdateController } from './workload-update/index.ts';

export interface ControllerOptions {
  readonly config: ControllerConfigBase;
  readonly vmWorkers: number;
  readonly vmiWorkers: number;
  readonly migrationWorkers: number;
  readonly evacuationWorkers: number;
  readonly nodeWorkers: number;
  readonly replicaSetWorkers: number;
  readonly poolWorkers: number;
  /** Bind launcher pods to nodes: where no kube-scheduler runs. */
  readonly standaloneScheduler: boolean;
  /** The Unix socket for questions on decisions, if there shall be one. */
  readonly explain?: { readonly socketFile: string; readonly pid: number };
}

export interface ControllerDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly randomUuid: () => string;
  readonly random?: () => number;
  readonly clock?: Clock;
}

/** Source of the events of VM, VMI and migration, as upstream names it. */
const component = 'virtualmachine-controller';
const syncWarningMs = 15_000;

/** All of virt-controller's parts on one set of caches. */
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
  readonly #settings: KubeVirtSettings<ControllerConfig>;

  constructor(options: ControllerOptions, deps: ControllerDeps) {
    this.#deps = { random: Math.random, clock: systemClock, ...deps };
    this.#informers = makeInformers(this.#deps);
    this.#unawaited = makeUnawaitedInformers(this.#deps);
    const { client, log, clock, random, randomUuid } = this.#deps;
    const reader = controllerConfigReader(options.config);
    this.#settings = new KubeVirtSettings({ reader, kubevirts: this.#informers.kubevirts, clock, log });
    const events = new EventRecorder({ component }, { client, log, clock });
    this.#events = events;
    const { pods, nodes } = this.#informers;
    const overlay = { giveUp: { afterMs: ownWriteEchoMs, clock }, wakeOnEcho: true };
    const vms = new ReadYourWrites(cachedObjects(this.#informers.vms, keyOf), overlay);
    const vmis = new ReadYourWrites(cachedObjects(this.#informers.vmis, keyOf), overlay);
    const ownPods = new ReadYourWrites(cachedObjects(pods, keyOf), overlay);
    const config = () => this.#settings.current;
    const shared = { client, log, clock, random, events, vms, vmis, pods, ownPods, config };
    const dataVolumes = new DataVolumes({ client, clock, log, random });
    this.#vmis = new VmiController(
      { workers: options.vmiWorkers },
      { ...shared, ...claimsOf(this.#informers), dataVolumes, randomUuid },
    );
    this.#vms = new VmController({ workers: options.vmWorkers }, shared);
    const migrations = new ReadYourWrites(cachedObjects(this.#informers.migrations, keyOf), overlay);
    const { claims } = this.#informers;
    const { launchers, attachmentPods } = this.#vmis;
    this.#migrations = new MigrationController(
      { workers: options.migrationWorkers },
      { ...shared, migrations, nodes, claims, launchers, attachmentPods },
    );
    this.#evacuation = new EvacuationController(
      { workers: options.evacuationWorkers },
      { ...shared, migrations, nodes },
    );
    this.#nodes = new NodeController({ workers: options.nodeWorkers }, { ...shared, nodes });
    this.#workloads = new WorkloadUpdateController({ ...shared, migrations, kubevirts: this.#informers.kubevirts });
    const sets = new ReadYourWrites(cachedObjects(this.#unawaited.replicaSets, keyOf), overlay);
    this.#replicaSets = new ReplicaSetController({ workers: options.replicaSetWorkers }, { ...shared, sets });
    const pools = new ReadYourWrites(cachedObjects(this.#unawaited.pools, keyOf), overlay);
    this.#pools = new PoolController({ workers: options.poolWorkers }, { ...shared, pools });
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
      new DisruptionBudgets(shared),
      ...scheduler,
    ]);
  }

  /** Resolves when the caches are read and the work has begun. */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const informers = Object.values(this.#informers);
    for (const informer of informers) await informer.start();
    const cancel = clock.schedule(syncWarningMs, () => {
      const waiting = informers.filter(({ hasSynced }) => !hasSynced);
      const errors = waiting.map(({ name, health }) => `${name}: ${health.lastError ?? 'no answer yet'}`);
      log.warn({ errors }, 'still waiting for the first list from the API server');
    });
    try {
      await Promise.all(informers.map((informer) => informer.waitForSync(signal)));
    } finally {
      cancel();
    }
    this.#settings.begin();
    this.#settings.select(
      (config) => config,
      () => {
        this.#vmis.wakeAll();
        this.#migrations.wakeAll();
        this.#evacuation.wakeAll();
      },
    );
    await this.#workers.start(signal);
    for (const informer of Object.values(this.#unawaited)) await informer.start();
    log.info({ vmis: this.#informers.vmis.size, vms: this.#informers.vms.size }, 'virt-controller is at work');
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
    };
    const answer = (method: string, target: string) => explain(method, target, { controllers, clock });
    const options = { ...where, name: 'explain server', other: 'another virt-controller' };
    return [new JsonSocket(options, { answer, refuse: errorAnswer, log, clock })];
  }

  async stop(): Promise<void> {
    try {
      await this.#settings.stop();
      await this.#workers.stop();
    } finally {
      await this.#events.stop(2_000);
      const informers = [...Object.values(this.#informers), ...Object.values(this.#unawaited)];
      await Promise.all(informers.map((informer) => informer.stop()));
    }
  }
}

function claimsOf({ claims, vmis }: Informers) {
  return { claims, vmisOfClaim: (claim: Key) => vmis.byIndex(vmisByClaim, claim).map(keyOf) };
}

type Informers = ReturnType<typeof makeInformers>;

function makeInformers(deps: Required<ControllerDeps>) {
  const { client, log, clock, random } = deps;
  const shared = { client, log, clock, random };
  return {
    kubevirts: new Informer<KubeVirt>({ type: resources.kubevirts }, shared),
    vms: new Informer<VirtualMachine>({ type: resources.virtualMachines }, shared),
    vmis: new Informer<VirtualMachineInstance>(
      { type: resources.virtualMachineInstances, indexes: vmiIndexes },
      shared,
    ),
    migrations: new Informer<VirtualMachineInstanceMigration>({ type: resources.migrations }, shared),
    claims: new Informer<PersistentVolumeClaim>({ type: resources.persistentVolumeClaims }, shared),
    pods: new Informer<Pod>(
      {
        type: resources.pods,
        labelSelector: labelQuery({ key: 'kubevirt.io', operator: 'Exists' }),
        indexes: podIndexes,
      },
      shared,
    ),
    nodes: new Informer<SchedulableNode>({ type: resources.nodes }, shared),
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
