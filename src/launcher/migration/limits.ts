import { parseQuantity, type VirtualMachineInstance } from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';
import type { MigrationSettings } from './settings.ts';

const gigabyte = 1e9;

/** Bytes of the guest's memory, as its VMI asks for it. */
export function memoryBytes({ spec }: VirtualMachineInstance): number {
  const { memory, resources } = spec.domain;
  const asked = memberAt(memory, 'guest') ?? memberAt(resources, 'requests', 'memory');
  return parseQuantity(asked as string) ?? 0;
}

/** The time that a migration of this size may take (upstream's `acceptableCompletionTime`); undefined: any. */
export function acceptableMs(bytes: number, { completionSecondsPerGiB }: MigrationSettings): number | undefined {
  if (completionSecondsPerGiB <= 0) return undefined;
  return completionSecondsPerGiB * Math.max(1, Math.ceil(bytes / gigabyte)) * 1000;
}
