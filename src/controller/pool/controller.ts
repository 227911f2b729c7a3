import {
  type ExplainFacts,
  type Key,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import { Dependents } from '../owned/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decidePool, type PoolDecision } from './decide.ts';
import { executors, releaseVms } from './execute.ts';
import { hasFinalizer, observePool, type PoolObservation, signatureOf } from './observe.ts';
import { Revisions } from './revisions.ts';
import { writeStatus } from './write.ts';

export interface PoolControllerOptions {
  /** Pools worked on side by side. */
  readonly workers: number;
}

export interface PoolControllerDeps {
  readonly client: KubeClient;
  readonly pools: ReadYourWrites<VirtualMachinePool>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

/** Keeps as many VMs of a pool as are wanted, made from its present template. */
export class PoolController implements Component {
  readonly name = 'pool-controller';
  readonly reconciler: Reconciler<PoolObservation, PoolDecision, ExplainFacts>;
  readonly #deps: PoolControllerDeps;
  readonly #members: Dependents<VirtualMachine>;
  readonly #revisions: Revisions;
  /** By key: UID of the pool, and the revisions that were in use when others were deleted. */
  readonly #pruned = new Map<Key, { readonly uid: string | undefined; readonly inUse: string }>();
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: PoolControllerOptions, deps: PoolControllerDeps) {
    this.#deps = deps;
    this.#members = new Dependents(deps.vms, resources.pools);
    this.#revisions = new Revisions(deps.client);
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs and VMIs have to be synced; that of pools need not be: a pool is looked at when it is read. */
  async start(): Promise<void> {
    const { pools, vmis } = this.#deps;
    const wake = (key: Key) => this.reconciler.wake(key);
    const wakeByVm = (vm: Key) => {
      const owner = this.#members.ownerOf(vm);
      if (owner !== undefined) wake(owner);
    };
    // A VM and its VMI have the same key.
    this.#subscriptions.push(
      this.#members.follow({ owner: wake, orphan: (vm) => this.#wakeFormer(vm) }),
      vmis.onChange(wakeByVm),
      pools.onChange(wake),
    );
    for (const key of pools.keys()) wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** One that was taken from its pool still has the pool's finalizer. */
  #wakeFormer(vm: VirtualMachine): void {
    if (!hasFinalizer(vm)) return;
    const { namespace, name } = vm.metadata;
    this.reconciler.wake(`${namespace}/${name.slice(0, Math.max(0, name.lastIndexOf('-')))}`);
  }

  #parts(): ReconcileParts<PoolObservation, PoolDecision, ExplainFacts> {
    const deps = {
      ...this.#deps,
      members: this.#members,
      revisions: this.#revisions,
      prunedFor: (pool: VirtualMachinePool) => this.#prunedFor(pool),
    };
    const words = { field: 'vmpool', object: 'the pool', onChange: 'when the pool, a VM of it or its VMI changes' };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => deps.pools.synced && deps.vms.synced && deps.vmis.synced,
      observe: (key, signal) => observePool(key, deps, signal),
      decide: decidePool,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report, signal) => writeStatus(attempt, deps, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.pool.metadata.resourceVersion),
      isGone: (seen) => {
        if (seen.kind === 'absent') this.#pruned.delete(seen.key);
        return seen.kind === 'absent' && seen.former.length === 0;
      },
      recordEvent: (seen, event) => recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.pool, event),
    };
  }

  #prunedFor({ metadata: { namespace, name, uid } }: VirtualMachinePool): string | undefined {
    const last = this.#pruned.get(`${namespace}/${name}`);
    return last?.uid === uid ? last?.inUse : undefined;
  }

  async #execute(observation: PoolObservation, { steps }: PoolDecision, signal: AbortSignal) {
    const { client, pools, vms, vmis, clock } = this.#deps;
    const runner = { deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock };
    if (observation.kind !== 'present') {
      const releases = steps.flatMap((each) => (each.step === 'releaseVms' ? [each] : []));
      return runPlan(releases, { client, vms, signal }, { executors: { releaseVms }, ...runner });
    }
    const { key, pool, inUse, revisions: templates } = observation;
    const pruned = () => void this.#pruned.set(key, { uid: pool.metadata.uid, inUse: signatureOf(inUse) });
    const own = { members: this.#members, revisions: this.#revisions, templates, inUse, pruned };
    const context = { client, pools, vms, vmis, ...own, key, pool, signal };
    return runPlan(steps, context, { executors, ...runner });
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: PoolObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { pool, wanted, vms, strayed, detached, leaving, failing, updates } = observation;
  const { outdated, restart, recreate, waiting } = updates;
  const counts = {
    ...{ strayed: strayed.length, detached: detached.length, leaving: leaving.length, failing: failing.due.length },
    ...{ outdated: outdated.length, guestsOutdated: restart.length + recreate.length + waiting },
  };
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  return {
    wanted: String(wanted),
    vms: String(vms.length),
    ...Object.fromEntries(some.map(([name, count]) => [name, String(count)])),
    ...(pool.spec.paused === true && { paused: 'true' }),
    ...(pool.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}
