import {
  annotations,
  type ExplainFacts,
  findCondition,
  isFinalMigration,
  type Key,
  keyOf,
  labels,
  migrationEnd,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  retriedBy,
  retryCondition,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { EventRecorder, Informer, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import { claimsByMigration, keptStateIndexes } from '../kept-state/index.ts';
import {
  type AttachmentPods,
  attachmentPodName,
  type LauncherPods,
  renderAttachmentPod,
  renderReceivingPod,
  renderTargetPod,
} from '../pod/index.ts';
import type { NamespaceQuotas } from '../quota/index.ts';
import { controllerBackoff, ownWriteEchoMs, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { announcedState, troubleOf } from './decentralised-facts.ts';
import { decideMigration, type Renderers } from './decide.ts';
import { executors, staleCode } from './execute.ts';
import { ownState, phaseOf, targetPod } from './facts.ts';
import type { MigrationObservation, MigrationRetries, PresentMigration } from './observation.ts';
import { type ObserveDeps, observeMigration, vmiKeyOf } from './observe.ts';
import type { MigrationDecision } from './plan.ts';
import { nextInLine, underWay } from './queue.ts';
import { runningBeside } from './siblings.ts';
import type { ExecuteContext } from './steps.ts';
import { writeMigration } from './write.ts';

export interface MigrationControllerOptions {
  /** Migrations worked on side by side. */
  readonly workers: number;
  /** How often one is tried again that a loss has ended before its guest had moved. */
  readonly retries: MigrationRetries;
}

interface Reservation {
  readonly node: string;
  readonly vmi: Key;
  /** Monotonic: when a pod of which no answer came would have been seen. */
  readonly untilMs: number;
}

export interface MigrationControllerDeps extends Omit<ObserveDeps, 'client' | 'claims' | 'lastRuleOf' | 'retries'> {
  readonly client: KubeClient;
  /** With `keptStateIndexes`. */
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly pods: Informer<Pod>;
  /** The one of the VMI controller: what one of them makes the other believes. */
  readonly launchers: LauncherPods;
  readonly attachmentPods: AttachmentPods;
  readonly quotas: NamespaceQuotas;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly config: () => ControllerConfig;
  readonly observer?: ReconcileObserver | undefined;
}

type Parts = ReconcileParts<MigrationObservation, MigrationDecision, ExplainFacts>;
/** Moves VMIs between nodes, as far as that is no agent's work. Level-triggered: all it knows is in the API. */
export class MigrationController implements Component {
  readonly name = 'migration-controller';
  readonly reconciler: Reconciler<MigrationObservation, MigrationDecision, ExplainFacts>;
  readonly #deps: MigrationControllerDeps;
  readonly #retries: MigrationRetries;
  /** Of migrations whose target pod is being created, or was asked for without an answer, by key. */
  readonly #reserved = new Map<Key, Reservation>();
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers, retries }: MigrationControllerOptions, deps: MigrationControllerDeps) {
    this.#retries = retries;
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { migrations, vmis, pods, claims } = this.#deps;
    const wakeOfClaim = (claim: PersistentVolumeClaim) => {
      for (const key of keptStateIndexes[claimsByMigration](claim)) this.reconciler.wake(key);
    };
    const wakeOfPod = (pod: Pod) => this.#wakeOfPod(pod);
    this.#subscriptions.push(
      migrations.onChange((key) => this.#changed(key)),
      vmis.onChange((key) => this.#wakeOfVmi(key)),
      pods.addHandlers({ added: wakeOfPod, updated: (_, pod) => wakeOfPod(pod), deleted: wakeOfPod }),
      claims.addHandlers({ added: wakeOfClaim, updated: wakeOfClaim, deleted: wakeOfClaim }),
    );
    this.wakeAll();
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** The configuration has changed. */
  wakeAll(): void {
    for (const key of this.#deps.migrations.keys()) this.reconciler.wake(key);
  }

  #changed(key: Key): void {
    this.reconciler.wake(key);
    const migration = this.#deps.migrations.get(key);
    if (!migration || isFinalMigration(migration)) this.#wakeNext();
  }

  /** There may be room now. */
  #wakeNext(): void {
    const { clock, config } = this.#deps;
    for (const next of nextInLine(this.#inQueue(), config().migrations, clock.now())) this.reconciler.wake(keyOf(next));
  }

  #inQueue(): MigrationControllerDeps & Pick<ObserveDeps, 'lastRuleOf' | 'retries'> {
    return {
      ...this.#deps,
      retries: this.#retries,
      lastRuleOf: (key, uid) => this.reconciler.decisions.runOf(key, uid),
    };
  }

  #wakeOfVmi(vmi: Key): void {
    for (const key of this.#deps.migrations.keys()) {
      const migration = this.#deps.migrations.get(key);
      if (migration && vmiKeyOf(migration) === vmi) this.reconciler.wake(key);
    }
  }

  #wakeOfPod({ metadata }: Pod): void {
    const job = metadata.annotations?.[annotations.migrationJobName];
    if (job !== undefined) this.reconciler.wake(`${metadata.namespace}/${job}`);
    const owner = metadata.ownerReferences?.find(({ controller }) => controller);
    if (owner?.kind === resources.virtualMachineInstances.kind) this.#wakeOfVmi(`${metadata.namespace}/${owner.name}`);
  }

  #parts(): Parts {
    const deps = this.#deps;
    const onChange = 'when the migration, its VMI, one of their pods or another migration changes';
    const renderers = renderersOf(deps);
    const facts = factsParts(seenOf, { field: 'migration', object: 'the migration', onChange });
    return {
      ...facts,
      isSynced: () => deps.migrations.synced && deps.vmis.synced,
      observe: (key, signal) => observeMigration(key, this.#inQueue(), signal),
      decide: (observation) => decideMigration(observation, renderers),
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report, signal) => writeMigration(attempt, report, deps, signal),
      versionOf: (seen) => (seen.kind === 'present' ? seen.migration.metadata.resourceVersion : undefined),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (observation, event) =>
        recordEventOn(deps.events, observation.kind === 'present' ? observation.migration : undefined, event),
      crashLoop: { ...facts.crashLoop, isOvertaken: ({ code }) => code === staleCode },
    };
  }

  async #execute(observation: MigrationObservation, { steps }: MigrationDecision, signal: AbortSignal) {
    if (observation.kind !== 'present') return [];
    const { client, launchers, attachmentPods, quotas, ownPods, vmis, migrations, events, clock } = this.#deps;
    const noteOnVmi = (vmi: VirtualMachineInstance, event: Parameters<typeof recordEventOn>[2]) =>
      void recordEventOn(events, vmi, event);
    const reserve = () => this.#reserve(observation);
    const shared = { client, launchers, attachmentPods, quotas, ownPods, vmis, migrations };
    const context = { ...shared, observation, reserve, noteOnVmi, signal };
    return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
  }

  /**
   * Between what was observed and the creation others may have begun: limits are counted again, and at once. A VMI has one target at a time.
   */
  #reserve({ key, migration, vmi, config: { migrations } }: PresentMigration): ReturnType<ExecuteContext['reserve']> {
    const node = vmi?.status?.nodeName ?? '';
    const { cluster, outbound, ofVmi } = runningBeside(migration, vmi, this.#deps);
    const others = this.#reservedBeside(key);
    const own = vmiKeyOf(migration);
    const sameNode = others.filter((each) => each.node === node).length;
    if (ofVmi > 0 || others.some((each) => each.vmi === own)) return undefined;
    const isNodeFull = migrationEnd(migration) !== 'target' && outbound + sameNode >= migrations.perNode;
    if (cluster + others.length >= migrations.perCluster || isNodeFull) return undefined;
    const place = { node, vmi: own, untilMs: Number.POSITIVE_INFINITY };
    this.#reserved.set(key, place);
    return (isUnclear) => {
      if (isUnclear) this.#reserved.set(key, { ...place, untilMs: this.#deps.clock.monotonicMs() + ownWriteEchoMs });
      else this.#reserved.delete(key);
    };
  }

  /** Without migrations that are over, and those whose pod is known by now or was never made. */
  #reservedBeside(key: Key) {
    const { migrations, clock } = this.#deps;
    const known = new Set(underWay(this.#deps).map(keyOf));
    for (const [each, { untilMs }] of this.#reserved) {
      const migration = migrations.get(each);
      const isOver = !migration || isFinalMigration(migration);
      if (isOver || known.has(each) || clock.monotonicMs() >= untilMs) this.#reserved.delete(each);
    }
    return [...this.#reserved].filter(([each]) => each !== key).map(([, each]) => each);
  }
}

function renderersOf({ launchers, attachmentPods: { salt } }: MigrationControllerDeps): Renderers {
  return {
    target: ({ migration, uid, nodeLabels, config, claims, keptState }, vmi, sourcePod) => {
      const { addedNodeSelector = {} } = migration.spec;
      const podName = launchers.targetName(vmi, uid);
      const job = { name: migration.metadata.name, uid, addedNodeSelector };
      const target = { podName, migration: job, claims, stateClaim: keptState.target?.metadata.name };
      if (sourcePod) return renderTargetPod(vmi, config, { ...target, sourcePod, nodeLabels });
      return renderReceivingPod(vmi, config, target, vmi.status?.migrationState?.sourceState ?? {});
    },
    attachment: ({ migration, uid, plugged, config }, vmi, target) => {
      const others = plugged.attachments.map(({ pod }) => pod);
      const name = attachmentPodName(salt, target, plugged.claims, others);
      const pod = renderAttachmentPod(name, vmi, target, plugged.claims, config);
      const own = { ...pod.metadata.labels, [labels.migrationJobUid]: uid };
      const metadata = {
        ...pod.metadata,
        labels: own,
        annotations: { [annotations.migrationJobName]: migration.metadata.name },
      };
      return { ...pod, metadata };
    },
  };
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: MigrationObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { migration, vmi, target, rival, running, backoffMs } = observation;
  const pod = targetPod(observation);
  const state = ownState(observation);
  const retried = retriedBy(migration);
  const retry = findCondition(migration.status?.conditions, retryCondition);
  return {
    phase: phaseOf(observation) || 'none',
    ...otherHalf(observation),
    ...(migration.metadata.deletionTimestamp && { deletion: 'asked for' }),
    vmi: vmi
      ? `${vmi.metadata.name}: ${vmi.status?.phase ?? 'new'} on ${vmi.status?.nodeName ?? 'no node yet'}`
      : 'none',
    target: pod
      ? `${pod.metadata.name}: ${pod.status?.phase ?? 'new'} on ${pod.spec.nodeName ?? 'no node yet'}`
      : target.kind,
    ...(state && { agents: agentsStage(state) }),
    ...(rival && { other: rival.name }),
    ...(retried !== undefined && { triesAgain: retried }),
    ...(retry?.message !== undefined && { retry: retry.message }),
    ...(running.cluster > 0 && { running: `${running.cluster}, ${running.outbound} of them from this node` }),
    ...(backoffMs > 0 && { backOff: 'yes' }),
  };
}

/** Of a migration between two VMI objects: which half this is, and how far the other one is known. */
function otherHalf(observation: PresentMigration): ExplainFacts {
  const end = migrationEnd(observation.migration);
  if (!end) return {};
  const { sourceState, targetState } = announcedState(observation) ?? {};
  const other = end === 'source' ? targetState : sourceState;
  const where = other?.node ? `pod ${other.pod} on ${other.node}` : undefined;
  const half = observation.migration.spec.sendTo ?? observation.migration.spec.receive;
  const trouble = troubleOf(observation.vmi);
  return {
    half: `${end} of ${half?.migrationID}`,
    otherHalf: where ?? (other?.migrationUID ? 'known' : 'not known yet'),
    ...(trouble && { synchronization: trouble.message }),
  };
}

function agentsStage(state: NonNullable<ReturnType<typeof ownState>>): string {
  if (state.failed) return 'failed';
  if (state.completed) return 'done';
  if (state.startTimestamp) return state.abortRequested ? 'to be aborted' : 'moving';
  return state.targetNodeAddress ? 'target ready' : 'preparing';
}
