import { isDeepStrictEqual } from 'node:util';
import type { Domain, Key } from '../api/index.ts';
import type { Clock } from '../base/index.ts';

export type GoneProof =
  /** The launcher answered "no domain", or sent the deletion event. */
  | 'launcher-says-none'
  /** Its process ended and nobody listens on its socket. */
  | 'launcher-dead';

/** What is known about the domain of one VMI UID. `seenMs` is monotonic time; `seq` grows with every change here. */
export type DomainView =
  | {
      readonly kind: 'present';
      readonly uid: string;
      readonly domain: Domain;
      readonly seenMs: number;
      /** When the question was sent that this answers; absent for an event. */
      readonly askedMs?: number;
      readonly seq: number;
    }
  /**
   * Proven. A launcher that never had a domain is `gone` with `launcher-says-none` and without `lastDomain`: for a VMI
   * that was not started yet this is the normal state.
   */
  | {
      readonly kind: 'gone';
      readonly uid: string;
      readonly proof: GoneProof;
      /** The proof in words. */
      readonly detail: string;
      readonly lastDomain?: Domain;
      readonly seenMs: number;
      readonly askedMs?: number;
      readonly seq: number;
    }
  /** The launcher could not be asked: proves nothing. */
  | {
      readonly kind: 'unknown';
      readonly uid: string;
      readonly reason: string;
      /** When it began to be so. */
      readonly sinceMs: number;
      readonly lastDomain?: Domain;
      readonly seenMs: number;
      readonly seq: number;
    }
  /** Never heard of since this process started. */
  | { readonly kind: 'absent' };

type KnownView = Exclude<DomainView, { kind: 'absent' }>;
type GoneView = Extract<DomainView, { kind: 'gone' }>;

/**
 * The latest picture of every domain, by key and UID: a predecessor of the same name never shows through. A question
 * takes `ask()` before it is sent; its answer counts only when nothing newer came meanwhile.
 */
export class DomainStore {
  readonly #clock: Clock;
  readonly #views = new Map<Key, Map<string, KnownView>>();
  readonly #listeners = new Set<(key: Key) => void>();
  #seq = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  keys(): Iterable<Key> {
    return this.#views.keys();
  }

  /** Without `uid` the UID that was heard of last. */
  view(key: Key, uid?: string): DomainView {
    const byUid = this.#views.get(key);
    const found = uid === undefined ? [...(byUid?.values() ?? [])].at(-1) : byUid?.get(uid);
    return found ?? { kind: 'absent' };
  }

  otherUids(key: Key, uid: string): string[] {
    return [...(this.#views.get(key)?.keys() ?? [])].filter((other) => other !== uid);
  }

  onChange(listener: (key: Key) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A point in order and time; take it before asking a launcher. */
  ask(): Asked {
    return { seq: ++this.#seq, seenMs: this.#clock.monotonicMs() };
  }

  /**
   * What a launcher reported by itself. Each event carries the whole domain; one that says nothing new wakes nobody (spec 22
   * §6). False: it is not believed, for a guest that has ended does not live again in the same launcher nor lose the reason of
   * its end, and one that lives does not end without a reason (the event is late or repeated); the launcher is to be asked.
   */
  event(key: Key, uid: string, domain: Domain): boolean {
    const before = this.view(key, uid);
    if (hasEnded(before) ? !isDown(domain) || isBeforeStart(domain) : isAlive(before) && isUnexplained(domain))
      return false;
    const asked = this.ask();
    const view: KnownView = domain.ObjectMeta.deletionTimestamp
      ? this.#gone(key, uid, 'launcher-says-none', 'the launcher reported its end', asked)
      : { kind: 'present', uid, domain: withContent(domain, before), ...asked };
    this.#put(key, view, !isSame(before, view));
    return true;
  }

  /** What a launcher answered; false when something newer is known. Tells listeners only of a difference. */
  answer(key: Key, uid: string, domain: Domain | undefined, asked: Asked): boolean {
    const before = this.view(key, uid);
    if (isNewer(before, asked)) return false;
    const view: KnownView =
      domain && !domain.ObjectMeta.deletionTimestamp
        ? {
            kind: 'present',
            uid,
            domain: withContent(domain, before),
            ...asked,
            askedMs: asked.seenMs,
          }
        : { ...this.#gone(key, uid, 'launcher-says-none', 'the launcher has no domain', asked), askedMs: asked.seenMs };
    this.#put(key, view, !isSame(before, view));
    return true;
  }

  /** The launcher could not be asked. Never replaces something newer, nor a proof of its end. */
  unknown(key: Key, uid: string, reason: string, asked: Asked = this.ask()): void {
    const before = this.view(key, uid);
    if (isNewer(before, asked)) return;
    if (before.kind === 'gone' && before.proof === 'launcher-dead') return;
    const sinceMs = before.kind === 'unknown' ? before.sinceMs : asked.seenMs;
    const view: KnownView = { kind: 'unknown', uid, reason, sinceMs, ...this.#lastDomain(key, uid), ...asked };
    this.#put(key, view, !isSame(before, view));
  }

  /** The launcher's process ended: nothing newer can come from it. */
  dead(key: Key, uid: string, detail: string): void {
    const view = this.#gone(key, uid, 'launcher-dead', detail, this.ask());
    this.#put(key, view, !isSame(this.view(key, uid), view));
  }

  forget(key: Key, uid: string): void {
    const byUid = this.#views.get(key);
    if (!byUid?.delete(uid)) return;
    if (byUid.size === 0) this.#views.delete(key);
    this.#tell(key);
  }

  /** Wakes the listeners of a key without a new picture. */
  touch(key: Key): void {
    this.#tell(key);
  }

  #gone(key: Key, uid: string, proof: GoneProof, detail: string, asked: Asked): GoneView {
    return { kind: 'gone', uid, proof, detail, ...this.#lastDomain(key, uid), ...asked };
  }

  #lastDomain(key: Key, uid: string): { lastDomain?: Domain } {
    const known = this.view(key, uid);
    if (known.kind === 'present') return { lastDomain: known.domain };
    return known.kind !== 'absent' && known.lastDomain ? { lastDomain: known.lastDomain } : {};
  }

  #put(key: Key, view: KnownView, tell: boolean): void {
    let byUid = this.#views.get(key);
    if (!byUid) {
      byUid = new Map();
      this.#views.set(key, byUid);
    }
    byUid.set(view.uid, view);
    if (tell) this.#tell(key);
  }

  #tell(key: Key): void {
    for (const listener of this.#listeners) listener(key);
  }
}

export interface Asked {
  readonly seq: number;
  readonly seenMs: number;
}

const isNewer = (known: DomainView, asked: Asked) => known.kind !== 'absent' && known.seq > asked.seq;

/**
 * The launcher said that its guest ended: by how it ended, or by having none any more. Shutoff without a reason is no end, and
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
 * A launcher that cannot read the description of its domain, as at times during a migration, sends the state alone (spec 70
 * §7.2): that is no word about devices, metadata or grace, which stay as they were.
 */
function withContent(domain: Domain, before: DomainView): Domain {
  const known = before.kind === 'present' ? before.domain : 'lastDomain' in before ? before.lastDomain : undefined;
  if (domain.Spec.Name !== '' || !known) return domain;
  const told = Object.entries(domain.Spec.Metadata.KubeVirt).filter(([, value]) => value !== null && value !== '');
  const metadata = { ...known.Spec.Metadata.KubeVirt, ...Object.fromEntries(told) };
  return { ...domain, Spec: { ...known.Spec, Metadata: { ...known.Spec.Metadata, KubeVirt: metadata } } };
}

const timeless = { seq: 0, seenMs: 0, askedMs: 0 };

/** Equal but for the time. */
function isSame(before: DomainView, after: DomainView): boolean {
  if (before.kind === 'absent' || after.kind === 'absent') return before.kind === after.kind;
  return isDeepStrictEqual({ ...before, ...timeless }, { ...after, ...timeless });
}
