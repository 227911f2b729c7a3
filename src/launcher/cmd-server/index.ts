/**
 * Owns: the gRPC service that the agent calls: requests decoded and checked, answers and failures in upstream's form, readiness.
 * Must not know: libvirt calls, files, how a command is carried out.
 */
export { CommandServer } from './server.ts';
export { commandService } from './service.ts';
