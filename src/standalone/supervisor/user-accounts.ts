import { createHash, randomBytes } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { UserAccount } from '../../apiserver/index.ts';
import { errorCode, errorMessage, isRecord, type Logger } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { systemNamespaces, type UserRights, userRules } from './user-rules.ts';

/** An ordinary user of the node's API. The token is not kept. */
export interface UserRecord extends UserRights {
  readonly user: string;
  /** SHA-256 of the token, in hexadecimal. */
  readonly digest: string;
  /** RFC 3339, as the next one. */
  readonly createdAt: string;
  /** Absent: until it is revoked. */
  readonly expiresAt?: string;
}

export interface UserList {
  readonly records: readonly UserRecord[];
  /** Names of files that hold no user: whom they were for is not let in. */
  readonly damaged: readonly string[];
}

/** What a user may be called: the name of a file, without the colon of Kubernetes' own users. */
const userName = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$/;
const namespaceName = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const suffix = '.json';

/** Throws NodeError USAGE for names that are others', or could be no file's. */
export function checkUserName(name: string): void {
  if (name.startsWith('system:'))
    throw new NodeError('USAGE', `${JSON.stringify(name)}: names with system: are those of Kubernetes' own programs`);
  if (name === 'admin') throw new NodeError('USAGE', '"admin" is the user of this node: choose another name');
  if (userName.test(name)) return;
  const rule = 'up to 63 letters, digits and . _ @ -, the first a letter or digit';
  throw new NodeError('USAGE', `${JSON.stringify(name)} is no name of a user: it has ${rule}`);
}

/** Throws NodeError USAGE. */
export function checkNamespaceName(name: string): void {
  if (systemNamespaces.includes(name)) {
    throw new NodeError('USAGE', `the namespace ${name} is the node's own: give a user another one`);
  }
  if (namespaceName.test(name)) return;
  throw new NodeError('USAGE', `${JSON.stringify(name)} is no name of a namespace`);
}

/** A new user, and the token that nobody will see again. */
export function newUser(
  user: string,
  rights: UserRights,
  { now, lastsMs }: { readonly now: Date; readonly lastsMs: number | undefined },
): { readonly record: UserRecord; readonly token: string } {
  const token = randomBytes(32).toString('base64url');
  const digest = createHash('sha256').update(token, 'utf8').digest('hex');
  const expiresAt = lastsMs === undefined ? {} : { expiresAt: new Date(now.getTime() + lastsMs).toISOString() };
  return { token, record: { user, digest, ...rights, createdAt: now.toISOString(), ...expiresAt } };
}

/** The users on disk: a file each, for root only. The API's program reads them when they change. */
export class UserAccounts {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async list(): Promise<UserList> {
    const files = (await readdir(this.#dir).catch(ifMissing)).filter((file) => file.endsWith(suffix)).sort();
    const read = files.map(async (file) => ({ file, record: parse(file, await this.#read(file)) }));
    const all = await Promise.all(read);
    return {
      records: all.flatMap(({ record }) => record ?? []),
      damaged: all.flatMap(({ file, record }) => (record ? [] : file)),
    };
  }

  /** Makes the user, or gives it other rights and another token. */
  async put(record: UserRecord): Promise<void> {
    await writeFileAtomic(this.#file(record.user), `${JSON.stringify(record, undefined, 2)}\n`);
  }

  /** False: there was no such user. */
  async remove(user: string): Promise<boolean> {
    try {
      await rm(this.#file(user));
      return true;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
  }

  #read(file: string): Promise<string | undefined> {
    return readIfThere(path.join(this.#dir, file));
  }

  #file(user: string): string {
    checkUserName(user);
    return path.join(this.#dir, `${user}${suffix}`);
  }
}

/** Tells of the accounts now, and each time that they change. The returned function ends it. */
export async function followAccounts(
  dir: string,
  tell: (accounts: readonly UserAccount[]) => void,
  log: Logger,
): Promise<() => void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const users = new UserAccounts(dir);
  const look = async () => {
    const { records, damaged } = await users.list();
    for (const file of damaged) log.error({ file }, 'this file holds no user of the API, and lets nobody in');
    tell(records.map(accountOf));
  };
  // One after the other, so that the newest list is the last one told.
  const first = look();
  let looking = first.catch(() => undefined);
  const again = () => {
    looking = looking.then(look).catch((error: unknown) => {
      // Whom it cannot be read of is let in no more: a user may have been taken away.
      log.error({ err: errorMessage(error) }, 'the users of the API cannot be read');
      tell([]);
    });
  };
  const watcher: FSWatcher = watch(dir, again);
  // A program whose start fails ends.
  watcher.unref();
  watcher.on('error', (error) => log.error({ err: error.message }, 'the users of the API are not followed any more'));
  await first;
  return () => watcher.close();
}

function accountOf(record: UserRecord): UserAccount {
  const { user, digest, expiresAt } = record;
  return { user, digest, rules: userRules(record), ...(expiresAt && { expiresAtMs: Date.parse(expiresAt) }) };
}

/** undefined for anything that this program has not written: a file of another name, too, so that no copy lets in. */
function parse(file: string, text: string | undefined): UserRecord | undefined {
  const value = parseJson(text);
  if (!isRecord(value)) return undefined;
  const { user, digest, namespace, readOnly, createdAt, expiresAt } = value;
  if (typeof user !== 'string' || file !== `${user}${suffix}` || !userName.test(user)) return undefined;
  if (typeof digest !== 'string' || !/^[0-9a-f]{64}$/.test(digest) || typeof readOnly !== 'boolean') return undefined;
  if (namespace !== undefined && (typeof namespace !== 'string' || !namespaceName.test(namespace))) return undefined;
  if (!isTime(createdAt) || (expiresAt !== undefined && !isTime(expiresAt))) return undefined;
  return { user, digest, readOnly, createdAt, ...(namespace && { namespace }), ...(expiresAt && { expiresAt }) };
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}

function ifMissing(error: unknown): string[] {
  if (errorCode(error) === 'ENOENT') return [];
  throw error;
}
