import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { type Clock, type Component, errorMessage, type Logger, orEnded } from '../../../base/index.ts';
import { type KeyResult, SingleReconciler } from '../../../reconcile/index.ts';
import type { ClusterSettings, OwnNode } from '../ports.ts';
import { type GroupsInUseOptions, groupsInUse } from './groups-in-use.ts';
import { MediatedSysfs } from './mediated-machine.ts';
import { type MediatedDevice, type MediatedOrder, orders, unwanted } from './mediated-plan.ts';
import { type MediatedSettings, type MediatedWish, mediatedSettings, wishOf } from './mediated-wish.ts';

export interface MediatedDevicesOptions extends GroupsInUseOptions {
  readonly nodeName: string;
  /** The host's `/sys`. */
  readonly sysDir: string;
}

export interface MediatedDevicesDeps {
  readonly settings: Pick<ClusterSettings, 'select' | 'isKnown' | 'origin'>;
  readonly node: OwnNode;
  /** For an event of the node. */
  readonly recordEvent: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const notKnownMs = 30_000;
/** While something is left to do. */
const againMs = 60_000;
/** A driver may come later, and no event says so. */
const rescanMs = 300_000;
const backoff = { baseMs: 1_000, maxMs: 300_000, jitter: 0.1 };
const slowMs = 30_000;
const shownProblems = 10;

/**
 * Divides cards into the mediated devices that `mediatedDevicesConfiguration` asks for on this node, and takes away those that it
 * does not ask for any more, when no process uses them. Offering them to the kubelet is NodeDevices' work.
 */
export class MediatedDevices implements Component {
  readonly name = 'mediated devices';
  readonly #options: MediatedDevicesOptions;
  readonly #deps: MediatedDevicesDeps;
  readonly #machine: MediatedSysfs;
  readonly #reconciler: SingleReconciler;
  readonly #unfinished = new Map<string, string>();
  readonly #refused = new Map<string, Set<string>>();
  #settings: MediatedSettings | undefined;
  #wish: MediatedWish | undefined;
  #reported = new Map<string, string>();

  constructor(options: MediatedDevicesOptions, deps: MediatedDevicesDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#machine = new MediatedSysfs(options);
    const { clock, log } = deps;
    this.#reconciler = new SingleReconciler(
      { name: options.nodeName, backoff, failedMessage: 'mediated devices could not be looked at' },
      { reconcile: (signal) => this.#reconcile(signal), clock, log },
    );
  }

  async start(): Promise<void> {
    const { settings, node } = this.#deps;
    const unselect = settings.select(
      (config) => mediatedSettings(config.node),
      (mediated) => {
        this.#settings = mediated;
        this.#reconciler.wake();
      },
    );
    this.#reconciler.follow(
      unselect,
      node.onChange(() => this.#nodeChanged()),
    );
  }

  /** Devices stay: guests have them. */
  async stop(): Promise<void> {
    await this.#reconciler.stop();
  }

  #nodeChanged(): void {
    if (!isDeepStrictEqual(this.#wishNow(), this.#wish)) this.#reconciler.wake();
  }

  /** Undefined: not known yet. */
  #wishNow(): MediatedWish | undefined {
    const { settings, node } = this.#deps;
    if (!this.#settings || !settings.isKnown) return undefined;
    if (this.#settings.nodes.length > 0 && !node.current) return undefined;
    return wishOf(this.#settings, node.current?.metadata.labels ?? {});
  }

  async #reconcile(signal: AbortSignal): Promise<KeyResult> {
    const wish = this.#wishNow();
    this.#wish = wish;
    if (!wish || !this.#settings) return { kind: 'done', requeueAfterMs: notKnownMs };
    this.#report('MediatedDevicesNotUnderstood', this.#settings.problems);
    if (!this.#settings.isOn) return { kind: 'done' };
    if (!existsSync(this.#options.pluginsDir)) return { kind: 'done', requeueAfterMs: rescanMs };
    const isUnderstood = this.#settings.problems.length === 0;
    // What was kept may be older than devices that are there: an earlier agent, or upstream's, may have made them since.
    const isNewest = this.#deps.settings.origin.from === 'object';
    const inUse = isUnderstood && isNewest ? await this.#takeAway(wish, signal) : [];
    const failures = await this.#make(wish, signal);
    this.#report('MediatedDevicesInUse', inUse);
    this.#report('MediatedDevicesNotCreated', failures);
    if (inUse.length + failures.length > 0 || !isNewest) return { kind: 'done', requeueAfterMs: againMs };
    return wish.types.length > 0 ? { kind: 'done', requeueAfterMs: rescanMs } : { kind: 'done' };
  }

  /** Gives in words what had to stay. */
  async #takeAway(wish: MediatedWish, signal: AbortSignal): Promise<string[]> {
    const devices = unwanted(await this.#machine.read(), wish, this.#options.nodeName);
    const stays: string[] = [];
    const gone: MediatedDevice[] = [];
    for (const device of devices) {
      // Anew for each: the kernel takes its time over one, and takes one that came into use meanwhile away from its guest.
      const used = await groupsInUse(this.#options, this.#deps.clock).catch((error: unknown) => {
        stays.push(`none is removed, as it cannot be known which are in use: ${errorMessage(error)}`);
      });
      if (!used) break;
      const shown = `${device.uuid} of type ${shownType(device.type)} on ${device.parent}`;
      if (device.files.some((file) => used.has(file))) {
        stays.push(`${shown} is not asked for any more, and is in use: it goes when its VM has ended`);
        continue;
      }
      try {
        await this.#write(`removal of ${shown}`, () => this.#machine.remove(device.uuid), signal);
        gone.push(device);
      } catch (error) {
        signal.throwIfAborted();
        stays.push(`${shown} could not be removed: ${errorMessage(error)}`);
      }
    }
    if (gone.length > 0) this.#publish('Normal', 'MediatedDevicesRemoved', `removed ${counted(gone)}`);
    return stays;
  }

  /** Gives in words what could not be made. */
  async #make(wish: MediatedWish, signal: AbortSignal): Promise<string[]> {
    const history = { unfinished: this.#unfinished, refused: this.#refused };
    const failures: string[] = [];
    for (const order of orders(await this.#machine.read(), wish, { ...this.#options, ...history })) {
      const { made, problem } = await this.#fill(order, signal);
      this.#remember(order, made, problem !== undefined);
      const shown = `${made} of ${order.uuids.length} devices of type ${order.type} on ${order.parent}`;
      if (problem !== undefined) failures.push(`${shown} were made: ${problem}`);
      if (made > 0) this.#publish('Normal', 'MediatedDevicesCreated', `made ${shown}`);
    }
    return failures;
  }

  async #fill(
    { parent, type, uuids }: MediatedOrder,
    signal: AbortSignal,
  ): Promise<{ made: number; problem?: string }> {
    let made = 0;
    for (const uuid of uuids) {
      try {
        const what = `making of ${uuid} of type ${type} on ${parent}`;
        await this.#write(what, () => this.#machine.create({ parent, type }, uuid), signal);
        made++;
      } catch (error) {
        signal.throwIfAborted();
        return { made, problem: errorMessage(error) };
      }
    }
    return { made };
  }

  #remember({ parent, type }: MediatedOrder, made: number, hasFailed: boolean): void {
    this.#unfinished.delete(parent);
    if (!hasFailed) this.#refused.delete(parent);
    else if (made > 0) this.#unfinished.set(parent, type);
    else this.#refused.set(parent, new Set(this.#refused.get(parent)).add(type));
  }

  /** One at a time, and never given up while the kernel is at it: only an agent that leaves does not wait. */
  async #write(what: string, write: () => Promise<void>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const cancel = this.#deps.clock.schedule(slowMs, () => {
      this.#deps.log.warn({ what }, 'the kernel takes long over a mediated device');
    });
    try {
      await orEnded(signal, write());
    } finally {
      cancel();
    }
  }

  /** Each set of problems once, until it is another one. */
  #report(reason: string, problems: readonly string[]): void {
    const more = problems.length > shownProblems ? `; and ${problems.length - shownProblems} more` : '';
    const message = `${problems.slice(0, shownProblems).join('; ')}${more}`;
    if (message === (this.#reported.get(reason) ?? '')) return;
    this.#reported.set(reason, message);
    if (message !== '') this.#publish('Warning', reason, message);
  }

  #publish(type: 'Normal' | 'Warning', reason: string, message: string): void {
    const { log, recordEvent } = this.#deps;
    log[type === 'Warning' ? 'warn' : 'info']({ reason: message }, `mediated devices: ${reason}`);
    recordEvent(type, reason, message);
  }
}

function shownType({ id, name }: MediatedDevice['type']): string {
  return name === undefined ? id : `${id} (${name})`;
}

function counted(devices: readonly MediatedDevice[]): string {
  const parents = [...new Set(devices.map(({ parent }) => parent))];
  return `${devices.length} mediated devices on ${parents.join(', ')}`;
}
