import { readdirSync, readFileSync } from 'node:fs';
import { pidNamespace } from './peer.ts';

/** Fields of proc_pid_stat(5). */
interface ProcessFacts {
  readonly parent: number;
  readonly flags: number;
  /** Clock ticks since the machine's start. */
  readonly startTicks: number;
}

export interface StartedBy {
  /** The process that started libvirt's daemon. */
  readonly launcherPid: number;
  readonly procDir: string;
}

const daemonNames = ['virtqemud', 'libvirtd'];
/** As the kernel cuts it: `qemu-system-x86`. */
const qemuNames = ['qemu-system', 'qemu-kvm'];

/** libvirt's daemon that the launcher started; undefined: it starts its guests in another way. */
export function findDaemon({ launcherPid, procDir }: StartedBy): number | undefined {
  return pids(procDir).find(
    (pid) => daemonNames.includes(nameOf(pid, procDir)) && processFacts(pid, procDir)?.parent === launcherPid,
  );
}

/**
 * QEMU of the domain `name`. It is no child of the launcher: libvirt starts it as a daemon. Unlike upstream's look for a child of the
 * launcher's parent this one believes no other process of the machine, whatever a tenant calls it: it is in the launcher's own pid
 * namespace and has the guest's name.
 */
export function findQemu(name: string, { launcherPid, procDir }: StartedBy): number | undefined {
  const namespace = pidNamespace(launcherPid, procDir);
  if (namespace === undefined) return undefined;
  const given = `guest=${name}`;
  return pids(procDir).find(
    (pid) =>
      qemuNames.some((prefix) => nameOf(pid, procDir).startsWith(prefix)) &&
      pidNamespace(pid, procDir) === namespace &&
      argumentsOf(pid, procDir).some((argument) => argument === given || argument.startsWith(`${given},`)),
  );
}

/** vCPU → thread. */
export function vcpuThreads(qemu: number, procDir: string): ReadonlyMap<number, number> {
  const threads = new Map<number, number>();
  for (const tid of pids(`${procDir}/${qemu}/task`)) {
    const vcpu = vcpuOf(nameOf(tid, `${procDir}/${qemu}/task`));
    if (vcpu !== undefined) threads.set(vcpu, tid);
  }
  return threads;
}

/** QEMU names the threads in which its guest runs `CPU 0/KVM`, and `CPU 0/TCG` where it emulates. */
function vcpuOf(name: string): number | undefined {
  const number = /^CPU (\d{1,5})\/(?:KVM|TCG)$/.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
}

export function isVcpu(tid: number, procDir: string): boolean {
  return vcpuOf(nameOf(tid, procDir)) !== undefined;
}

const kernelThread = 0x0020_0000;

/**
 * The kernel's thread for the guest's interval timer. It is named after QEMU's pid in its own namespace, which several launchers
 * can share: of those the one that was made first after this QEMU. No process of a tenant is a kernel thread, whatever its name.
 */
export function findPitThread(qemu: number, procDir: string): number | undefined {
  const name = `kvm-pit/${innerPid(qemu, procDir)}`;
  const qemuStart = processFacts(qemu, procDir)?.startTicks ?? Number.POSITIVE_INFINITY;
  const found = pids(procDir).flatMap((pid) => {
    const facts = nameOf(pid, procDir) === name ? processFacts(pid, procDir) : undefined;
    return facts && (facts.flags & kernelThread) !== 0 && facts.startTicks >= qemuStart ? { pid, ...facts } : [];
  });
  return found.sort((one, other) => one.startTicks - other.startTicks)[0]?.pid;
}

/** The second number of NSpid; without a namespace of its own there is only one. */
function innerPid(pid: number, procDir: string): string {
  const line = textOf(`${procDir}/${pid}/status`)
    .split('\n')
    .find((each) => each.startsWith('NSpid:'));
  const [outer = '', inner = outer] = line?.split(/\s+/).slice(1) ?? [];
  return inner;
}

function pids(directory: string): number[] {
  try {
    return readdirSync(directory)
      .map(Number)
      .filter((pid) => pid > 0);
  } catch {
    return [];
  }
}

/** Empty for what has ended meanwhile. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

const nameOf = (pid: number, directory: string) => textOf(`${directory}/${pid}/comm`).replace(/\n$/, '');

const argumentsOf = (pid: number, procDir: string) => textOf(`${procDir}/${pid}/cmdline`).split('\0');

function processFacts(pid: number, procDir: string): ProcessFacts | undefined {
  const stat = textOf(`${procDir}/${pid}/stat`);
  if (stat === '') return undefined;
  // The name in parentheses may hold anything, so fields count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), flags: Number(fields[6]), startTicks: Number(fields[19]) };
}
