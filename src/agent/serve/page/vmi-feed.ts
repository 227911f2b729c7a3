import { labels } from '../../../api/index.ts';
import { type Clock, Listeners } from '../../../base/index.ts';
import type { InformerHealth } from '../../../kube/index.ts';
import { type VmFeed, type VmRow, vmRow } from '../../../web/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';

export interface VmiFeedDeps {
  readonly vmis: Pick<VmiStore, 'get' | 'keys' | 'onChange'> & {
    readonly synced: boolean;
    readonly health: readonly Pick<InformerHealth, 'isConnected' | 'failures' | 'lastError'>[];
  };
  readonly clock: Clock;
}

const checkMs = 2_000;
/** Failures in a row after which the page reports them. */
const reportedAfter = 3;

/** The VMIs of this node as the page shows them; those that only come here are their source's. */
export class VmiFeed implements VmFeed {
  readonly #nodeName: string;
  readonly #deps: VmiFeedDeps;
  readonly #listeners = new Listeners();
  #ends: readonly (() => void)[] = [];
  #reportedProblem: string | undefined;

  constructor(nodeName: string, deps: VmiFeedDeps) {
    this.#nodeName = nodeName;
    this.#deps = deps;
  }

  start(): void {
    const { vmis, clock } = this.#deps;
    let cancel = () => {};
    const check = () => {
      if (this.problem() !== this.#reportedProblem) this.#publish();
      cancel = clock.schedule(checkMs, check);
    };
    check();
    this.#ends = [vmis.onChange(() => this.#publish()), () => cancel()];
  }

  stop(): void {
    for (const end of this.#ends) end();
  }

  rows(): readonly VmRow[] {
    const { vmis } = this.#deps;
    return [...vmis.keys()].sort().flatMap((key) => {
      const vmi = vmis.get(key);
      return vmi?.metadata.labels?.[labels.nodeName] === this.#nodeName ? (vmRow(undefined, vmi) ?? []) : [];
    });
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  problem(): string | undefined {
    const { vmis } = this.#deps;
    const failing = vmis.health.find(({ isConnected, failures }) => !isConnected && failures >= reportedAfter);
    if (failing) return `the Kubernetes API does not answer: ${failing.lastError ?? 'no reason'}`;
    return vmis.synced ? undefined : 'the list is being read';
  }

  #publish(): void {
    this.#reportedProblem = this.problem();
    this.#listeners.notify();
  }
}
