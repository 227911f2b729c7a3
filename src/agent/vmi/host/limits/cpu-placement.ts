import { type Domain, domainName, hasDedicatedCpus, type VirtualMachineInstance } from '../../../../api/index.ts';
import { memberAt } from '../../../../base/index.ts';
import {
  CgroupError,
  type CgroupOptions,
  cpusetCgroupOf,
  findPitThread,
  findQemu,
  isVcpu,
  keepHouse,
  type Scheduling,
  SchedulingError,
  vcpuThreads,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';

/** Priorities of upstream (pkg/hypervisor/kvm): the timer's thread comes before the vCPUs that wait for it. */
const vcpuPriority = 1;
const pitPriority = 2;

export interface Placement {
  readonly vmi: VirtualMachineInstance;
  readonly launcherPid: number;
  readonly domain: Domain | undefined;
}

/** Of its domain. */
export function nameOf({ metadata }: VirtualMachineInstance): string {
  return domainName(metadata.namespace ?? '', metadata.name);
}

/** What is done to threads of a guest after its start, and again after each change of it. */
export function needsPlacement(vmi: VirtualMachineInstance): boolean {
  return hasDedicatedCpus(vmi) || Boolean(vmi.spec.domain.cpu?.realtime);
}

/** What was done, and what could not be, in words. */
export interface Placed {
  readonly done: readonly string[];
  readonly failed: readonly string[];
}

/**
 * Puts a guest's threads where its VMI wants them. Repeatable: nothing is moved twice. What cannot be done keeps nothing else from
 * being done; only what is no error of the host is thrown.
 */
export async function placeThreads(
  placement: Placement,
  scheduling: () => Promise<Scheduling>,
  options: CgroupOptions,
): Promise<Placed> {
  const { cpu } = placement.vmi.spec.domain;
  const isIsolated = cpu?.dedicatedCpuPlacement && cpu.isolateEmulatorThread;
  return tryAll([
    ...(isIsolated ? [() => placeEmulator(placement, options)] : []),
    ...(await threadWork(placement, scheduling, options)),
  ]);
}

type Work = () => string | undefined;

/** On QEMU's own threads and its timer's. */
async function threadWork(
  placement: Placement,
  load: () => Promise<Scheduling>,
  options: CgroupOptions,
): Promise<readonly Work[]> {
  const { cpu } = placement.vmi.spec.domain;
  try {
    const qemu = await findQemu(nameOf(placement.vmi), { ...placement, procDir: options.procDir });
    if (qemu === undefined) throw new HostError('NO_QEMU', 'no QEMU of this guest runs in its launcher');
    const threads = await vcpuThreads(qemu, options.procDir);
    const timer = cpu?.dedicatedCpuPlacement ? await findPitThread(qemu, options.procDir) : undefined;
    const scheduling = await load();
    return [
      ...(cpu?.realtime ? [() => prioritize(threads, cpu.realtime?.mask ?? '', scheduling)] : []),
      ...(timer === undefined ? [] : [() => placeTimer(placement, { timer, first: threads.get(0) }, scheduling)]),
    ];
  } catch (error) {
    return [
      () => {
        throw error;
      },
    ];
  }
}

function tryAll(work: readonly Work[]): Placed {
  const done: string[] = [];
  const failed: string[] = [];
  for (const each of work) {
    try {
      done.push(...[each()].filter((text) => text !== undefined));
    } catch (error) {
      if (!isOfHost(error)) throw error;
      failed.push(error.message);
    }
  }
  return { done, failed };
}

function isOfHost(error: unknown): error is Error {
  return error instanceof HostError || error instanceof SchedulingError || error instanceof CgroupError;
}

function placeEmulator({ launcherPid, domain }: Placement, options: CgroupOptions): string | undefined {
  const cpus = memberAt(domain, 'Spec', 'CPUTune', 'EmulatorPin', 'CPUSet');
  if (typeof cpus !== 'string' || cpus === '') return undefined;
  const cgroup = cpusetCgroupOf(launcherPid, options);
  if (!cgroup) return 'the launcher has no cgroup of its own, so its emulator threads stay where libvirt pins them';
  const moved = keepHouse(cgroup, { cpus, isApart: (tid) => isVcpu(tid, options.procDir) });
  return `emulator on CPU ${cpus}, ${moved} threads moved`;
}

function prioritize(threads: ReadonlyMap<number, number>, mask: string, scheduling: Scheduling): string {
  const isWanted = vcpuMask(mask);
  const wanted = [...threads].filter(([vcpu]) => isWanted(vcpu));
  for (const [, tid] of wanted) scheduling.setRealtime(tid, vcpuPriority);
  return `vCPUs ${wanted.map(([vcpu]) => vcpu).join(', ') || 'none'} in real time`;
}

interface Timer {
  readonly timer: number;
  /** The thread of vCPU 0. */
  readonly first: number | undefined;
}

function placeTimer({ vmi }: Placement, { timer, first }: Timer, scheduling: Scheduling): string {
  if (vmi.spec.domain.cpu?.realtime) scheduling.setRealtime(timer, pitPriority);
  if (first !== undefined) scheduling.copyAffinity(first, timer);
  return 'timer beside vCPU 0';
}

/** `0-3,^1`: what is excluded stays so wherever it is named; nothing at all means every vCPU. Throws HostError BAD_CPU_MASK. */
export function vcpuMask(mask: string): (vcpu: number) => boolean {
  if (mask === '') return () => true;
  const parts = mask.split(',').map(maskPart);
  return (vcpu) => {
    const found = parts.filter(({ first, last }) => first <= vcpu && vcpu <= last);
    return found.length > 0 && found.every(({ isExcluded }) => !isExcluded);
  };
}

function maskPart(text: string) {
  const [, not = '', first = '', last = first] = /^(\^?)(\d{1,5})(?:-(\d{1,5}))?$/.exec(text.trim()) ?? [];
  const part = { isExcluded: not !== '', first: Number(first), last: Number(last) };
  if (first !== '' && part.first <= part.last && !(part.isExcluded && first !== last)) return part;
  const problem = `spec.domain.cpu.realtime.mask: ${JSON.stringify(text.slice(0, 100))} is none of 0-3, 2 and ^1`;
  throw new HostError('BAD_CPU_MASK', problem);
}
