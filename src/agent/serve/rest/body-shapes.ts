import { isRecord, parseGoDurationMs } from '../../../base/index.ts';
import { badRequest } from './errors.ts';

type Check = (value: unknown, path: string) => unknown;
type Fields = Readonly<Record<string, Check>>;

/** Not given and null are the same: the launcher gets neither. */
const text: Check = (value, path) => {
  if (typeof value !== 'string') throw badRequest(`${path} must be a string`);
  return value;
};

const flag: Check = (value, path) => {
  if (typeof value !== 'boolean') throw badRequest(`${path} must be true or false`);
  return value;
};

function listOf(fields: Fields): Check {
  return (value, path) => {
    if (!Array.isArray(value)) throw badRequest(`${path} must be a list`);
    return value.map((item, index) => shaped(item, fields, `${path}[${index}]`));
  };
}

/**
 * Names are matched as Go matches them, whatever their case, and go on in their proper one: the launcher's decoder is
 * case-sensitive. What is not known here goes on as it came: the launcher may be newer.
 */
function shaped(value: unknown, fields: Fields, path: string): Record<string, unknown> {
  if (!isRecord(value)) throw badRequest(`${path} must be an object`);
  const names = new Map(Object.keys(fields).map((name) => [name.toLowerCase(), name]));
  const entries = Object.entries(value).flatMap(([given, member]): [string, unknown][] => {
    const name = names.get(given.toLowerCase()) ?? given;
    if (member === null || member === undefined) return [];
    // Names that every object has, as `hasOwnProperty`, are not fields.
    const check = Object.hasOwn(fields, name) ? fields[name] : undefined;
    return [[name, check ? check(member, `${path}.${name}`) : member]];
  });
  return Object.fromEntries(entries);
}

const backupFields: Fields = {
  backupName: text,
  cmd: text,
  mode: text,
  backupStartTime: text,
  incremental: text,
  targetPath: text,
  skipQuiesce: flag,
  exportServerAddr: text,
  exportServerName: text,
  backupKey: text,
  backupCert: text,
  caCert: text,
};

const checkpointVolume: Fields = { volumeName: text, diskTarget: text, dataEndpoint: text, mapEndpoint: text };
const checkpointFields: Fields = { name: text, creationTime: text, volumes: listOf(checkpointVolume) };
const secretFields: Fields = { header: text, secret: text };
const freezeFields: Fields = { unfreezeTimeout: text };

/** BackupOptions. These three take no body for an empty object. Throw RestError BAD_REQUEST. */
export function backupOptions(body: Record<string, unknown> = {}): object {
  return shaped(body, backupFields, 'BackupOptions');
}

export function backupCheckpoint(body: Record<string, unknown> = {}): object {
  return shaped(body, checkpointFields, 'BackupCheckpoint');
}

export function launchSecret(body: Record<string, unknown> = {}): object {
  return shaped(body, secretFields, 'SEVSecretOptions');
}

const maxInt32 = 2 ** 31 - 1;

/** Whole seconds until the launcher unfreezes by itself; 0: it does not. Throws RestError BAD_REQUEST, also without a body. */
export function unfreezeAfterSeconds(body: Record<string, unknown> | undefined): number {
  const { unfreezeTimeout } = shaped(body ?? {}, freezeFields, 'FreezeUnfreezeTimeout');
  if (unfreezeTimeout === undefined) throw badRequest('unfreezeTimeout is missing: {"unfreezeTimeout":"5m0s"}');
  const durationMs = parseGoDurationMs(String(unfreezeTimeout));
  const seconds = durationMs === undefined ? Number.NaN : Math.trunc(durationMs / 1000) + 0;
  if (!(seconds >= 0 && seconds <= maxInt32)) {
    throw badRequest('unfreezeTimeout must be a duration of up to 68 years, as "5m0s"');
  }
  return seconds;
}
