import { CodedError, errorMessage } from '../base/index.ts';
import { type KeyPairPaths, readAuthorities, readTlsSettings, type TlsSettings } from '../tls/index.ts';

/** A volume of the pod, and the addresses that it is to be had at. */
export interface ExportedVolume {
  /** A block device, or the directory where a file system is mounted. */
  readonly path: string;
  readonly rawUri?: string;
  readonly gzipUri?: string;
  /** Ends with a slash. */
  readonly dirUri?: string;
  readonly archiveUri?: string;
}

/** Disks of a guest that runs, as they were at one instant. */
export interface ExportedBackups {
  readonly uid: string;
  /** PEM, of who signs the certificate of the launcher. */
  readonly ca: string;
  readonly type: 'Full' | 'Incremental';
  /** Of the bitmap of what has changed; empty: there is none. */
  readonly checkpoint: string;
  readonly disks: readonly ExportedDisk[];
}

export interface ExportedDisk {
  /** The volume's in the VM. */
  readonly name: string;
  readonly dataUri: string;
  readonly mapUri: string;
}

export interface ExportSettings {
  readonly listen: { readonly host: string; readonly port: number };
  readonly keyPair: KeyPairPaths;
  readonly tokenFile: string;
  readonly tls: TlsSettings;
  /** From then on nobody is served any more. */
  readonly deadline?: Date;
  /** Below `/internal` and `/external`. */
  readonly vmUri?: string;
  readonly secretUri?: string;
  readonly volumes: readonly ExportedVolume[];
  /** What a launcher brings. */
  readonly backups?: ExportedBackups;
  /** Holds what the manifests are made of. */
  readonly manifestDir: string;
}

/** A variable of the environment cannot be used; the message names it. */
export class ExportSettingsError extends CodedError<'BAD_SETTING'> {}

type Environment = Readonly<Record<string, string | undefined>>;

const pathSuffix = '_EXPORT_PATH';
const backupSuffix = '_BACKUP_PATH';
/** Go's numbers of TLS versions, which upstream's controller writes. */
const versions: ReadonlyMap<string, string> = new Map([
  ['769', 'VersionTLS10'],
  ['770', 'VersionTLS11'],
  ['771', 'VersionTLS12'],
  ['772', 'VersionTLS13'],
]);
/** IANA's numbers of the suites that Go has names for. */
const suites: ReadonlyMap<unknown, string> = new Map([
  [0x1301, 'TLS_AES_128_GCM_SHA256'],
  [0x1302, 'TLS_AES_256_GCM_SHA384'],
  [0x1303, 'TLS_CHACHA20_POLY1305_SHA256'],
  [0xc02b, 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256'],
  [0xc02f, 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'],
  [0xc02c, 'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
  [0xc030, 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384'],
  [0xcca9, 'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256'],
  [0xcca8, 'TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256'],
]);

/**
 * The variables that upstream's controller gives its own server (cmd/virt-exportserver and pkg/storage/export/export/paths.go). Throws
 * ExportSettingsError, also for what this server cannot give.
 */
export function readExportSettings(env: Environment): ExportSettings {
  refuseUnknown(env);
  const deadline = env.DEADLINE ? deadlineOf(env.DEADLINE) : undefined;
  const vmUri = uriOf(env, 'EXPORT_VM_DEF_URI');
  const secretUri = uriOf(env, 'EXPORT_SECRET_DEF_URI');
  const backups = backupsOf(env);
  return {
    listen: listenOf(env.LISTEN_ADDR || ':8443'),
    keyPair: { certFile: needed(env, 'CERT_FILE'), keyFile: needed(env, 'KEY_FILE') },
    tokenFile: needed(env, 'TOKEN_FILE'),
    tls: tlsOf(env),
    ...(deadline && { deadline }),
    ...(vmUri !== undefined && { vmUri }),
    ...(secretUri !== undefined && { secretUri }),
    volumes: Object.keys(env)
      .filter((name) => name.endsWith(pathSuffix))
      .sort()
      .map((name) => volumeOf(env, name)),
    ...(backups && { backups }),
    manifestDir: '/manifest_data',
  };
}

/** A client that waits for what never comes is worse off than one whose export does not start. */
function refuseUnknown(env: Environment): void {
  if (env.EXPORT_OCI_URI) throw bad('EXPORT_OCI_URI', 'archives of OCI images are not made by this server');
}

function backupsOf(env: Environment): ExportedBackups | undefined {
  const names = Object.keys(env).filter((name) => name.endsWith(backupSuffix));
  if (names.length === 0) return undefined;
  const type = needed(env, 'BACKUP_TYPE');
  if (type !== 'Full' && type !== 'Incremental') throw bad('BACKUP_TYPE', 'must be Full or Incremental');
  const checkpoint = env.BACKUP_CHECKPOINT ?? '';
  if (type === 'Incremental' && checkpoint === '')
    throw bad('BACKUP_CHECKPOINT', 'must be set of an incremental backup');
  const ca = needed(env, 'BACKUP_CACERT');
  try {
    readAuthorities(ca);
  } catch (cause) {
    throw bad('BACKUP_CACERT', errorMessage(cause));
  }
  return { uid: needed(env, 'BACKUP_UID'), ca, type, checkpoint, disks: names.sort().map((name) => diskOf(env, name)) };
}

function diskOf(env: Environment, variable: string): ExportedDisk {
  const prefix = variable.slice(0, -backupSuffix.length);
  const [dataUri, mapUri] = ['DATA_URI', 'MAP_URI'].map((kind) => {
    const uri = uriOf(env, `${prefix}_${kind}`);
    if (uri !== undefined) return uri;
    throw bad(`${prefix}_${kind}`, 'must be set');
  });
  return { name: needed(env, variable), dataUri: dataUri ?? '', mapUri: mapUri ?? '' };
}

function volumeOf(env: Environment, name: string): ExportedVolume {
  const prefix = name.slice(0, -pathSuffix.length);
  const path = env[name] ?? '';
  if (!path.startsWith('/')) throw bad(name, 'must be an absolute path');
  const [rawUri, gzipUri, dirUri, archiveUri] = ['RAW_URI', 'RAW_GZIP_URI', 'DIR_URI', 'ARCHIVE_URI'].map((kind) =>
    uriOf(env, `${prefix}_EXPORT_${kind}`),
  );
  return {
    path,
    ...(rawUri !== undefined && { rawUri }),
    ...(gzipUri !== undefined && { gzipUri }),
    ...(dirUri !== undefined && { dirUri: dirUri.endsWith('/') ? dirUri : `${dirUri}/` }),
    ...(archiveUri !== undefined && { archiveUri }),
  };
}

function uriOf(env: Environment, name: string): string | undefined {
  const uri = env[name];
  if (!uri) return undefined;
  if (uri.startsWith('/')) return uri;
  throw bad(name, 'must begin with a slash');
}

function needed(env: Environment, name: string): string {
  const value = env[name];
  if (value) return value;
  throw bad(name, 'must be set');
}

/** As Go has it: an empty host is all addresses. */
function listenOf(address: string): ExportSettings['listen'] {
  const at = address.lastIndexOf(':');
  const host = address.slice(0, Math.max(at, 0)).replace(/^\[|\]$/g, '');
  const port = Number(address.slice(at + 1) || Number.NaN);
  if (at >= 0 && Number.isInteger(port) && port >= 0 && port < 65_536) return { host: host || '0.0.0.0', port };
  throw bad('LISTEN_ADDR', 'must be HOST:PORT or :PORT');
}

function deadlineOf(text: string): Date {
  const deadline = new Date(text);
  if (/^\d{4}-\d\d-\d\dT/.test(text) && !Number.isNaN(deadline.getTime())) return deadline;
  throw bad('DEADLINE', 'must be a time as 2026-01-31T12:00:00Z');
}

/** What cannot be read means the defaults, as upstream's has it. */
function tlsOf({ TLS_MIN_VERSION: version = '', TLS_CIPHER_SUITES: ids = '' }: Environment): TlsSettings {
  const ciphers = numbersOf(ids).flatMap((id) => suites.get(id) ?? []);
  return readTlsSettings({ minTLSVersion: versions.get(version), ciphers });
}

function numbersOf(json: string): readonly unknown[] {
  try {
    const parsed: unknown = JSON.parse(json || '[]');
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    return [];
  }
}

function bad(name: string, why: string): ExportSettingsError {
  return new ExportSettingsError('BAD_SETTING', `${name}: ${why}`);
}
