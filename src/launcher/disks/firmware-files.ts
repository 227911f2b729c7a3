import { open } from 'node:fs/promises';
import path from 'node:path';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { acpiTables, ignitionOf } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureCreated, giveToQemu } from './image.ts';
import { resolveFileInRoot } from './image-path.ts';

/** Files that the guest's firmware hands on: ACPI tables out of secrets are there, Ignition's configuration is made. Throws `DiskError`, `ConvertError`. */
export async function prepareFirmwareFiles(vmi: VirtualMachineInstance, env: DiskEnv): Promise<void> {
  for (const { field, directory, key } of acpiTables(vmi, env.paths)) {
    await resolveFileInRoot(directory, key).catch((cause: unknown) => {
      const advice = `the secret of this volume must have the key ${key}`;
      throw new DiskError('MISSING_SOURCE', `${field}: ${errorMessage(cause)}: ${advice}`, { cause });
    });
  }
  const ignition = ignitionOf(vmi, env.paths);
  if (!ignition) return;
  const { file, data } = ignition;
  await ensureCreated(path.normalize(file), env, async (part) => {
    const handle = await open(part, 'wx', 0o600);
    try {
      await handle.writeFile(data);
      // It may hold passwords.
      await giveToQemu(handle, env, 0o600);
    } finally {
      await handle.close();
    }
  });
}
