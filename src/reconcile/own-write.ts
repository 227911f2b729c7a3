import { isOlderVersion, type KubeObject } from '../api/index.ts';

/** An own write that the watch has not shown yet. */
export interface OwnWrite<T> {
  readonly kind: 'update' | 'create' | 'delete' | 'assumed';
  /** What readers get in place of what the watch shows; undefined: what it shows. */
  readonly object: T | undefined;
  /** The watch still shows the time before the write. */
  readonly isAhead: (shown: T | undefined) => boolean;
  /** An earlier own write that this one does not replace, until the watch has shown it. */
  readonly under?: OwnWrite<T> | undefined;
  /** Versions that a reconcile began with or that this process wrote; another one that the watch shows is of others. */
  readonly known: ReadonlySet<string | undefined>;
  /** What others wrote lies below this write, and maybe no reconcile has decided on it: the echo wakes. */
  readonly isOnForeign: boolean;
}

export function updateOf<T extends KubeObject>(
  newer: T,
  baseVersion: string | undefined,
  more: Pick<OwnWrite<T>, 'known' | 'isOnForeign'>,
): OwnWrite<T> {
  const isAhead = (now: T | undefined) =>
    now !== undefined && (now.metadata.resourceVersion === baseVersion || isOlder(now, newer));
  return { kind: 'update', object: newer, isAhead, ...more };
}

export function creationOf<T extends KubeObject>(object: T): OwnWrite<T> {
  const { uid } = object.metadata;
  const isAhead = (now: T | undefined) =>
    now === undefined || (now.metadata.uid !== uid && isOlderVersion(now, object));
  return { kind: 'create', object, isAhead, ...unknown };
}

/** The object stays readable: as the watch shows it, or as an own write before the deletion left it. */
export function deletionOf<T extends KubeObject>(
  { metadata: { uid } }: T,
  before: OwnWrite<T> | undefined,
): OwnWrite<T> {
  const isAhead = (now: T | undefined) =>
    now !== undefined && now.metadata.uid === uid && now.metadata.deletionTimestamp === undefined;
  const under = before?.kind === 'delete' ? before.under : before;
  return { kind: 'delete', object: undefined, isAhead, under: isOf(under, uid) ? under : undefined, ...unknown };
}

/** On an object that only an own creation shows it holds, too. */
export function assumptionOf<T extends KubeObject>(
  object: T,
  isEcho: (shown: T) => boolean,
  before: OwnWrite<T> | undefined,
): OwnWrite<T> {
  const { uid } = object.metadata;
  const creation = before?.kind === 'create' ? before : before?.under;
  const under = creation?.kind === 'create' && isOf(creation, uid) ? creation : undefined;
  const isAhead = (now: T | undefined) => now !== undefined && now.metadata.uid === uid && !isEcho(now);
  return { kind: 'assumed', object, isAhead, under, ...unknown };
}

export function isStillAhead<T>({ isAhead, under }: OwnWrite<T>, shown: T | undefined): boolean {
  return isAhead(shown) || under?.isAhead(shown) === true;
}

/** What readers get while the write is ahead. */
export function viewOf<T>({ object, under }: OwnWrite<T>, shown: T | undefined): T | undefined {
  return object ?? (under?.isAhead(shown) ? under.object : undefined) ?? shown;
}

export function pendingKind<T>({ kind, under }: OwnWrite<T>): OwnWrite<T>['kind'] {
  return kind === 'assumed' && under ? under.kind : kind;
}

export function isCreation<T>({ kind, under }: OwnWrite<T>): boolean {
  return kind === 'create' || (kind === 'assumed' && under !== undefined);
}

export function isOlder<T extends KubeObject>(one: T, other: T): boolean {
  return one.metadata.uid === other.metadata.uid && isOlderVersion(one, other);
}

function isOf<T extends KubeObject>(write: OwnWrite<T> | undefined, uid: string | undefined): boolean {
  return write?.object?.metadata.uid === uid;
}

const unknown = { known: new Set<string | undefined>(), isOnForeign: false };
