/**
 * Owns: which running VMIs have to move, or to be shut down, because of what they or the cluster have become: CPUs, memory, networks or
 * volumes that come with a migration, launchers of an older image.
 * Must not know: how migrations are carried out, how evictions are answered.
 */
export { WorkloadUpdateController } from './controller.ts';
