/**
 * Owns: how much memory a launcher's processes may lock, and on which CPUs and with which priority the threads of its guest run.
 * Must not know: VMI rules, the API server, launchers' calls.
 */
export { guestLimits, type LimitOptions } from './guest-limits.ts';
