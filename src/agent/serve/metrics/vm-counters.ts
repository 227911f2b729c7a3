import type { Domain, Key } from '../../../api/index.ts';
import type { Label } from '../../../serving/index.ts';
import type { DomainViews, VmiStore } from '../../vmi/ports.ts';
import { named } from './named.ts';
import { outsideText } from './outside-text.ts';

export interface VmCountersDeps {
  readonly vmis: Pick<VmiStore, 'get' | 'onChange'>;
  readonly domains: Pick<DomainViews, 'view' | 'onChange'>;
}

interface Panics {
  readonly uid: string;
  seen: number;
  /** `type` and `bugcheck_code` → count. */
  readonly counts: Map<string, { readonly labels: readonly Label[]; count: number }>;
}

/** Kinds of panic that one guest can have in an exposition; the word for the kind is the guest's. */
const kindLimit = 16;

/** Counters of VMs that the VMI loop and the domain cache move; they go with their VMI. */
export class VmCounters {
  #deps: VmCountersDeps | undefined;
  readonly #syncs = new Map<Key, number>();
  readonly #panics = new Map<Key, Panics>();
  readonly #ends: (() => void)[] = [];

  /** From now on panics are seen, and what belongs to a VMI goes with it. */
  follow(deps: VmCountersDeps): void {
    this.#deps = deps;
    this.#ends.push(
      deps.domains.onChange((key) => this.#lookForPanic(key, deps)),
      deps.vmis.onChange((key) => this.#forgetIfGone(key, deps)),
    );
  }

  get size(): number {
    return this.#syncs.size + this.#panics.size;
  }

  /** The status of a VMI was written. */
  written(key: Key): void {
    if (this.#deps?.vmis.get(key)) this.#syncs.set(key, (this.#syncs.get(key) ?? 0) + 1);
  }

  /** As they are when it begins: in a `Map` that goes on a VM may go and come again behind a slow reader, and be written twice. */
  *syncs(): Generator<readonly [readonly Label[], number]> {
    for (const [key, count] of [...this.#syncs]) yield [named(key), count];
  }

  /** As `syncs`. */
  *panics(): Generator<readonly [readonly Label[], number]> {
    for (const [key, { counts }] of [...this.#panics]) {
      for (const { labels, count } of [...counts.values()]) yield [[...named(key), ...labels], count];
    }
  }

  stop(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  #lookForPanic(key: Key, { vmis, domains }: VmCountersDeps): void {
    const view = domains.view(key);
    if (view.kind !== 'present') return;
    const { Status } = view.domain;
    const now: unknown = Status.PanicCount;
    if (typeof now !== 'number' || now <= 0 || !vmis.get(key)) return;
    let known = this.#panics.get(key);
    if (known?.uid !== view.uid) {
      known = { uid: view.uid, seen: 0, counts: new Map() };
      this.#panics.set(key, known);
    }
    if (now > known.seen) count(known, Status.GuestPanicInfo);
    known.seen = now;
  }

  #forgetIfGone(key: Key, { vmis }: VmCountersDeps): void {
    if (vmis.get(key)) return;
    this.#syncs.delete(key);
    this.#panics.delete(key);
  }
}

function count({ counts }: Panics, info: Domain['Status']['GuestPanicInfo']): void {
  const labels: Label[] = [
    ['type', outsideText(info?.Type) || 'unknown'],
    ['bugcheck_code', bugcheckCode(info?.Arg1)],
  ];
  const name = JSON.stringify(labels);
  const known = counts.get(name);
  if (known) known.count++;
  else if (counts.size < kindLimit) counts.set(name, { labels, count: 1 });
}

/** Of Windows: its first argument. */
function bugcheckCode(first: unknown): string {
  return typeof first === 'number' && first > 0 && Number.isInteger(first) ? `0x${first.toString(16)}` : 'unknown';
}
