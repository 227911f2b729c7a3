/**
 * Owns: the streams of live migrations between two nodes, as the VMI loop asks for them. Not built yet: every migration is
 * refused in words.
 * Must not know: rules, status, the Kubernetes API.
 */
export { noMigrationProxy } from './no-migration-proxy.ts';
export type * from './ports.ts';
