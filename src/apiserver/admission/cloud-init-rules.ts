import { isRecord } from '../../base/index.ts';
import { type FieldError, refusedField } from '../errors.ts';
import { type JsonObject, stringAt } from '../object.ts';

/** More of it belongs into a Secret: each change of a VM goes to all who watch it. */
const maxBytes = 2048;
const kinds = [
  { member: 'userData', secret: 'secretRef', word: 'userdata', source: 'userdatasource', advice: 'UserDataSecretRef' },
  {
    member: 'networkData',
    secret: 'networkDataSecretRef',
    word: 'networkdata',
    source: 'networkdata source',
    advice: 'NetworkDataSecretRef',
  },
] as const;

/** What KubeVirt's webhook says of data for cloud-init (upstream: validateVolumes in vmi-create-admitter.go). */
export function checkCloudInit(volume: JsonObject, field: string): FieldError[] {
  return ['cloudInitNoCloud', 'cloudInitConfigDrive'].flatMap((name) => {
    const seed = volume[name];
    if (!isRecord(seed)) return [];
    const path = `${field}.${name}`;
    const read = kinds.map((kind) => checkData(seed, kind, path));
    const found = read.flatMap(({ errors }) => errors);
    if (read.some(({ isThere }) => isThere)) return found;
    const words = `${path} must have at least one userdatasource or one networkdatasource set.`;
    return [...found, refusedField(path, words)];
  });
}

function checkData(seed: JsonObject, { member, secret, word, source, advice }: (typeof kinds)[number], path: string) {
  const plain = stringAt(seed, member) ?? '';
  // Ends of lines count for nothing in base64, as Go reads it: `base64` writes 76 columns.
  const encoded = (stringAt(seed, `${member}Base64`) ?? '').replace(/[\r\n]/g, '');
  const given = [stringAt(seed, secret, 'name'), plain, encoded].filter(Boolean).length;
  const errors: FieldError[] = [];
  const isBase64 = encoded.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(encoded);
  if (!isBase64) {
    const where = `${path}.${member}Base64`;
    const kind = path.slice(path.lastIndexOf('.') + 1);
    errors.push(refusedField(where, `${where}.${kind}.${member}Base64 is not a valid base64 value.`));
  }
  if (given > 1) errors.push(refusedField(path, `${path} must have only one ${source} set.`));
  const size = plain === '' ? Buffer.from(encoded, 'base64').length : Buffer.byteLength(plain);
  if (size > maxBytes) {
    const words = `${path} ${word} exceeds ${maxBytes} byte limit. Should use ${advice} for larger data.`;
    errors.push(refusedField(path, words));
  }
  return { isThere: given > 0, errors };
}
