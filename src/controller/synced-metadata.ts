/**
 * What is taken over while a guest runs, from a VM's template to its VMI and from there to its pod. A whole key also goes where it is
 * gone at its origin; `a.io/*`, all that begins so, only brings.
 */
export interface SyncedKeys {
  readonly annotations: readonly string[];
  readonly labels: readonly string[];
}

/** What the descheduler goes by, also where nothing else is taken over (upstream: syncDynamicAnnotationsAndLabelsToPod). */
const always = ['descheduler.alpha.kubernetes.io/evict', 'descheduler.alpha.kubernetes.io/prefer-no-eviction'];

type Entries = Readonly<Record<string, string>>;

/** What `to` lacks of `from`, or has in excess: null. */
export type EntryChanges = Readonly<Record<string, string | null>>;

interface Metadata {
  readonly annotations?: Entries | undefined;
  readonly labels?: Entries | undefined;
}

/** KubeVirt's programs know VMIs and pods by them, and the pod network's tell each other of its interfaces: they are nobody else's. */
export function isReservedKey(key: string): boolean {
  const [domain = ''] = key.split('/');
  return domain === 'kubevirt.io' || domain.endsWith('.kubevirt.io') || domain === 'k8s.v1.cni.cncf.io';
}

/** Of all other keys nothing is said. */
export function metadataChanges(
  keys: SyncedKeys,
  from: Metadata | undefined,
  to: Metadata,
): { readonly annotations: EntryChanges; readonly labels: EntryChanges } {
  return {
    annotations: changesOf([...always, ...keys.annotations], from?.annotations ?? {}, to.annotations ?? {}),
    labels: changesOf(keys.labels, from?.labels ?? {}, to.labels ?? {}),
  };
}

/**
 * What fits a pattern and only `to` has may have come from anybody (a network plug-in, a mesh, a user): it stays, where upstream takes it
 * away again and again.
 */
function changesOf(patterns: readonly string[], from: Entries, to: Entries): EntryChanges {
  const isSynced = (key: string) => !isReservedKey(key) && patterns.some((pattern) => fits(key, pattern));
  const gone = patterns.filter((key) => from[key] === undefined && to[key] !== undefined);
  const keys = [...new Set([...Object.keys(from), ...gone])].filter(isSynced);
  return Object.fromEntries(keys.filter((key) => from[key] !== to[key]).map((key) => [key, from[key] ?? null]));
}

function fits(key: string, pattern: string): boolean {
  return pattern.endsWith('*') ? key.startsWith(pattern.slice(0, -1)) : key === pattern;
}

/** `before` with them. */
export function withChanges(before: Entries | undefined, changes: EntryChanges): Record<string, string> {
  const entries = Object.entries({ ...before, ...changes });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}
