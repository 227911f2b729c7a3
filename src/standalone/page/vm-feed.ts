import {
  type Key,
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { type Component, Listeners, type Logger } from '../../base/index.ts';
import { Informer, type KubeClient } from '../../kube/index.ts';
import { type NodeRow, nodeRow, type VmFeed, type VmRow, vmRow } from '../../web/index.ts';

const backoff = { baseMs: 200, maxMs: 5_000 };
const ofVmi = 'vmi';
/** Failures in a row after which the page reports them. */
const reportedAfter = 3;
/** Small questions without an answer, in a row. */
const unansweredAfter = 2;

export interface VmFeedOptions {
  /** How often it is looked whether something is wrong, while somebody looks at the list. Default 2 s. */
  readonly checkMs?: number;
  /** For the answer to one small question. Default 3 s: a loaded machine takes one. */
  readonly answerMs?: number;
}

/** The list of the page: VirtualMachines, their instances and moves, joined by name, and the nodes, as the API has them now. */
export class KubeVmFeed implements VmFeed, Component {
  readonly name = 'vm feed';
  readonly #vms: Informer<VirtualMachine>;
  readonly #vmis: Informer<VirtualMachineInstance>;
  readonly #migrations: Informer<VirtualMachineInstanceMigration>;
  readonly #nodes: Informer<KubeObject>;
  readonly #listeners = new Listeners();
  readonly #client: KubeClient;
  readonly #options: Required<VmFeedOptions>;
  readonly #ending = new AbortController();
  #isAsking = false;
  #unanswered = 0;
  #reported = '';
  #checking: NodeJS.Timeout | undefined;

  constructor(deps: { readonly client: KubeClient; readonly log: Logger }, options: VmFeedOptions = {}) {
    this.#options = { checkMs: 2_000, answerMs: 3_000, ...options };
    this.#vms = new Informer<VirtualMachine>({ type: resources.virtualMachines, backoff }, deps);
    this.#vmis = new Informer<VirtualMachineInstance>({ type: resources.virtualMachineInstances, backoff }, deps);
    this.#migrations = new Informer<VirtualMachineInstanceMigration>(
      {
        ...{ type: resources.migrations, backoff },
        indexes: { [ofVmi]: ({ metadata, spec }) => [`${metadata.namespace}/${spec?.vmiName}`] },
      },
      deps,
    );
    this.#nodes = new Informer<KubeObject>({ type: resources.nodes, backoff }, deps);
    this.#client = deps.client;
    const publish = () => this.#publish();
    const each = { added: publish, updated: publish, deleted: publish };
    for (const informer of [this.#vms, this.#vmis, this.#migrations] as const) informer.addHandlers(each);
    // A beat changes nothing that is shown, as a rule.
    const look = () => this.#publishIfNew();
    this.#nodes.addHandlers({ added: look, updated: look, deleted: look });
  }

  /** Does not wait for the first list: the page is of use, and says why, while the API is away. */
  async start(): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.start()));
  }

  async stop(): Promise<void> {
    this.#rest();
    this.#ending.abort(new Error('stopped'));
    await Promise.all(this.#informers.map((informer) => informer.stop()));
  }

  rows(): readonly VmRow[] {
    const keys = new Set<Key>([...this.#vms.keys(), ...this.#vmis.keys()]);
    const movesOf = (key: Key) => this.#migrations.byIndex(ofVmi, key);
    return [...keys].sort().flatMap((key) => vmRow(this.#vms.get(key), this.#vmis.get(key), movesOf(key)) ?? []);
  }

  nodes(): readonly NodeRow[] {
    const now = new Date();
    return this.#nodes
      .list()
      .map((node) => nodeRow(node, now))
      .sort((one, other) => one.name.localeCompare(other.name, 'en', { numeric: true }));
  }

  onChange(listener: () => void): () => void {
    const end = this.#listeners.add(listener);
    this.#check();
    return () => {
      end();
      if (this.#listeners.size === 0) this.#rest();
    };
  }

  problem(): string | undefined {
    // One that watches again has read the list anew; its failures are only forgotten with the next event.
    const failing = this.#informers.find(({ health }) => !health.isConnected && health.failures >= reportedAfter);
    if (failing) return `the Kubernetes API does not answer: ${failing.health.lastError ?? 'no reason'}`;
    if (this.#unanswered >= unansweredAfter)
      return 'the Kubernetes API takes requests and does not answer: it hangs, or the machine is overloaded';
    return this.#informers.every(({ hasSynced }) => hasSynced) ? undefined : 'the list is being read';
  }

  get #informers() {
    return [this.#vms, this.#vmis, this.#migrations, this.#nodes] as const;
  }

  /** While somebody looks: a question wakes this program and the server, which sleep else. */
  #check(): void {
    if (this.#checking !== undefined || this.#ending.signal.aborted) return;
    this.#reported = this.#beside();
    void this.#ask();
    this.#checking = setInterval(() => {
      void this.#ask();
      this.#publishIfNew();
    }, this.#options.checkMs);
  }

  #rest(): void {
    clearInterval(this.#checking);
    this.#checking = undefined;
    this.#unanswered = 0;
  }

  /** A server that hangs ends no watch: nothing else would tell. One that refuses answers, too. */
  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const late = AbortSignal.timeout(this.#options.answerMs);
    const signal = AbortSignal.any([late, this.#ending.signal]);
    try {
      await this.#client.plain({ method: 'GET', path: '/readyz', headers: {}, signal });
      this.#unanswered = 0;
    } catch {
      // One that hung and is gone has not answered either; that it is gone the watches tell.
      if (late.aborted) this.#unanswered++;
    } finally {
      this.#isAsking = false;
      this.#publishIfNew();
    }
  }

  /** Of what is not a VM: the time alone makes an agent one that is away. */
  #publishIfNew(): void {
    if (this.#beside() !== this.#reported) this.#publish();
  }

  #beside(): string {
    return JSON.stringify([this.problem(), this.nodes()]);
  }

  #publish(): void {
    this.#reported = this.#beside();
    this.#listeners.notify();
  }
}
