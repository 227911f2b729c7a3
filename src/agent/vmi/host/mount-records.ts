import { errorCode, errorMessage, listOf, memberAt } from '../../../base/index.ts';
import type { SharedRecordFiles } from '../../../host/index.ts';
import { HostError } from './errors.ts';

/** What is mounted or made at `name` in a directory of a pod. */
export interface RecordedTarget {
  readonly podUid: string;
  readonly name: string;
}

/** What differs between the kinds of records. */
export interface RecordFormat<Entry> {
  /** For messages: `the record of <subject> VMI 1234`. */
  readonly subject: string;
  /** Below a pod's directory. */
  readonly directory: string;
  readonly maxEntries: number;
  /** Undefined: neither agent makes such a thing. */
  entryOf(target: RecordedTarget): Entry | undefined;
  targetOf(entry: Entry): RecordedTarget;
  /** As upstream writes it, in `mountTargetEntries`. */
  written(entry: Entry): { readonly targetFile: string; readonly socketFile?: string };
}

const maxRecordBytes = 256 * 1024;
/** Between two of them another agent has mounted or unmounted something. */
const changeTries = 20;
/** UIDs come from the API server; one that could name another file has no record. */
const uidPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const tornTarget = /"targetFile"\s*:\s*"([^"\\]+)"/g;

/**
 * Upstream's records of what is mounted in the pods of a VMI (pkg/virt-handler/container-disk/mount.go and
 * pkg/virt-handler/hotplug-disk/mount.go), a file per UID, so that either agent cleans up what the other one mounted. Upstream
 * rewrites them in place and can then neither mount nor clean up after a crash; these are replaced as a whole, and of a torn one all
 * targets that can be read count. What is on disk counts: of two agents that overlap, neither works from what it remembers.
 */
export class MountRecords<Entry> {
  readonly #files: SharedRecordFiles;
  readonly #format: RecordFormat<Entry>;

  constructor(files: SharedRecordFiles, format: RecordFormat<Entry>) {
    this.#files = files;
    this.#format = format;
  }

  /** Undefined: there is none. Rejects with MOUNT_RECORD when the disk does not give it. */
  async read(uid: string): Promise<readonly Entry[] | undefined> {
    if (!uidPattern.test(uid)) return undefined;
    try {
      const text = await this.#text(uid);
      return text === undefined ? undefined : decodeRecord(text, this.#format);
    } catch (cause) {
      throw this.#problem(uid, 'cannot be read', cause);
    }
  }

  /** Before they are made. Rejects with MOUNT_RECORD. */
  async add(uid: string, entries: readonly Entry[]): Promise<void> {
    await this.#change(uid, (there) => {
      const isThere = this.#oneOf(there);
      return [...there, ...entries.filter((entry) => !isThere(entry))];
    });
  }

  /** After they were taken away. Rejects with MOUNT_RECORD. */
  async drop(uid: string, entries: readonly Entry[]): Promise<readonly Entry[]> {
    const isGone = this.#oneOf(entries);
    return await this.#change(uid, (there) => there.filter((entry) => !isGone(entry)));
  }

  /**
   * After all of them were taken away: no file stays. Rejects with MOUNT_RECORD, also when an agent that overlaps with this one has made more meanwhile,
   * which nothing else tells of.
   */
  async end(uid: string, entries: readonly Entry[]): Promise<void> {
    if ((await this.drop(uid, entries)).length === 0) return;
    throw this.#problem(uid, 'stays', 'another agent of this node has made more meanwhile, which is taken away next');
  }

  #oneOf(entries: readonly Entry[]): (entry: Entry) => boolean {
    const keyOf = (entry: Entry) => pathOf('', entry, this.#format);
    const keys = new Set(entries.map(keyOf));
    return (entry) => keys.has(keyOf(entry));
  }

  /**
   * What `update` makes of the entries that are there is on disk when it resolves; without entries there is no file. It is asked again when an agent
   * that overlaps with this one comes between; upstream's rewrites the file without a lock.
   */
  async #change(uid: string, update: (there: readonly Entry[]) => readonly Entry[]): Promise<readonly Entry[]> {
    if (!uidPattern.test(uid)) {
      if (update([]).length === 0) return [];
      throw this.#problem(uid, 'cannot be written', 'it is no UID that a file can have');
    }
    for (let tries = 0; tries < changeTries; tries++) {
      const entries = await this.#tryToChange(uid, update).catch((cause: unknown) => {
        throw this.#problem(uid, 'cannot be written', cause);
      });
      if (entries) return entries;
    }
    throw this.#problem(uid, 'cannot be written', 'another agent of this node writes it all the time');
  }

  /** Undefined: something else was there by then. */
  async #tryToChange(
    uid: string,
    update: (there: readonly Entry[]) => readonly Entry[],
  ): Promise<readonly Entry[] | undefined> {
    // The directory is made by the look into it.
    await this.#files.list();
    const before = await this.#text(uid);
    const entries = update(before === undefined ? [] : decodeRecord(before, this.#format));
    const after = entries.length === 0 ? undefined : encodeRecord(entries, this.#format);
    return (await this.#files.exchange(uid, { before, after, maxBytes: maxRecordBytes })) ? entries : undefined;
  }

  async #text(uid: string): Promise<string | undefined> {
    return await this.#files.read(uid, maxRecordBytes).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    });
  }

  #problem(uid: string, what: string, cause: unknown): HostError {
    const advice = 'check the private directory of this agent, and whether it has room';
    const text = `the record of ${this.#format.subject} VMI ${uid} ${what} (${errorMessage(cause)}): ${advice}`;
    return new HostError('MOUNT_RECORD', text, { cause });
  }
}

export function encodeRecord<Entry>(entries: readonly Entry[], { written }: RecordFormat<Entry>): string {
  return JSON.stringify({ mountTargetEntries: entries.map(written), usesSafePaths: true });
}

/** Where the pods' directory was when it was written does not matter; a path that is not of one is left alone. */
export function decodeRecord<Entry>(text: string, format: RecordFormat<Entry>): Entry[] {
  const entries = targetsOf(text).flatMap((path) => {
    const target = targetAt(path, format.directory);
    return (target && format.entryOf(target)) ?? [];
  });
  const unique = new Map(entries.map((entry) => [pathOf('', entry, format), entry]));
  return [...unique.values()].slice(0, format.maxEntries);
}

/** `podsDir`: where the pods are for whom the path is meant. */
export function pathOf<Entry>(
  podsDir: string,
  entry: Entry,
  format: Pick<RecordFormat<Entry>, 'directory' | 'targetOf'>,
) {
  const { podUid, name } = format.targetOf(entry);
  return `${podsDir}/${podUid}/${format.directory}/${name}`;
}

function targetsOf(text: string): string[] {
  let record: unknown;
  try {
    record = JSON.parse(text);
  } catch {
    return [...text.matchAll(tornTarget)].flatMap(([, target]) => target ?? []);
  }
  return listOf(memberAt(record, 'mountTargetEntries')).flatMap((entry) => {
    const target = memberAt(entry, 'targetFile');
    return typeof target === 'string' ? target : [];
  });
}

/** `…/<pod>/<directory>/<name>`. */
function targetAt(path: string, directory: string): RecordedTarget | undefined {
  const end = path.lastIndexOf('/');
  const within = path.slice(0, end);
  if (!within.endsWith(`/${directory}`)) return undefined;
  const pod = within.slice(0, -directory.length - 1);
  const target = { podUid: pod.slice(pod.lastIndexOf('/') + 1), name: path.slice(end + 1) };
  return pod.includes('/') && isName(target.podUid) && isName(target.name) ? target : undefined;
}

function isName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !text.includes('\0');
}
