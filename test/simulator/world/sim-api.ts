import { type Key, keyOf, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { KubeError } from '../../../src/kube/index.ts';

type Vmi = VirtualMachineInstance;

/** Who wrote: an agent's process, or somebody else. */
export type Writer = string;

interface Stored {
  readonly version: number;
  readonly text: string;
}

interface Change {
  readonly version: number;
  readonly key: Key;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

export type WatchItem =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly text: string }
  | { readonly type: 'BOOKMARK'; readonly version: number };

export interface Watcher {
  readonly label: Label;
  push(item: WatchItem): void;
}

/** One requirement of a label selector: `key in (value)`. */
export interface Label {
  readonly key: string;
  readonly value: string;
}

export function parseLabel(selector: string | undefined): Label {
  const match = /^(\S+) in \((\S+)\)$/.exec(selector ?? '');
  if (!match?.[1] || !match[2]) throw new Error(`a selector that the simulator does not know: ${selector}`);
  return { key: match[1], value: match[2] };
}

export interface ApiHooks {
  /** After a write of anybody. */
  onWrite(writer: Writer, before: Vmi | undefined, after: Vmi | undefined): void;
}

/** Versions kept for watches. */
const keptChanges = 400;

/** The API server's store of VMIs: resource versions, history, watches. Faults are the client's business, but for old lists. */
export class SimApi {
  events = 0;
  hooks: ApiHooks = { onWrite: () => undefined };
  readonly watchers = new Set<Watcher>();
  readonly #objects = new Map<Key, Stored>();
  #history: Change[] = [];
  #version = 100;
  #compacted = 0;

  get version(): number {
    return this.#version;
  }

  keys(): Key[] {
    return [...this.#objects.keys()];
  }

  get(key: Key): Vmi | undefined {
    const stored = this.#objects.get(key);
    return stored && (JSON.parse(stored.text) as Vmi);
  }

  /** Throws CONFLICT or NOT_FOUND. */
  put(vmi: Vmi, writer: Writer): Vmi {
    const stored = this.#objects.get(keyOf(vmi));
    if (!stored) throw new KubeError('NOT_FOUND', `${vmi.metadata.name} not found`);
    const before = JSON.parse(stored.text) as Vmi;
    const isOther = before.metadata.uid !== vmi.metadata.uid || vmi.metadata.resourceVersion !== String(stored.version);
    if (isOther) throw new KubeError('CONFLICT', 'the object has been modified');
    return this.#store(before, vmi, writer);
  }

  create(vmi: Vmi, writer: Writer): void {
    if (this.#objects.has(keyOf(vmi))) throw new Error(`${keyOf(vmi)} exists`);
    this.#store(undefined, vmi, writer);
  }

  /** Somebody else changes an object; false when there is none. */
  change(key: Key, writer: Writer, change: (vmi: Vmi) => void): boolean {
    const before = this.get(key);
    if (!before) return false;
    const after = structuredClone(before);
    change(after);
    this.#store(before, after, writer);
    return true;
  }

  remove(key: Key, writer: Writer): void {
    const stored = this.#objects.get(key);
    if (!stored) return;
    this.#objects.delete(key);
    const before = JSON.parse(stored.text) as Vmi;
    const last = JSON.stringify({
      ...before,
      metadata: { ...before.metadata, resourceVersion: String(++this.#version) },
    });
    this.#changed({ version: this.#version, key, before: last, after: undefined });
    this.hooks.onWrite(writer, before, undefined);
  }

  /** As of `atVersion`, which is the present unless given. */
  list(label: Label | undefined, name: string | undefined, atVersion = this.#version): Vmi[] {
    const texts = new Map<Key, string>([...this.#objects].map(([key, { text }]) => [key, text]));
    for (const change of this.#history.toReversed()) {
      if (change.version <= atVersion) break;
      if (change.before === undefined) texts.delete(change.key);
      else texts.set(change.key, change.before);
    }
    return [...texts.values()]
      .map((text) => JSON.parse(text) as Vmi)
      .filter((vmi) => (!label || matches(vmi, label)) && (name === undefined || vmi.metadata.name === name));
  }

  /** A version that is not older than history goes back. */
  someOldVersion(stepsBack: number): number {
    return this.#history.at(-stepsBack)?.version ?? this.#version;
  }

  /** Changes since `version` first, then the present ones. Throws GONE when that is too long ago. */
  watch(watcher: Watcher, version: number): void {
    if (version < this.#compacted) throw new KubeError('GONE', 'too old resource version', { httpStatus: 410 });
    for (const change of this.#history) if (change.version > version) publish(watcher, change);
    this.watchers.add(watcher);
  }

  /** From now on older versions are gone. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history = [];
  }

  #store(before: Vmi | undefined, after: Vmi, writer: Writer): Vmi {
    const key = keyOf(after);
    const version = ++this.#version;
    after.metadata.resourceVersion = String(version);
    const text = JSON.stringify(after);
    this.#objects.set(key, { version, text });
    this.#changed({ version, key, before: before && JSON.stringify(before), after: text });
    const written = JSON.parse(text) as Vmi;
    this.hooks.onWrite(writer, before, written);
    return written;
  }

  #changed(change: Change): void {
    this.#history.push(change);
    if (this.#history.length > keptChanges) this.#compacted = this.#history.shift()?.version ?? this.#compacted;
    for (const watcher of this.watchers) publish(watcher, change);
  }
}

/** A change of the labels makes an object appear or disappear. */
function publish(watcher: Watcher, { before, after }: Change): void {
  const was = before !== undefined && matches(JSON.parse(before) as Vmi, watcher.label);
  const is = after !== undefined && matches(JSON.parse(after) as Vmi, watcher.label);
  if (is) watcher.push({ type: was ? 'MODIFIED' : 'ADDED', text: after });
  else if (was) watcher.push({ type: 'DELETED', text: after ?? before });
}

function matches(vmi: Vmi, { key, value }: Label): boolean {
  return vmi.metadata.labels?.[key] === value;
}
