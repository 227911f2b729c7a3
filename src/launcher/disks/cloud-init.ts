import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { CloudInitSource, VirtualMachineInstance, Volume } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import {
  accessCredentialsOf,
  type CloudInitKind,
  credentialDirName,
  domainUuid,
  fileNamePart,
  type ResolvedDisk,
} from '../domain/index.ts';
import { readMountedSecret } from '../mounted-secret.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureIso, type IsoContent } from './iso.ts';

/** More than an object of the API server can hold. */
const maxDataBytes = 1 << 20;
const maxHostnameLength = 63;
const instanceTypeAnnotations = ['kubevirt.io/cluster-instancetype-name', 'kubevirt.io/instancetype-name'];

interface Content {
  readonly metaData: Readonly<Record<string, unknown>>;
  readonly userData: Buffer;
  readonly networkData: Buffer | undefined;
}

/** The CD image a guest's cloud-init reads (`pkg/cloud-init/cloud-init.go`). Throws `BAD_CLOUD_INIT`, `MISSING_SOURCE`. */
export async function prepareCloudInit(
  vmi: VirtualMachineInstance,
  volume: Volume,
  kind: CloudInitKind,
  env: DiskEnv,
): Promise<ResolvedDisk> {
  const namespace = fileNamePart('metadata.namespace', vmi.metadata.namespace);
  const name = fileNamePart('metadata.name', vmi.metadata.name);
  const dir = path.join(env.paths.ephemeralDir, 'cloud-init-data', namespace, name);
  const file = path.join(dir, kind === 'noCloud' ? 'noCloud.iso' : 'configdrive.iso');
  await ensureIso(file, env, async () => {
    const content = await readContent(vmi, volume, kind, env);
    return (kind === 'noCloud' ? noCloudFiles : configDriveFiles)(await changed(content, kind, env));
  });
  return { path: file, format: 'raw', isBlock: false };
}

/** By a hook sidecar, whose messages are text. */
async function changed(content: Content, kind: CloudInitKind, { changeCloudInit }: DiskEnv): Promise<Content> {
  if (!changeCloudInit) return content;
  const { metaData, userData, networkData } = content;
  const texts = { userData: userData.toString('utf8'), networkData: networkData?.toString('utf8') ?? '' };
  const data = await changeCloudInit({ kind, metaData, ...texts });
  return {
    metaData: data.metaData,
    userData: limited(Buffer.from(data.userData), 'the user data of a hook sidecar'),
    networkData:
      data.networkData === ''
        ? undefined
        : limited(Buffer.from(data.networkData), 'the network data of a hook sidecar'),
  };
}

function noCloudFiles({ metaData, userData, networkData }: Content): IsoContent {
  const files = new Map<string, string | Buffer>([
    ['meta-data', JSON.stringify(metaData)],
    ['user-data', userData],
  ]);
  if (networkData) files.set('network-config', networkData);
  return { volumeId: 'cidata', files, fileMode: 0o600 };
}

function configDriveFiles({ metaData, userData, networkData }: Content): IsoContent {
  const files = new Map<string, string | Buffer>([
    ['openstack/latest/meta_data.json', JSON.stringify(metaData)],
    ['openstack/latest/user_data', userData],
  ]);
  if (networkData) files.set('openstack/latest/network_data.json', networkData);
  return { volumeId: 'config-2', files, fileMode: 0o600 };
}

function metaDataOf(vmi: VirtualMachineInstance, kind: CloudInitKind, publicKeys: readonly string[]) {
  const id = `${vmi.metadata.name}.${vmi.metadata.namespace}`;
  if (kind === 'noCloud') {
    return {
      ...instanceType(vmi, 'instance-type'),
      'instance-id': domainUuid(vmi) ?? id,
      'local-hostname': hostname(vmi),
      ...keys(publicKeys, 'public-keys'),
    };
  }
  return {
    ...instanceType(vmi, 'instance_type'),
    instance_id: id,
    hostname: hostname(vmi),
    uuid: domainUuid(vmi) ?? '',
    ...keys(publicKeys, 'public_keys'),
  };
}

function hostname(vmi: VirtualMachineInstance): string {
  const name = vmi.spec.hostname || vmi.metadata.name.split('.')[0] || vmi.metadata.name;
  return name.slice(0, maxHostnameLength);
}

function instanceType(vmi: VirtualMachineInstance, key: string): Record<string, string> {
  const name = instanceTypeAnnotations.map((annotation) => vmi.metadata.annotations?.[annotation]).find(Boolean);
  return name ? { [key]: name } : {};
}

function keys(publicKeys: readonly string[], key: string): Record<string, Record<string, string>> {
  if (publicKeys.length === 0) return {};
  return { [key]: Object.fromEntries(publicKeys.map((text, index) => [String(index), text])) };
}

async function readContent(
  vmi: VirtualMachineInstance,
  volume: Volume,
  kind: CloudInitKind,
  env: DiskEnv,
): Promise<Content> {
  const field = `spec.volumes[${volume.name}].${kind === 'noCloud' ? 'cloudInitNoCloud' : 'cloudInitConfigDrive'}`;
  const source = (kind === 'noCloud' ? volume.cloudInitNoCloud : volume.cloudInitConfigDrive) ?? {};
  const secretDir = path.join(env.paths.privateDir, 'secret', volume.name);
  const userData = await oneOf(source, userFields, { field, secretDir });
  const networkData = await oneOf(source, networkFields, { field, secretDir });
  if (!userData && !networkData) {
    throw new DiskError(
      'BAD_CLOUD_INIT',
      `${field}: has no data: set userData, userDataBase64, secretRef or network data`,
    );
  }
  const metaData = metaDataOf(vmi, kind, await readPublicKeys(vmi, kind, env));
  return { metaData, userData: userData ?? Buffer.alloc(0), networkData };
}

interface FieldNames {
  readonly plain: keyof CloudInitSource;
  readonly base64: keyof CloudInitSource;
  readonly secret: keyof CloudInitSource;
  /** File names in the mounted secret. */
  readonly files: readonly string[];
}

const userFields: FieldNames = {
  plain: 'userData',
  base64: 'userDataBase64',
  secret: 'secretRef',
  files: ['userdata', 'userData'],
};
const networkFields: FieldNames = {
  plain: 'networkData',
  base64: 'networkDataBase64',
  secret: 'networkDataSecretRef',
  files: ['networkdata', 'networkData'],
};

interface DataSource {
  readonly field: string;
  readonly secretDir: string;
}

async function oneOf(source: CloudInitSource, names: FieldNames, from: DataSource): Promise<Buffer | undefined> {
  const plain = source[names.plain];
  const base64 = source[names.base64];
  if (typeof plain === 'string' && plain !== '') return limited(Buffer.from(plain), `${from.field}.${names.plain}`);
  if (typeof base64 === 'string' && base64 !== '') return decodeBase64(base64, `${from.field}.${names.base64}`);
  if (!source[names.secret]) return undefined;
  for (const name of names.files) {
    const data = await readIfThere(path.join(from.secretDir, name));
    if (data) return limited(data, `${from.field}.${names.secret}`);
  }
  throw new DiskError(
    'MISSING_SOURCE',
    `${from.field}.${names.secret}: the secret has no key ${names.files.join(' or ')} (looked in ${from.secretDir}): add one to the secret, then create the VirtualMachineInstance again`,
  );
}

/** Strict: Buffer would skip what it does not understand, and the guest would get half of its configuration. */
function decodeBase64(text: string, field: string): Buffer {
  const compact = text.replace(/\s/g, '');
  if (compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(compact)) {
    throw new DiskError('BAD_CLOUD_INIT', `${field}: is not base64: encode the text with "base64 -w0"`);
  }
  return limited(Buffer.from(compact, 'base64'), field);
}

function limited(data: Buffer, field: string): Buffer {
  if (data.length <= maxDataBytes) return data;
  throw new DiskError('BAD_CLOUD_INIT', `${field}: has ${data.length} bytes, ${maxDataBytes} are possible: shorten it`);
}

/** The kubelet makes an empty directory where it is to mount a key that the secret does not have. */
async function readIfThere(file: string): Promise<Buffer | undefined> {
  return readFile(file).catch((error: unknown) => {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'EISDIR') return undefined;
    throw error;
  });
}

/** SSH keys of access credentials that travel by this kind of cloud-init. */
async function readPublicKeys(vmi: VirtualMachineInstance, kind: CloudInitKind, env: DiskEnv): Promise<string[]> {
  const result: string[] = [];
  for (const credential of accessCredentialsOf(vmi)) {
    if (credential.kind !== 'cloud-init-keys' || credential.by !== kind) continue;
    const { secretName } = credential;
    const dir = path.join(env.paths.privateDir, 'secret', credentialDirName(secretName));
    const keys = await readMountedSecret(dir).catch((cause: unknown) => {
      const message = `spec.accessCredentials: the secret ${secretName} cannot be read at ${dir}`;
      throw new DiskError('MISSING_SOURCE', message, { cause });
    });
    for (const data of keys.values()) result.push(limited(data, `secret ${secretName}`).toString('utf8'));
  }
  return result;
}
