import type { VirtualMachineInstance } from '../api/index.ts';
import { errorMessage } from '../base/index.ts';
import { LauncherError } from './errors.ts';
import { checkVmi } from './domain/vmi-json.ts';

/** `STANDALONE_VMI` (spec 70 §12): YAML, of which JSON is a part. Throws BAD_VMI. */
export async function readStandaloneVmi(text: string | undefined): Promise<VirtualMachineInstance | undefined> {
  if (text === undefined) return undefined;
  const { parse } = await import('yaml');
  let value: unknown;
  try {
    value = parse(text);
  } catch (cause) {
    throw new LauncherError('BAD_VMI', `STANDALONE_VMI cannot be read: ${errorMessage(cause)}`, { cause });
  }
  return checkVmi(value, { namespace: '', name: '', uid: '' });
}
