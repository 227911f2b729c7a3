import {
  isFinal,
  type Key,
  keyOf,
  labelQuery,
  type Pod,
  parseKey,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { type EventRecorder, type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import { podFacts } from '../pod/facts.ts';
import { LauncherPods } from '../pod/launcher-pods.ts';
import { vmiProblem } from './check.ts';
import { decideVmi, isUnprocessed } from './decide.ts';
import { executeStep, type StepOutcome } from './execute.ts';
import type { SyncFailure, VmiObservation } from './observation.ts';
import { projectVmi, startProblem } from './project.ts';
import { writeVmi } from './write.ts';

/** Index of the pod informer: UID of the controlling VMI. */
const podsByVmi = 'vmi';

export interface VmiControllerOptions {
  /** VMIs worked on side by side. */
  readonly workers: number;
}

export interface VmiControllerDeps {
  readonly client: KubeClient;
  readonly vmis: Informer<VirtualMachineInstance>;
  readonly vms: Informer<VirtualMachine>;
  /** Launcher pods, with the index `podsByVmi`. */
  readonly pods: Informer<Pod>;
  readonly config: () => ControllerConfig;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly randomUuid: () => string;
}

/** Our own write, until the cache shows it: before that every look would see the old object again. */
interface PendingWrite {
  readonly uid: string | undefined;
  readonly beforeVersion: string | undefined;
  readonly untilMs: number;
}

const writeEchoMs = 5_000;

/** From a new VMI to the hand-over, and its end (spec 50 §4). Level-triggered: all it knows is in the API. */
export class VmiController implements Component {
  readonly name = 'vmi-controller';
  readonly #deps: VmiControllerDeps;
  readonly #queue: KeyedQueue;
  readonly #launchers: LauncherPods;
  readonly #pendingWrites = new Map<Key, PendingWrite>();
  readonly #lastRules = new Map<Key, string>();
  readonly #unsubscribe: (() => void)[] = [];

  constructor(options: VmiControllerOptions, deps: VmiControllerDeps) {
    this.#deps = deps;
    this.#launchers = new LauncherPods(deps.randomUuid());
    this.#queue = new KeyedQueue(
      { concurrency: options.workers },
      {
        run: (key, signal) => this.#run(key, signal),
        clock: deps.clock,
        onError: (key, error, retryInMs) => deps.log.info({ key, err: error, retryInMs }, 'a VMI is tried again'),
      },
    );
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { vmis, pods } = this.#deps;
    const add = (vmi: VirtualMachineInstance) => this.#queue.add(keyOf(vmi));
    const addOwner = (pod: Pod) => this.#addOwner(pod);
    this.#unsubscribe.push(
      vmis.addHandlers({ added: add, updated: (_old, vmi) => add(vmi), deleted: add }),
      pods.addHandlers({
        added: addOwner,
        updated: (old, pod) => {
          if (podFacts.controllerUid(old) !== podFacts.controllerUid(pod)) addOwner(old);
          addOwner(pod);
        },
        deleted: addOwner,
      }),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#unsubscribe.splice(0)) end();
    await this.#queue.stop();
  }

  /** The configuration has changed. */
  wakeAll(): void {
    for (const key of this.#deps.vmis.keys()) this.#queue.add(key);
  }

  #addOwner(pod: Pod): void {
    const owner = pod.metadata.ownerReferences?.find(({ controller }) => controller);
    if (owner?.kind !== resources.virtualMachineInstances.kind) return;
    this.#queue.add(`${pod.metadata.namespace}/${owner.name}`);
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const vmi = this.#deps.vmis.get(key);
    await this.#cleanOrphans(key, vmi, signal);
    if (!vmi) {
      this.#pendingWrites.delete(key);
      this.#lastRules.delete(key);
      this.#launchers.forget(key);
      return { kind: 'done' };
    }
    const echoInMs = this.#ownWriteNotSeenYet(key, vmi);
    if (echoInMs > 0) return { kind: 'done', requeueAfterMs: echoInMs };
    const seen = this.#observe(vmi);
    this.#tellOfStrangers(seen);
    if (!seen.pod && !isUnprocessed(vmi) && !isFinal(vmi) && (await this.#hasLivePods(vmi, signal))) {
      return { kind: 'retry' };
    }
    const problem = isUnprocessed(vmi) && !vmi.metadata.deletionTimestamp ? vmiProblem(vmi) : undefined;
    return problem === undefined
      ? this.#sync(key, seen, signal)
      : this.#store(key, seen, this.#refuse(vmi, problem), signal);
  }

  async #sync(key: Key, seen: VmiObservation, signal: AbortSignal): Promise<KeyResult> {
    const { client, events, log } = this.#deps;
    const { vmi, config } = seen;
    const plan = decideVmi(seen);
    if (this.#lastRules.get(key) !== plan.rule) {
      this.#lastRules.set(key, plan.rule);
      const steps = plan.steps.map(({ step }) => step);
      log.info({ vmi: key, uid: vmi.metadata.uid, rule: plan.rule, steps }, 'decision');
    }
    let failed: Extract<StepOutcome, { kind: 'failed' }> | undefined;
    for (const step of plan.steps) {
      const launchers = this.#launchers;
      const outcome = await executeStep(step, { client, events, launchers, vmi, config, now: seen.now, signal });
      if (outcome.kind === 'stale') return { kind: 'retry' };
      if (outcome.kind === 'failed') failed ??= outcome;
    }
    const stored = await this.#store(key, seen, failed?.failure, signal);
    return failed?.retry ? { kind: 'retry', cause: failed.failure.message } : stored;
  }

  async #store(
    key: Key,
    seen: VmiObservation,
    failure: SyncFailure | undefined,
    signal: AbortSignal,
  ): Promise<KeyResult> {
    const { client, clock, log, randomUuid } = this.#deps;
    const { vmi } = seen;
    const wanted = projectVmi(seen, { failure, randomUuid });
    const result = await writeVmi(client, vmi, wanted, signal);
    if (result.kind === 'stale') return { kind: 'retry' };
    if (result.kind === 'unchanged') return { kind: 'done' };
    this.#pendingWrites.set(key, {
      uid: vmi.metadata.uid,
      beforeVersion: vmi.metadata.resourceVersion,
      untilMs: clock.monotonicMs() + writeEchoMs,
    });
    this.#tell(seen, wanted);
    const phase = wanted.status?.phase;
    if (phase !== vmi.status?.phase) log.info({ vmi: key, uid: vmi.metadata.uid, phase }, 'phase');
    return { kind: 'done' };
  }

  /** Events for what the user has to know, once per change. */
  #tell({ vmi, pod }: VmiObservation, wanted: VirtualMachineInstance): void {
    const message = (object: VirtualMachineInstance) =>
      object.status?.conditions?.find(({ type }) => type === 'Synchronized')?.message;
    const now = wanted.status?.conditions?.find(({ type }) => type === 'Synchronized');
    const isNews = now?.status === 'False' && message(vmi) !== now.message;
    const isFromPod = startProblem(pod) !== undefined || now?.reason === 'PodFailed';
    if (isNews && isFromPod) {
      this.#deps.events.record(vmi, 'Warning', now.reason ?? 'FailedSync', now.message ?? '');
    }
  }

  #tellOfStrangers({ vmi, strangers }: VmiObservation): void {
    for (const { metadata } of this.#launchers.newStrangers(vmi, strangers)) {
      const message = `pod ${metadata.name} says that this is its controller, and was not made for it: it is not believed`;
      this.#deps.events.record(vmi, 'Warning', 'ForeignPod', message);
    }
  }

  #refuse(vmi: VirtualMachineInstance, problem: string): SyncFailure {
    const message = `the VirtualMachineInstance cannot be started: ${problem}`;
    const known = vmi.status?.conditions?.find(({ type }) => type === 'Synchronized')?.message;
    if (known !== message) this.#deps.events.record(vmi, 'Warning', 'FailedCreate', message);
    return { reason: 'FailedCreate', message };
  }

  #observe(vmi: VirtualMachineInstance): VmiObservation {
    const { pods, vms, config, clock } = this.#deps;
    const { own, strangers } = this.#launchers.sort(vmi, pods.byIndex(podsByVmi, vmi.metadata.uid ?? ''));
    // A VM looks after the VMI of its own name only: one that names another VM would wait for it for ever.
    const owner = vmi.metadata.ownerReferences?.find(({ controller }) => controller);
    const vm = vms.get(keyOf(vmi));
    return {
      vmi,
      pods: own,
      strangers,
      pod: podFacts.currentPod(
        vmi,
        own.filter((pod) => !podFacts.isTemporary(pod)),
      ),
      hasOwnerVm: vm !== undefined && vm.metadata.uid === owner?.uid,
      config: config(),
      now: clock.now(),
    };
  }

  #ownWriteNotSeenYet(key: Key, vmi: VirtualMachineInstance): number {
    const pending = this.#pendingWrites.get(key);
    if (!pending) return 0;
    const { uid, resourceVersion } = vmi.metadata;
    const leftMs = pending.untilMs - this.#deps.clock.monotonicMs();
    if (pending.uid === uid && pending.beforeVersion === resourceVersion && leftMs > 0) return leftMs;
    this.#pendingWrites.delete(key);
    return 0;
  }

  /** A VMI is not failed on the word of a cache: a pod may have been made that it has not seen yet. */
  async #hasLivePods(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<boolean> {
    const { namespace, uid = '' } = vmi.metadata;
    const { items } = await this.#deps.client.list<Pod>(resources.pods, {
      namespace,
      labelSelector: labelQuery({ key: 'kubevirt.io/created-by', operator: 'In', values: [uid] }),
      signal,
    });
    const node = vmi.status?.nodeName;
    return this.#launchers.sort(vmi, items).own.some(({ spec }) => !node || spec.nodeName === node);
  }

  /**
   * Pods whose VMI is no more, where no garbage collector has come by. The API is asked, not the cache.
   */
  async #cleanOrphans(key: Key, vmi: VirtualMachineInstance | undefined, signal: AbortSignal): Promise<void> {
    const { client, pods, log } = this.#deps;
    const ref = parseKey(key);
    if (!ref) return;
    const orphans = pods.byIndex(podsByVmiName, key).filter((pod) => {
      return podFacts.controllerUid(pod) !== vmi?.metadata.uid && !pod.metadata.deletionTimestamp;
    });
    if (orphans.length === 0) return;
    const live = await client
      .get<VirtualMachineInstance>(resources.virtualMachineInstances, ref, { signal })
      .catch((error: unknown) => {
        if (isKubeError(error, 'NOT_FOUND')) return undefined;
        throw error;
      });
    for (const pod of orphans) {
      if (podFacts.controllerUid(pod) === live?.metadata.uid) continue;
      log.info({ vmi: key, pod: pod.metadata.name }, 'deleting a launcher pod whose VMI is gone');
      await client.delete(resources.pods, pod.metadata, { uid: pod.metadata.uid, signal }).catch((error: unknown) => {
        if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT')) throw error;
      });
    }
  }
}

/** Index of the pod informer: key of the VMI that the pod names as its controller. */
const podsByVmiName = 'vmi-name';

export const podIndexes = {
  [podsByVmi]: (pod: Pod) => vmiOwners(pod).map(({ uid }) => uid),
  [podsByVmiName]: (pod: Pod) => vmiOwners(pod).map(({ name }) => `${pod.metadata.namespace}/${name}`),
};

function vmiOwners(pod: Pod): { uid: string; name: string }[] {
  const kind = resources.virtualMachineInstances.kind;
  return (pod.metadata.ownerReferences ?? []).filter((owner) => owner.controller && owner.kind === kind);
}
