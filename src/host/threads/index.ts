/**
 * Owns: threads of this process for calls of the kernel that may not come back, as on a file system whose server is gone: deadlines, bounds,
 * what becomes of late answers.
 * Must not know: what the calls do.
 */
export { ThreadError } from './errors.ts';
export { type OpenDescriptor, ThreadPool, type ThreadPoolOptions } from './pool.ts';
export type { ThreadData } from './thread.ts';
