import { type Key, resources, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { type Component, Listeners, type Logger } from '../../base/index.ts';
import { Informer, type KubeClient } from '../../kube/index.ts';
import { type VmFeed, type VmRow, vmRow } from '../../web/index.ts';

const backoff = { baseMs: 200, maxMs: 5_000 };
const problemCheckMs = 2_000;
/** Failures in a row after which the page reports them. */
const reportedAfter = 3;

/** The list of the page: VirtualMachines and their instances, joined by name, as the API has them now. */
export class KubeVmFeed implements VmFeed, Component {
  readonly name = 'vm feed';
  readonly #vms: Informer<VirtualMachine>;
  readonly #vmis: Informer<VirtualMachineInstance>;
  readonly #listeners = new Listeners();
  #reportedProblem: string | undefined;
  #checking: NodeJS.Timeout | undefined;

  constructor(deps: { readonly client: KubeClient; readonly log: Logger }) {
    this.#vms = new Informer<VirtualMachine>({ type: resources.virtualMachines, backoff }, deps);
    this.#vmis = new Informer<VirtualMachineInstance>({ type: resources.virtualMachineInstances, backoff }, deps);
    const publish = () => this.#publish();
    for (const informer of [this.#vms, this.#vmis] as const) {
      informer.addHandlers({ added: publish, updated: publish, deleted: publish });
    }
  }

  /** Does not wait for the first list: the page is of use, and says why, while the API is away. */
  async start(): Promise<void> {
    await Promise.all([this.#vms.start(), this.#vmis.start()]);
    this.#checking = setInterval(() => {
      if (this.problem() !== this.#reportedProblem) this.#publish();
    }, problemCheckMs);
  }

  async stop(): Promise<void> {
    clearInterval(this.#checking);
    await Promise.all([this.#vms.stop(), this.#vmis.stop()]);
  }

  rows(): readonly VmRow[] {
    const keys = new Set<Key>([...this.#vms.keys(), ...this.#vmis.keys()]);
    return [...keys].sort().flatMap((key) => vmRow(this.#vms.get(key), this.#vmis.get(key)) ?? []);
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  problem(): string | undefined {
    const failing = [this.#vms, this.#vmis].find(({ health }) => health.failures >= reportedAfter);
    if (failing) return `the Kubernetes API does not answer: ${failing.health.lastError ?? 'no reason'}`;
    return this.#vms.hasSynced && this.#vmis.hasSynced ? undefined : 'the list is being read';
  }

  #publish(): void {
    this.#reportedProblem = this.problem();
    this.#listeners.notify();
  }
}
