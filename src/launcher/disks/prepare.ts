import type { VirtualMachineInstance } from '../../api/index.ts';
import type { DiskEnv, PreparedDisks } from './env.ts';
import { DiskError } from './errors.ts';

/**
 * The file work before a domain is defined (spec 70 §6.1 preStartHook, 72 §6–7): finds images, makes overlays, empty disks
 * and CD images. What exists is kept: a second call changes nothing. Throws `DiskError`.
 */
export async function prepareDisks(_vmi: VirtualMachineInstance, _env: DiskEnv): Promise<PreparedDisks> {
  throw new DiskError('UNSUPPORTED_FIELD', 'not there yet');
}
