import { isDeepStrictEqual } from 'node:util';
import type { Domain, DomainView, GoneProof, Key } from '../api/index.ts';
import { type Clock, Listeners } from '../base/index.ts';

type KnownView = Exclude<DomainView, { kind: 'absent' }>;
type GoneView = Extract<DomainView, { kind: 'gone' }>;

/** `seq` grows with every change of the store. */
interface Entry {
  readonly view: KnownView;
  readonly seq: number;
}

/**
 * The latest snapshot of every domain, by key and UID: a predecessor of the same name never shows through. A question
 * takes `ask()` before it is sent; its answer counts only when nothing newer came meanwhile.
 */
export class DomainStore {
  readonly #clock: Clock;
  readonly #entries = new Map<Key, Map<string, Entry>>();
  readonly #listeners = new Listeners<[key: Key]>();
  #seq = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  keys(): Iterable<Key> {
    return this.#entries.keys();
  }

  /** Without `uid` the UID that was heard of last. */
  view(key: Key, uid?: string): DomainView {
    const byUid = this.#entries.get(key);
    const found = uid === undefined ? [...(byUid?.values() ?? [])].at(-1) : byUid?.get(uid);
    return found?.view ?? { kind: 'absent' };
  }

  otherUids(key: Key, uid: string): string[] {
    return [...(this.#entries.get(key)?.keys() ?? [])].filter((other) => other !== uid);
  }

  onChange(listener: (key: Key) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** A point in order and time; take it before asking a launcher. */
  ask(): Asked {
    return { seq: ++this.#seq, seenMs: this.#clock.monotonicMs() };
  }

  /**
   * What a launcher reported by itself. Each event carries the whole domain; one that says nothing new notifies no listener.
   * False: it is not believed, for a domain that has ended does not live again in the same launcher nor lose the reason of
   * its end, and one that lives does not end without a reason (the event is late or repeated); the launcher is to be asked.
   */
  event(key: Key, uid: string, domain: Domain): boolean {
    const before = this.view(key, uid);
    if (hasEnded(before) ? !isDown(domain) || isBeforeStart(domain) : isAlive(before) && isUnexplained(domain))
      return false;
    const asked = this.ask();
    const { seenMs } = asked;
    const view: KnownView = domain.ObjectMeta.deletionTimestamp
      ? { ...this.#gone(key, uid, 'launcher-says-none'), seenMs }
      : { kind: 'present', uid, domain: withContent(domain, before), seenMs };
    this.#put(key, view, asked);
    return true;
  }

  /** What a launcher answered; false when something newer is known. Notifies listeners only of a difference. */
  answer(key: Key, uid: string, domain: Domain | undefined, asked: Asked): boolean {
    if (this.#hasNewer(key, uid, asked)) return false;
    const before = this.view(key, uid);
    const times = { seenMs: asked.seenMs, askedMs: asked.seenMs };
    const view: KnownView =
      domain && !domain.ObjectMeta.deletionTimestamp
        ? { kind: 'present', uid, domain: withContent(domain, before), ...times }
        : { ...this.#gone(key, uid, 'launcher-says-none'), ...times };
    this.#put(key, view, asked);
    return true;
  }

  /** The launcher could not be asked. Never replaces something newer, nor a proof of its end. */
  unknown(key: Key, uid: string, reason: string, asked: Asked = this.ask()): void {
    if (this.#hasNewer(key, uid, asked)) return;
    const before = this.view(key, uid);
    if (before.kind === 'gone' && before.proof === 'launcher-dead') return;
    const { seenMs } = asked;
    const sinceMs = before.kind === 'unknown' ? before.sinceMs : seenMs;
    this.#put(key, { kind: 'unknown', uid, reason, sinceMs, ...this.#lastDomain(key, uid), seenMs }, asked);
  }

  /** The launcher's process ended: nothing newer can come from it. */
  dead(key: Key, uid: string): void {
    const asked = this.ask();
    this.#put(key, { ...this.#gone(key, uid, 'launcher-dead'), seenMs: asked.seenMs }, asked);
  }

  forget(key: Key, uid: string): void {
    const byUid = this.#entries.get(key);
    if (!byUid?.delete(uid)) return;
    if (byUid.size === 0) this.#entries.delete(key);
    this.touch(key);
  }

  /** Notifies the listeners of a key without a new snapshot. */
  touch(key: Key): void {
    this.#listeners.notify(key);
  }

  #hasNewer(key: Key, uid: string, asked: Asked): boolean {
    const known = this.#entries.get(key)?.get(uid);
    return known !== undefined && known.seq > asked.seq;
  }

  #gone(key: Key, uid: string, proof: GoneProof): Omit<GoneView, 'seenMs'> {
    return { kind: 'gone', uid, proof, ...this.#lastDomain(key, uid) };
  }

  #lastDomain(key: Key, uid: string): { lastDomain?: Domain } {
    const known = this.view(key, uid);
    if (known.kind === 'present') return { lastDomain: known.domain };
    return known.kind !== 'absent' && known.lastDomain ? { lastDomain: known.lastDomain } : {};
  }

  #put(key: Key, view: KnownView, { seq }: Asked): void {
    const byUid = this.#entries.get(key) ?? new Map<string, Entry>();
    const before = byUid.get(view.uid);
    this.#entries.set(key, byUid.set(view.uid, { view, seq }));
    if (!before || !isSame(before.view, view)) this.touch(key);
  }
}

export interface Asked {
  readonly seq: number;
  readonly seenMs: number;
}

/**
 * The launcher said that its domain ended: by how it ended, or by having none any more. Shutoff without a reason is no end, and
 * neither is none before there was one: define comes before start.
 */
function hasEnded(view: DomainView): boolean {
  if (view.kind === 'present') return isDown(view.domain) && hasRun(view.domain);
  return view.kind === 'gone' && view.lastDomain !== undefined && hasRun(view.lastDomain);
}

const hasRun = ({ Status: { Status: status, Reason: reason } }: Domain) => status !== 'Shutoff' || reason !== 'Unknown';

const isAlive = (view: DomainView) => view.kind === 'present' && !isDown(view.domain);

const isBeforeStart = ({ ObjectMeta, Status: { Status: status, Reason: reason } }: Domain) =>
  ObjectMeta.deletionTimestamp === undefined && status === 'Shutoff' && reason === 'Unknown';

/** As before a start, or as if there had never been one. */
const isUnexplained = (domain: Domain) =>
  isDown(domain) && (domain.ObjectMeta.deletionTimestamp !== undefined || domain.Status.Reason === 'Unknown');

const isDown = ({ ObjectMeta, Status }: Domain) =>
  ObjectMeta.deletionTimestamp !== undefined || Status.Status === 'Shutoff' || Status.Status === 'Crashed';

/**
 * A launcher that cannot read the description of its domain, as at times during a migration, sends the state alone: that says
 * nothing about devices, metadata or grace, which stay as they were.
 */
function withContent(domain: Domain, before: DomainView): Domain {
  const known = before.kind === 'present' ? before.domain : 'lastDomain' in before ? before.lastDomain : undefined;
  if (domain.Spec.Name !== '' || !known) return domain;
  const reported = Object.entries(domain.Spec.Metadata.KubeVirt).filter(([, value]) => value !== null && value !== '');
  const metadata = { ...known.Spec.Metadata.KubeVirt, ...Object.fromEntries(reported) };
  return { ...domain, Spec: { ...known.Spec, Metadata: { ...known.Spec.Metadata, KubeVirt: metadata } } };
}

/** Equal but for the time. */
function isSame(before: KnownView, after: KnownView): boolean {
  const timeless = { seenMs: 0, askedMs: 0 };
  return isDeepStrictEqual({ ...before, ...timeless }, { ...after, ...timeless });
}
