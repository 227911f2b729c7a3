/**
 * Owns: a VirtualMachineInstanceMigration from its creation to its end: its target pod, the hand-over to the agents, its limits, its clean-up.
 * Must not know: VirtualMachines, how guests move, who creates migrations.
 */
export { MigrationController } from './controller.ts';
export { migrationRules } from './decide.ts';
export type { MigrationRetries } from './observation.ts';
