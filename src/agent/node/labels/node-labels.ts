import { type Clock, type Component, type Logger, shownNames, systemClock } from '../../../base/index.ts';
import { RateLimiter } from '../../../kube/index.ts';
import { type KeyResult, ReadYourWrites, SingleReconciler } from '../../../reconcile/index.ts';
import { ownNodeByName } from '../own-node.ts';
import type { ClusterSettings, Node, OwnNode } from '../ports.ts';
import type { CapabilityFiles } from './capability-files.ts';
import { isHostModelObsolete, obsoleteHostModel } from './cpu-families.ts';
import { DroppedLabels } from './dropped.ts';
import { explainLabels, type LabelReport } from './explain.ts';
import { changesOf, type LabelChanges, type LabelPlan, planLabels } from './plan.ts';
import { type LabelSettings, labelSettings } from './settings.ts';

export interface NodeLabelsOptions {
  readonly nodeName: string;
  /** Facts without an event of their own are looked at again after 1 to 2.2 times this; upstream has 3 minutes. */
  readonly periodMs?: number;
}

export interface NodeLabelsDeps {
  readonly node: OwnNode;
  readonly files: Pick<CapabilityFiles, 'facts' | 'read' | 'onChange'>;
  readonly settings: Pick<ClusterSettings, 'select' | 'isKnown'>;
  /** Merge patch of the node; resolves with the node as it is then. */
  readonly patchNode: (name: string, patch: LabelPatch, signal: AbortSignal) => Promise<Node>;
  readonly recordEvent: (node: Node, event: { type: 'Warning'; reason: string; message: string }) => void;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export interface LabelPatch {
  readonly metadata: { readonly labels: LabelChanges };
}

/** For `/state` and metrics. */
export interface NodeLabelsState {
  /** Monotonic time at which the node last had all the labels it should have. */
  readonly lastSuccessMs: number | undefined;
  readonly patches: number;
  /** Of the last try; undefined: it succeeded. */
  readonly problem: string | undefined;
}

/** With it the node's labels stay as they are, whatever its value. */
const skipNode = 'node-labeller.kubevirt.io/skip-node';
const defaultPeriodMs = 180_000;
const backoff = { baseMs: 500, maxMs: 300_000, jitter: 0.2 };
/** Another controller that wants other values must not make the two write against each other without end. */
const repairs = { qps: 1 / 60, burst: 10 };
const fightPauseMs = 60_000;
const soonMs = 100;
/** No event says that the configuration is known and is the default. */
const notKnownMs = 10_000;

/**
 * Keeps this node's labels as they follow from libvirt's files and from the cluster's configuration: one merge
 * patch of what differs, at once when a file, the configuration or the labels themselves change, and no request otherwise.
 */
export class NodeLabels implements Component {
  readonly name = 'node labels';
  readonly #options: NodeLabelsOptions;
  readonly #deps: NodeLabelsDeps;
  readonly #clock: Clock;
  readonly #nodes: ReadYourWrites<Node>;
  readonly #reconciler: SingleReconciler;
  readonly #repairs: RateLimiter;
  readonly #random: () => number;
  readonly #dropped: DroppedLabels;
  #settings: LabelSettings | undefined;
  #plan: LabelPlan | undefined;
  #cancelPeriod: (() => void) | undefined;
  /** Obsolete host model that was reported; undefined: nothing has been compared yet. */
  #reportedModel: string | undefined;
  #lastSuccessMs: number | undefined;
  #patches = 0;
  /** Why labels are not on the node although the API server takes them; undefined: they are, as far as is known. */
  #obstacle: string | undefined;

  constructor(options: NodeLabelsOptions, deps: NodeLabelsDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#random = deps.random ?? Math.random;
    this.#repairs = new RateLimiter(repairs, this.#clock);
    this.#dropped = new DroppedLabels({ clock: this.#clock, random: this.#random });
    this.#nodes = new ReadYourWrites(ownNodeByName(options.nodeName, deps.node));
    this.#reconciler = new SingleReconciler(
      { name: options.nodeName, backoff, failedMessage: 'labels of the node could not be written' },
      { reconcile: (signal) => this.#run(signal), clock: this.#clock, log: deps.log, random: this.#random },
    );
  }

  get state(): NodeLabelsState {
    const problem = this.#reconciler.problem ?? this.#obstacle;
    return { lastSuccessMs: this.#lastSuccessMs, patches: this.#patches, problem };
  }

  /** The files have been read before. */
  async start(): Promise<void> {
    const { files, settings } = this.#deps;
    const replan = () => {
      this.#plan = undefined;
      this.#reconciler.wake();
    };
    this.#reconciler.follow(
      settings.select(labelSettings, (value) => {
        this.#settings = value;
        replan();
      }),
      files.onChange(replan),
      this.#nodes.onChange(() => this.#nodeChanged()),
    );
    this.#reconciler.wake();
    this.#schedulePeriod();
  }

  async stop(): Promise<void> {
    this.#cancelPeriod?.();
    await this.#reconciler.stop();
  }

  /** Why each label of ours is on the node, or not. */
  explain(): LabelReport {
    const node = this.#node();
    return explainLabels(this.#currentPlan(), node?.metadata.labels ?? {}, {
      node: node ? (isSkipped(node) ? 'skipped' : 'present') : 'absent',
      problem: this.state.problem,
    });
  }

  /** Most changes of a node are others' affairs, heartbeats among them: no run for them, and no end of a back-off. */
  #nodeChanged(): void {
    const node = this.#node();
    if (!node || isSkipped(node)) return;
    const changes = changesOf(this.#currentPlan(), labelsOf(node));
    if (!this.#reconciler.isFailing && changes && this.#dropped.due(changes, node)) this.#reconciler.wake();
  }

  #schedulePeriod(): void {
    const periodMs = (this.#options.periodMs ?? defaultPeriodMs) * (1 + 1.2 * this.#random());
    this.#cancelPeriod = this.#clock.schedule(periodMs, () => {
      void this.#deps.files.read();
      this.#schedulePeriod();
    });
  }

  #currentPlan(): LabelPlan {
    const { files, settings } = this.#deps;
    if (!settings.isKnown) return planLabels(files.facts(), undefined);
    this.#plan ??= planLabels(files.facts(), this.#settings);
    return this.#plan;
  }

  #node(): Node | undefined {
    return this.#nodes.get(this.#options.nodeName);
  }

  async #run(signal: AbortSignal): Promise<KeyResult> {
    const isKnown = this.#deps.settings.isKnown;
    const result = await this.#reconcile(signal);
    if (isKnown || result.kind === 'retry') return result;
    return { kind: 'done', requeueAfterMs: Math.min(notKnownMs, result.requeueAfterMs ?? notKnownMs) };
  }

  async #reconcile(signal: AbortSignal): Promise<KeyResult> {
    const node = this.#node();
    // Its watch calls back when it is there.
    if (!node || isSkipped(node)) return { kind: 'done' };
    const plan = this.#currentPlan();
    const changes = changesOf(plan, labelsOf(node));
    if (!changes) {
      this.#dropped.forget();
      this.#succeeded();
      this.#reportObsolete(node, false);
      return { kind: 'done' };
    }
    const sent = this.#dropped.due(changes, node);
    if (!sent) return this.#untilDropped();
    // What is tried again has a back-off of its own.
    const isRetry = this.#reconciler.isFailing || this.#dropped.nextInMs === 0;
    if (!isRetry && !this.#repairs.tryTake()) return this.#fought(sent);
    return this.#write(node, plan, sent, signal);
  }

  async #write(node: Node, plan: LabelPlan, sent: LabelChanges, signal: AbortSignal): Promise<KeyResult> {
    const { log } = this.#deps;
    const written = await this.#patch(node, sent, signal);
    const missing = changesOf(plan, labelsOf(written));
    const taken = Object.entries(sent).filter(([key, value]) => missing?.[key] !== value);
    if (taken.length > 0) log.info(summary(Object.fromEntries(taken)), 'labels of the node written');
    this.#reportObsolete(written, sent[obsoleteHostModel] === 'true');
    if (!missing) {
      this.#dropped.forget();
      this.#succeeded();
      return { kind: 'done' };
    }
    this.#dropped.note(sent, missing, written);
    this.#reportDropped(written);
    // Others changed labels meanwhile.
    if (this.#dropped.due(missing, written)) return { kind: 'done', requeueAfterMs: soonMs };
    return this.#untilDropped();
  }

  #patch(node: Node, labels: LabelChanges, signal: AbortSignal): Promise<Node> {
    const { nodeName } = this.#options;
    return this.#nodes.whileWriting(nodeName, async () => {
      const written = await this.#deps.patchNode(nodeName, { metadata: { labels } }, signal);
      this.#nodes.patched(nodeName, node, written);
      this.#patches++;
      return written;
    });
  }

  /** Nothing is to be done but for what is dropped, whose time has not come. */
  #untilDropped(): KeyResult {
    const { keys, nextInMs = 0 } = this.#dropped;
    const problem = `the API server takes the patch, but drops ${shownNames(keys, 3)}: a webhook or a policy of this cluster takes labels out`;
    this.#obstacle = `${problem}; tried again at least once per hour`;
    return { kind: 'done', requeueAfterMs: Math.max(soonMs, nextInMs) };
  }

  #reportDropped(node: Node): void {
    const unreported = this.#dropped.takeUnreported();
    if (unreported.length === 0) return;
    this.#deps.log.warn({ labels: shownNames(unreported, 3) }, 'the API server drops labels of the node');
    this.#deps.recordEvent(node, {
      type: 'Warning',
      reason: 'NodeLabelsDropped',
      message:
        `the API server takes these labels and drops them again: ${shownNames(unreported, 3)}. VMs that need them are not placed here. ` +
        'Let the webhook or policy that does so leave labels of kubevirt.io alone',
    });
  }

  #fought(changes: LabelChanges): KeyResult {
    const problem = `another client keeps changing labels of this agent: ${keysOf(changes)}`;
    if (this.#obstacle !== problem)
      this.#deps.log.warn(summary(changes), 'another client keeps changing labels of this agent');
    this.#obstacle = problem;
    return { kind: 'done', requeueAfterMs: fightPauseMs };
  }

  #succeeded(): void {
    this.#lastSuccessMs = this.#clock.monotonicMs();
    this.#obstacle = undefined;
  }

  /** Once per change: an agent that starts where the label is says nothing, nor does one that puts it back. */
  #reportObsolete(node: Node, isNew: boolean): void {
    const { domain } = this.#deps.files.facts();
    if (domain.kind === 'unknown' || !this.#settings || !this.#deps.settings.isKnown) return;
    const model = isHostModelObsolete(domain.value, this.#settings) ? (domain.value.hostModel?.name ?? '') : '';
    const reported = this.#reportedModel;
    this.#reportedModel = model;
    if (model === '' || model === reported || (reported === undefined && !isNew)) return;
    this.#deps.recordEvent(node, {
      type: 'Warning',
      reason: 'HostModelIsObsolete',
      message:
        `CPU model ${model} of this machine is obsolete: guests with cpu model host-model are not to be placed here. ` +
        'Take it out of obsoleteCPUModels of the KubeVirt object, or give those guests another model',
    });
  }
}

function isSkipped(node: Node): boolean {
  return node.metadata.annotations?.[skipNode] !== undefined;
}

function labelsOf(node: Node): Readonly<Record<string, string>> {
  return node.metadata.labels ?? {};
}

function keysOf(changes: LabelChanges): string {
  return shownNames(Object.keys(changes), 3);
}

function summary(changes: LabelChanges) {
  const values = Object.values(changes);
  const removed = values.filter((value) => value === null).length;
  return { set: values.length - removed, removed, labels: keysOf(changes) };
}
