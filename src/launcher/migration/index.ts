/**
 * Owns: a guest that leaves to another node or arrives from one: what libvirt is asked for, looking after the migration, cancelling,
 * what is made ready on the target, and the record of it that the agent reads.
 * Must not know: gRPC, where the sockets of the agent's proxies lead, how libvirt is reached.
 */
export { LiveMigration } from './live-migration.ts';
