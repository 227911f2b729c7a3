import { isDeepStrictEqual } from 'node:util';
import { type LabelSelector, selects } from '../../../api/index.ts';
import { type Clock, type Component, type Logger, Seldom } from '../../../base/index.ts';
import { type KeyResult, SingleReconciler } from '../../../reconcile/index.ts';
import type { ClusterSettings, Node, OwnNode } from '../ports.ts';
import type { KsmFiles } from './ksm-files.ts';
import { type KsmParameters, planKsm, readKsmParameters } from './ksm-plan.ts';

export interface KsmPatch {
  readonly metadata: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface KsmServiceDeps {
  readonly settings: Pick<ClusterSettings, 'select' | 'isKnown'>;
  readonly node: OwnNode;
  readonly files: Pick<KsmFiles, 'isRunning' | 'state' | 'apply'>;
  /** Merge patch. */
  readonly patchNode: (name: string, patch: KsmPatch, signal: AbortSignal) => Promise<unknown>;
  readonly clock: Clock;
  readonly log: Logger;
}

const enabledKey = 'kubevirt.io/ksm-enabled';
const managedKey = 'kubevirt.io/ksm-handler-managed';
const periodMs = 180_000;
const notKnownMs = 10_000;
/** A change of our marks by others is answered after this, and ever more seldom when it is done again and again. */
const calmMs = 2_000;
const seldomestMs = 3_600_000;
/** After so long without a patch others have ended that. */
const forgetAfterMs = 600_000;
const backoff = { baseMs: 2_000, maxMs: 180_000, jitter: 0.2 };

/** What decides, of the configuration and of the node; the rest of a node is others' affairs. */
interface Wish {
  readonly isEligible: boolean;
  readonly parameters: KsmParameters;
}

/**
 * Lets the kernel share equal memory pages on the nodes that the configuration selects, as hard as memory is short, with the
 * marks of pkg/virt-handler/ksm/ksm.go. What an administrator has switched on by hand stays on. The node is patched only where it
 * says something else.
 */
export class KsmService implements Component {
  readonly name = 'KSM';
  readonly #nodeName: string;
  readonly #deps: KsmServiceDeps;
  readonly #reconciler: SingleReconciler;
  #nodes: LabelSelector | undefined;
  #seen: unknown;
  #tuned: { readonly wish: Wish; readonly atMs: number; readonly isRunning: boolean } | undefined;
  readonly #remarks = new Seldom({ maxMs: seldomestMs });
  /** A memory of what others undo, not of what the watch has still to show: the same marks again wait longer each time. */
  #marked: { readonly marks: Marks; readonly uid: string | undefined; readonly atMs: number } | undefined;

  constructor({ nodeName }: { readonly nodeName: string }, deps: KsmServiceDeps) {
    this.#nodeName = nodeName;
    this.#deps = deps;
    const { clock, log } = deps;
    this.#reconciler = new SingleReconciler(
      { name: nodeName, backoff, failedMessage: 'KSM could not be brought about' },
      { reconcile: (signal) => this.#reconcile(signal), clock, log },
    );
  }

  async start(): Promise<void> {
    const { settings, node } = this.#deps;
    const select = settings.select(
      (config) => config.node.ksmNodes,
      (nodes) => {
        this.#nodes = nodes;
        this.#reconciler.wake();
      },
    );
    this.#reconciler.follow(
      select,
      node.onChange(() => this.#nodeChanged()),
    );
  }

  async stop(): Promise<void> {
    await this.#reconciler.stop();
  }

  #nodeChanged(): void {
    const { current } = this.#deps.node;
    if (!current) return;
    const seen = { wish: this.#wishOf(current), marks: marksOf(current), uid: current.metadata.uid };
    if (isDeepStrictEqual(seen, this.#seen)) return;
    this.#seen = seen;
    this.#reconciler.wakeAfter(calmMs);
  }

  #wishOf({ metadata: { labels = {}, annotations = {} } }: Node): Wish {
    const isEligible = this.#nodes !== undefined && selects(this.#nodes, labels);
    return { isEligible, parameters: readKsmParameters(annotations) };
  }

  async #reconcile(signal: AbortSignal): Promise<KeyResult> {
    const { settings, node, files } = this.#deps;
    const { current } = node;
    // Its watch calls back.
    if (!current) return { kind: 'done' };
    // What is not known yet takes nothing back.
    if (!settings.isKnown) return { kind: 'done', requeueAfterMs: notKnownMs };
    const wish = this.#wishOf(current);
    const isRunning = await files.isRunning();
    const isEligible = wish.isEligible && isRunning !== undefined;
    const managed = isEligible
      ? await this.#tune({ ...wish, isEligible })
      : await this.#leaveAlone(isRunning === true, marksOf(current).managed === 'true');
    const remarkMs = await this.#mark(current, { enabled: String(isEligible), managed: String(managed) }, signal);
    const againInMs = Math.min(remarkMs, isEligible ? this.#untilNextMs() : Number.POSITIVE_INFINITY);
    return Number.isFinite(againInMs) ? { kind: 'done', requeueAfterMs: againInMs } : { kind: 'done' };
  }

  /** One step per period, or when something else is wished; gives whether pages are shared now. */
  async #tune(wish: Wish): Promise<boolean> {
    const { clock, files, log } = this.#deps;
    if (this.#tuned && isDeepStrictEqual(this.#tuned.wish, wish) && this.#untilNextMs() > 0)
      return this.#tuned.isRunning;
    const state = await files.state();
    const plan = planKsm(state, wish.parameters);
    await files.apply(plan);
    if (plan.run !== state.isRunning) log.info({ ...plan }, 'sharing of equal memory pages switched');
    this.#tuned = { wish, atMs: clock.monotonicMs(), isRunning: plan.run };
    return plan.run;
  }

  async #leaveAlone(isRunning: boolean, wasOurs: boolean): Promise<false> {
    this.#tuned = undefined;
    if (!isRunning || !wasOurs) return false;
    await this.#deps.files.apply({ run: false });
    this.#deps.log.info({ run: false }, 'sharing of equal memory pages switched');
    return false;
  }

  #untilNextMs(): number {
    return this.#tuned ? Math.max(0, this.#tuned.atMs + periodMs - this.#deps.clock.monotonicMs()) : 0;
  }

  /** Gives how long the same marks must wait that the node does not have, though they were written: it was undone. */
  async #mark(node: Node, wanted: Marks, signal: AbortSignal): Promise<number> {
    const { enabled, managed } = marksOf(node);
    const patch: KsmPatch = {
      metadata: {
        ...(enabled !== wanted.enabled && { labels: { [enabledKey]: wanted.enabled ?? '' } }),
        ...(managed !== wanted.managed && { annotations: { [managedKey]: wanted.managed ?? '' } }),
      },
    };
    if (Object.keys(patch.metadata).length === 0) return Number.POSITIVE_INFINITY;
    const { uid } = node.metadata;
    const sinceMs = this.#deps.clock.monotonicMs() - (this.#marked?.atMs ?? Number.NEGATIVE_INFINITY);
    const isAgain = this.#marked?.uid === uid && isDeepStrictEqual(this.#marked?.marks, wanted);
    const leftMs = isAgain ? this.#remarks.delayMs(calmMs) - sinceMs : 0;
    if (leftMs > 0) return leftMs;
    await this.#deps.patchNode(this.#nodeName, patch, signal);
    if (isAgain && sinceMs < this.#remarks.delayMs(calmMs) + forgetAfterMs) this.#remarks.count();
    else this.#remarks.forget();
    this.#marked = { marks: wanted, uid, atMs: this.#deps.clock.monotonicMs() };
    return Number.POSITIVE_INFINITY;
  }
}

interface Marks {
  readonly enabled: string | undefined;
  readonly managed: string | undefined;
}

function marksOf({ metadata: { labels, annotations } }: Node): Marks {
  return { enabled: labels?.[enabledKey], managed: annotations?.[managedKey] };
}
