import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, realpath, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { parseQuantity, type Volume } from '../../api/index.ts';
import { errorCode, isRecord, Turn } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { isOpenToOthers, othersMayChange } from '../state-dir.ts';
import { qemuUser } from './accounts.ts';

export type HostDisk = NonNullable<Volume['hostDisk']>;

export interface HostDisksOptions {
  /** Directories whose files VMs may have, besides those below them; absolute. */
  readonly dirs: readonly string[];
  /** Who owned the files before a VM had them, one small file each. */
  readonly ownersDir: string;
  /** The node's state directory and what of it may lie elsewhere. A file in one is a VM's only if the one has `dirs` in it. */
  readonly nodeDirs: readonly string[];
}

/** A file that a pod may have. */
export interface TakenDisk {
  readonly file: string;
  /** As in `SandboxMount`. */
  readonly identity: string;
}

/** A file that pods have now, as it was before the first of them. */
interface Owner {
  readonly file: string;
  /** Nanoseconds since the epoch; `0` where the file system keeps none, empty in a record of an older version. The number of a deleted file is used again. */
  readonly born: string;
  readonly uid: number;
  readonly gid: number;
  /** UIDs of the pods. */
  readonly pods: readonly string[];
}

/** Whatever `dirs` say: what is here belongs to the machine. */
const systemDirs = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/proc',
  '/run',
  '/sbin',
  '/sys',
  '/usr',
];
const whatDirectory = "VMs' disks need a directory that only root may write and search";
const setIdBits = 0o6000;

/**
 * The files of the host that VMs have as `hostDisk`. On a cluster an administrator opens the host's files with the feature gate
 * HostDisk; here only the directories of `dirs` are open, and a file must be a plain one with one name. QEMU's user becomes its
 * owner (libvirt does that), so the owner from before is kept on disk, and gets it back after the last pod that had it.
 */
export class HostDisks {
  readonly #options: HostDisksOptions;
  /** One after the other: two pods may ask for the same file. */
  readonly #turn = new Turn();

  constructor(options: HostDisksOptions) {
    this.#options = options;
  }

  /** The file for this pod, made when the VMI says so. Throws NodeError HOST_DISK_REFUSED with the field and what to do. */
  take(podUid: string, volume: string, disk: HostDisk): Promise<TakenDisk> {
    return this.#turn.take(() => this.#take(podUid, `spec.volumes[${volume}].hostDisk`, disk));
  }

  /** Gives back what the pod had, to who owned it. Safe to call for any pod, and again. */
  release(podUid: string): Promise<void> {
    return this.#turn.take(async () => {
      for (const [record, owner] of await this.#records()) {
        if (owner.pods.includes(podUid)) await this.#leave(record, owner, (uid) => uid !== podUid);
      }
    });
  }

  /** Of an earlier run: gives back what pods had of which nothing is left. */
  keepOnly(podUids: ReadonlySet<string>): Promise<void> {
    return this.#turn.take(async () => {
      for (const [record, owner] of await this.#records()) await this.#leave(record, owner, (uid) => podUids.has(uid));
    });
  }

  async #take(podUid: string, field: string, disk: HostDisk): Promise<TakenDisk> {
    const file = await this.#allowed(field, disk.path);
    const dir = path.dirname(file);
    if (disk.type === 'DiskOrCreate') await mkdir(dir, { recursive: true, mode: 0o700 });
    await refuseOpenDirectory(dir, field);
    if (disk.type === 'DiskOrCreate') await createIfMissing(file, field, disk.capacity);
    const handle = await openDisk(file, field);
    try {
      const found = await handle.stat({ bigint: true });
      const identity = identityOf(found);
      const record = path.join(this.#options.ownersDir, `${identity}.json`);
      const fresh = { file, born: bornOf(found), uid: Number(found.uid), gid: Number(found.gid), pods: [] };
      const before = parseOwner(await readIfThere(record));
      const known = before && isSameFile(before, fresh) ? before : fresh;
      const pods = [...new Set([...known.pods, podUid])];
      await writeFileAtomic(record, JSON.stringify({ ...known, file, pods }), 0o600);
      // Only now: whatever happens next, it is known whose it was. A launcher takes no other's.
      await handle.chown(qemuUser.uid, qemuUser.gid);
      return { file, identity };
    } finally {
      await handle.close();
    }
  }

  /** The path itself when it may be a VM's. */
  async #allowed(field: string, file: string): Promise<string> {
    const { dirs } = this.#options;
    const dir = dirs.find((open) => isBelow(file, open));
    if (!path.isAbsolute(file) || path.normalize(file) !== file || file.endsWith('/') || dir === undefined) {
      const advice = `put the disk there, or start the node with --host-disk-dirs ${path.posix.dirname(file)}`;
      throw refused(field, `${JSON.stringify(file)} is not a file below ${dirs.join(', ')}: ${advice}`);
    }
    // The directory may be a link, as /home is on some machines; below it nothing is.
    const real = path.join(await realDirectory(path.dirname(file)), path.basename(file));
    const open = await realDirectory(dir);
    if (!isBelow(real, open)) throw refused(field, `${file} is really ${real}, behind a link: name the file itself`);
    const isOfSystem = systemDirs.some((place) => isBelow(real, place));
    const isOfNode = await this.#isOfNode(real, open);
    if (isOfSystem || isOfNode) {
      throw refused(field, `${file} belongs to the ${isOfNode ? 'node' : 'system'}: use another directory`);
    }
    // Before a directory is made there.
    const problem = await othersMayChange(path.dirname(file), process.geteuid?.() ?? 0);
    if (problem) throw refused(field, `${path.dirname(file)} ${problem}: ${whatDirectory}`);
    return file;
  }

  /** Both are without links. */
  async #isOfNode(file: string, open: string): Promise<boolean> {
    const own = await Promise.all(this.#options.nodeDirs.map(realDirectory));
    return own.some((dir) => isBelow(file, dir) && !isBelow(open, dir));
  }

  async #records(): Promise<[string, Owner][]> {
    const { ownersDir } = this.#options;
    const names = await readdir(ownersDir).catch(() => []);
    const found: [string, Owner][] = [];
    for (const name of names.filter((one) => one.endsWith('.json'))) {
      const owner = parseOwner(await readIfThere(path.join(ownersDir, name)));
      if (owner) found.push([path.join(ownersDir, name), owner]);
    }
    return found;
  }

  async #leave(record: string, owner: Owner, stays: (podUid: string) => boolean): Promise<void> {
    const pods = owner.pods.filter(stays);
    if (pods.length === owner.pods.length) return;
    if (pods.length > 0) return writeFileAtomic(record, JSON.stringify({ ...owner, pods }), 0o600);
    await giveBack(owner, path.basename(record, '.json'));
    await rm(record, { force: true });
  }
}

/** A file that was moved or replaced meanwhile is its new owner's. */
async function giveBack(owner: Owner, identity: string): Promise<void> {
  const { file, uid, gid } = owner;
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    () => undefined,
  );
  if (!handle) return;
  try {
    const found = await handle.stat({ bigint: true });
    if (identityOf(found) !== identity || !isSameFile(owner, { file, born: bornOf(found) })) return;
    await handle.chown(uid, gid);
  } finally {
    await handle.close();
  }
}

function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}-${ino}`;
}

function bornOf({ birthtimeNs }: BigIntStats): string {
  return String(birthtimeNs);
}

/** For two with one number. Where nothing tells when the known one was made, one with another name may be another file. */
function isSameFile(known: Pick<Owner, 'file' | 'born'>, found: Pick<Owner, 'file' | 'born'>): boolean {
  const isKnown = known.born !== '0' && known.born !== '';
  return isKnown ? known.born === found.born : known.file === found.file;
}

async function refuseOpenDirectory(dir: string, field: string): Promise<void> {
  const problem = await isOpenToOthers(dir, process.geteuid?.() ?? 0).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (problem) throw refused(field, `${dir} ${problem}: ${whatDirectory}`);
}

async function openDisk(file: string, field: string): Promise<FileHandle> {
  const found = await lstat(file).catch((cause: unknown) => {
    throw refused(
      field,
      `${file} cannot be looked at (${errorCode(cause)}): create it, or use type DiskOrCreate`,
      cause,
    );
  });
  const wrong = whyNoDisk(found.isSymbolicLink(), found.isFile(), found.nlink, found.mode);
  if (wrong) throw refused(field, `${file} ${wrong}: use a plain file of its own`);
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  const { dev, ino } = await handle.stat();
  if (dev === found.dev && ino === found.ino) return handle;
  await handle.close();
  throw refused(field, `${file} was replaced just now: try again`);
}

function whyNoDisk(isLink: boolean, isFile: boolean, names: number, mode: number): string | undefined {
  if (isLink) return 'is a symbolic link';
  if (!isFile) return 'is not an ordinary file';
  if (names > 1) return `has ${names} names (hard links), so it may be another file of this machine`;
  return mode & setIdBits ? 'is a program with the rights of its owner (set-id)' : undefined;
}

/** A sparse file that appears whole, and takes the place of none. */
async function createIfMissing(file: string, field: string, capacity: HostDisk['capacity']): Promise<void> {
  if (await lstat(file).catch(() => undefined)) return;
  const sizeBytes = Math.floor(parseQuantity(capacity) ?? 0);
  if (sizeBytes <= 0 || !Number.isSafeInteger(sizeBytes)) {
    throw refused(field, `there is no ${file}, and capacity ${JSON.stringify(capacity)} is not a size to make it with`);
  }
  const dir = path.dirname(file);
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize < sizeBytes) {
    throw refused(
      field,
      `${sizeBytes} bytes are needed and ${bavail * bsize} are free in ${dir}: free some, or ask for less`,
    );
  }
  const draft = path.join(dir, `.${randomUUID()}.new`);
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.truncate(sizeBytes).finally(() => handle.close());
    await link(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}

/** Of what is there of a path; what is not there yet comes after it as it is. */
async function realDirectory(dir: string): Promise<string> {
  const found = await realpath(dir).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT' && dir !== '/') return undefined;
    throw error;
  });
  return found ?? path.join(await realDirectory(path.dirname(dir)), path.basename(dir));
}

function isBelow(file: string, dir: string): boolean {
  return file.startsWith(dir.endsWith('/') ? dir : `${dir}/`);
}

function parseOwner(text: string | undefined): Owner | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '');
    if (!isRecord(value)) return undefined;
    const { file, born = '', uid, gid, pods } = value;
    if (typeof born !== 'string') return undefined;
    if (typeof file !== 'string' || typeof uid !== 'number' || typeof gid !== 'number' || !Array.isArray(pods))
      return undefined;
    return { file, born, uid, gid, pods: pods.filter((pod) => typeof pod === 'string') };
  } catch {
    return undefined;
  }
}

function refused(field: string, problem: string, cause?: unknown): NodeError {
  return new NodeError('HOST_DISK_REFUSED', `${field}: ${problem}`, { cause });
}
