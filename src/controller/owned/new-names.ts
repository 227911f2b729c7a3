import type { Key } from '../../api/index.ts';

/** As Kubernetes appends them to `generateName`. */
const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
const suffixLength = 5;
/** A longer name would be no label, and no name of a pod's host. */
const maxLength = 63;
/** Owners of which names are kept. */
const maxOwners = 1_000;

/**
 * Names for new objects. One whose creation had no answer is given out again: it is there or not, but never there twice, however late the
 * request arrives.
 */
export class NewNames {
  readonly #random: () => number;
  readonly #unanswered = new Map<Key, string[]>();

  constructor(random: () => number) {
    this.#random = random;
  }

  /** `seen`: objects of the owner that are there for certain. A creation of theirs was answered by that. */
  take(owner: Key, base: string, count: number, seen: ReadonlySet<string>): string[] {
    const open = (this.#unanswered.get(owner) ?? []).filter((name) => !seen.has(name));
    const again = open.splice(0, count);
    if (open.length > 0) this.#unanswered.set(owner, open);
    else this.#unanswered.delete(owner);
    const fresh = Array.from({ length: count - again.length }, () => this.#fresh(base));
    return [...again, ...fresh];
  }

  /** Its creation had no answer. */
  unanswered(owner: Key, name: string): void {
    const names = this.#unanswered.get(owner) ?? [];
    this.#unanswered.delete(owner);
    this.#unanswered.set(owner, [...names, name]);
    const [oldest] = this.#unanswered.keys();
    if (this.#unanswered.size > maxOwners && oldest !== undefined) this.#unanswered.delete(oldest);
  }

  forget(owner: Key): void {
    this.#unanswered.delete(owner);
  }

  #fresh(base: string): string {
    const letter = () => alphabet[Math.floor(this.#random() * alphabet.length)] ?? '2';
    const suffix = Array.from({ length: suffixLength }, letter).join('');
    return `${base.slice(0, maxLength - suffixLength)}${suffix}`;
  }
}
