import { getSystemErrorName } from 'node:util';
import { CodedError, errorMessage } from '../base/index.ts';

/** What the kernel grants to other processes and threads: prlimit(2), sched_setscheduler(2), sched_setaffinity(2). */

export type SchedulingErrorCode =
  /** The process or thread has ended. */
  | 'PROCESS_GONE'
  /** Not without rights that this process lacks, or not with the kernel's settings. */
  | 'SCHEDULING_REFUSED';

export class SchedulingError extends CodedError<SchedulingErrorCode> {}

/** All throw SchedulingError. */
export interface Scheduling {
  /** False when the process may lock that much already: a limit is never lowered, for that only breaks what runs. */
  raiseLockedMemory(pid: number, bytes: number): boolean;
  /** SCHED_FIFO: the thread runs until it waits, before all ordinary ones. False when it is so already. */
  setRealtime(tid: number, priority: number): boolean;
  /** Lets a thread run where another one does. */
  copyAffinity(fromTid: number, toTid: number): void;
}

const lockedMemory = 8;
const fifo = 1;
/** Of resources without limit. */
const unlimited = 2n ** 64n - 1n;
/** The kernel refuses a mask that is shorter than its own: room for 8192 CPUs. */
const maskBytes = 1024;
const errors = { notPermitted: 1, noProcess: 3 } as const;

interface Calls {
  readonly prlimit: (
    pid: number,
    resource: number,
    next: BigUint64Array | null,
    before: BigUint64Array | null,
  ) => number;
  readonly setScheduler: (tid: number, policy: number, parameters: Int32Array) => number;
  readonly getScheduler: (tid: number) => number;
  readonly getParameters: (tid: number, parameters: Int32Array) => number;
  readonly getAffinity: (tid: number, size: number, mask: Buffer) => number;
  readonly setAffinity: (tid: number, size: number, mask: Buffer) => number;
  readonly errno: () => number;
}

let scheduling: Promise<Scheduling> | undefined;

/** Loads the C library's calls at the first use, so ask for it only where there is something to set. */
export function loadScheduling(): Promise<Scheduling> {
  scheduling ??= loadCalls().then(schedulingWith);
  return scheduling;
}

async function loadCalls(): Promise<Calls> {
  try {
    const { default: koffi } = await import('koffi');
    const library = koffi.load(null);
    return {
      prlimit: library.func('int prlimit(int pid, int resource, const uint64_t *next, _Out_ uint64_t *before)'),
      setScheduler: library.func('int sched_setscheduler(int pid, int policy, const int *parameters)'),
      getScheduler: library.func('int sched_getscheduler(int pid)'),
      getParameters: library.func('int sched_getparam(int pid, _Out_ int *parameters)'),
      getAffinity: library.func('int sched_getaffinity(int pid, size_t size, _Out_ uint8_t *mask)'),
      setAffinity: library.func('int sched_setaffinity(int pid, size_t size, const uint8_t *mask)'),
      errno: () => koffi.errno(),
    };
  } catch (cause) {
    throw new SchedulingError('SCHEDULING_REFUSED', `the C library cannot be reached: ${errorMessage(cause)}`, {
      cause,
    });
  }
}

function schedulingWith(calls: Calls): Scheduling {
  const check = (result: number, what: string): void => {
    if (result < 0) throw schedulingError(calls.errno(), what);
  };
  return {
    raiseLockedMemory: (pid, bytes) => {
      const limits = new BigUint64Array(2);
      const what = `the limit of locked memory of process ${pid}`;
      check(calls.prlimit(pid, lockedMemory, null, limits), what);
      const next = raisedLimits(limits, BigInt(Math.ceil(bytes)));
      if (!next) return false;
      check(calls.prlimit(pid, lockedMemory, next, null), what);
      return true;
    },
    setRealtime: (tid, priority) => {
      const what = `the scheduling policy of thread ${tid}`;
      const parameters = new Int32Array(1);
      const policy = calls.getScheduler(tid);
      check(policy, what);
      check(calls.getParameters(tid, parameters), what);
      if (policy === fifo && parameters[0] === priority) return false;
      check(calls.setScheduler(tid, fifo, Int32Array.of(priority)), what);
      return true;
    },
    copyAffinity: (fromTid, toTid) => {
      const mask = Buffer.alloc(maskBytes);
      check(calls.getAffinity(fromTid, mask.length, mask), `the CPUs of thread ${fromTid}`);
      check(calls.setAffinity(toTid, mask.length, mask), `the CPUs of thread ${toTid}`);
    },
  };
}

/** Soft and hard limit; undefined: it is enough already. */
function raisedLimits([soft = 0n, hard = 0n]: Iterable<bigint>, bytes: bigint): BigUint64Array | undefined {
  if (soft >= bytes || soft === unlimited) return undefined;
  return BigUint64Array.of(bytes, hard > bytes ? hard : bytes);
}

function schedulingError(number: number, what: string): SchedulingError {
  if (number === errors.noProcess) return new SchedulingError('PROCESS_GONE', `${what}: it has ended`);
  const advice =
    number === errors.notPermitted ? ': run the node agent privileged, with CAP_SYS_NICE and CAP_SYS_RESOURCE' : '';
  return new SchedulingError('SCHEDULING_REFUSED', `${what} cannot be set: ${getSystemErrorName(-number)}${advice}`);
}
