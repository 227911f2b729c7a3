import {
  isFinalMigration,
  isWaitingMigration,
  type KubeObject,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../src/api/index.ts';
import { Informer, type KubeClient } from '../src/kube/index.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';

type Vmi = VirtualMachineInstance;
type Migration = VirtualMachineInstanceMigration;

/** A state of an object that a watch has shown. */
export interface Sighting {
  /** Of the store: its versions order the states of all objects. */
  readonly version: number;
  readonly seenMs: number;
  readonly object: { readonly vmi: Vmi } | { readonly migration: Migration };
}

export interface MostAtOnce {
  readonly cluster: number;
  /** From one node; a guest counts as long as its VMI is there. */
  readonly node: number;
}

/** Counts after each state, in the order in which the store took them: two watches have no common order of their own. */
export function mostAtOnce(sightings: readonly Sighting[]): MostAtOnce {
  const vmis = new Map<string, Vmi>();
  const migrations = new Map<string, Migration>();
  const most = { cluster: 0, node: 0 };
  for (const { object } of [...sightings].sort((one, other) => one.version - other.version)) {
    if ('vmi' in object) vmis.set(object.vmi.metadata.name, object.vmi);
    else migrations.set(object.migration.metadata.name, object.migration);
    const moving = [...migrations.values()].filter((each) => !isFinalMigration(each) && !isWaitingMigration(each));
    const sources = moving.flatMap((each) => sourceOf(each, vmis.get(each.spec.vmiName ?? '')) ?? []);
    most.cluster = Math.max(most.cluster, moving.length);
    for (const node of sources) most.node = Math.max(most.node, sources.filter((each) => each === node).length);
  }
  return most;
}

/** Undefined: its guest is not there any more. */
function sourceOf({ metadata }: Migration, vmi: Vmi | undefined): string | undefined {
  const { nodeName, migrationState: state } = vmi?.status ?? {};
  return state?.migrationUid === metadata.uid && state?.sourceNode !== nodeName ? undefined : nodeName;
}

export interface Span {
  readonly beganMs: number;
  readonly endedMs: number;
}

/** How many of these overlap at the most; one that ends when another begins does not. */
export function mostOverlapping(spans: readonly Span[]): number {
  const most = spans.map(({ beganMs }) => spans.filter((each) => each.beganMs <= beganMs && beganMs < each.endedMs));
  return Math.max(0, ...most.map(({ length }) => length));
}

/** All states of VMIs and migrations of a namespace from its start on. */
export class MigrationWatch {
  readonly #informers: readonly Informer<KubeObject>[];
  readonly #vmis: Informer<Vmi>;
  readonly #migrations: Informer<Migration>;
  #sightings: Sighting[] = [];

  constructor(client: KubeClient, namespace: string) {
    this.#vmis = new Informer({ type: resources.virtualMachineInstances, namespace }, { client });
    this.#migrations = new Informer({ type: resources.migrations, namespace }, { client });
    this.#informers = [this.#vmis, this.#migrations] as unknown as Informer<KubeObject>[];
    const seeVmi = (vmi: Vmi) => this.#see(vmi, { vmi });
    const seeMigration = (migration: Migration) => this.#see(migration, { migration });
    this.#vmis.addHandlers({ added: seeVmi, updated: (_old, vmi) => seeVmi(vmi) });
    this.#migrations.addHandlers({ added: seeMigration, updated: (_old, migration) => seeMigration(migration) });
  }

  async start(): Promise<void> {
    for (const informer of this.#informers) await informer.start();
    for (const informer of this.#informers) await informer.waitForSync();
  }

  get vmis(): Vmi[] {
    return this.#vmis.list();
  }

  get migrations(): Migration[] {
    return this.#migrations.list();
  }

  /** Since the start, or since this was called last. A watch that was cut may have missed states: then it throws. */
  take(): readonly Sighting[] {
    for (const { name, health } of this.#informers) {
      if (health.lists !== 1) throw new Error(`${name} had to list ${health.lists} times: limits cannot be counted`);
    }
    const taken = this.#sightings;
    this.#sightings = this.#now();
    return taken;
  }

  async stop(): Promise<void> {
    for (const informer of this.#informers) await informer.stop();
  }

  #see({ metadata }: KubeObject, object: Sighting['object']): void {
    this.#sightings.push({ version: Number(metadata.resourceVersion), seenMs: monotonicMs(), object });
  }

  /** What is there already: a scene begins with it. */
  #now(): Sighting[] {
    const seenMs = monotonicMs();
    const sighting = ({ metadata }: KubeObject, object: Sighting['object']) => ({
      ...{ version: Number(metadata.resourceVersion), seenMs, object },
    });
    return [
      ...this.vmis.map((vmi) => sighting(vmi, { vmi })),
      ...this.migrations.map((migration) => sighting(migration, { migration })),
    ];
  }
}

/** Of each migration that ended, from the first state that says it has begun to the first that says it is over. */
export function spansOf(sightings: readonly Sighting[]): Map<string, Span> {
  const began = new Map<string, number>();
  const spans = new Map<string, Span>();
  for (const { seenMs, object } of sightings) {
    if (!('migration' in object) || isWaitingMigration(object.migration)) continue;
    const { name } = object.migration.metadata;
    const beganMs = began.get(name) ?? seenMs;
    began.set(name, beganMs);
    if (isFinalMigration(object.migration) && !spans.has(name)) spans.set(name, { beganMs, endedMs: seenMs });
  }
  return spans;
}
