import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, isRecord } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';

/** Whose requests this launcher serves; an empty field accepts any. */
export interface VmiIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The VMI of a request as the agent encodes it. Throws BAD_VMI, or WRONG_VMI when it is not this launcher's. */
export function decodeVmi(json: Uint8Array | undefined, own: VmiIdentity): VirtualMachineInstance {
  if (json === undefined || json.length === 0) throw bad('it is empty');
  return checkVmi(parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('utf8')), own);
}

/** The same checks for a VMI that was parsed elsewhere. */
function checkVmi(value: unknown, own: VmiIdentity): VirtualMachineInstance {
  if (!isRecord(value)) throw bad('it is not an object');
  const { metadata, spec } = value;
  if (!isRecord(metadata)) throw bad('metadata is missing');
  for (const field of ['name', 'namespace', 'uid'] as const) {
    const text = metadata[field];
    if (typeof text !== 'string' || text === '') throw bad(`metadata.${field} is missing`);
    if (own[field] !== '' && own[field] !== text) {
      throw new LauncherError('WRONG_VMI', `this launcher serves ${field} ${own[field]}, not ${text}`);
    }
  }
  if (!isRecord(spec) || !isRecord(spec.domain)) throw bad('spec.domain is missing');
  return value as unknown as VirtualMachineInstance;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw bad(errorMessage(cause), cause);
  }
}

function bad(why: string, cause?: unknown): LauncherError {
  return new LauncherError('BAD_VMI', `the request carries no usable VMI: ${why}`, { cause });
}

/** `STANDALONE_VMI`, the VMI of a launcher without an agent: YAML, of which JSON is a part. Throws BAD_VMI. */
export async function readStandaloneVmi(text: string | undefined): Promise<VirtualMachineInstance | undefined> {
  if (text === undefined) return undefined;
  const { parse: parseYaml } = await import('yaml');
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (cause) {
    throw new LauncherError('BAD_VMI', `STANDALONE_VMI cannot be read: ${errorMessage(cause)}`, { cause });
  }
  return checkVmi(value, { namespace: '', name: '', uid: '' });
}
