import { pidNamespace } from './peer.ts';
import {
  argumentsOf,
  childrenOf,
  innerPid,
  type NamedProcess,
  namedIn,
  nameOf,
  processFacts,
} from './process-table.ts';

export interface StartedBy {
  /** The process that started libvirt's daemon. */
  readonly launcherPid: number;
  readonly procDir: string;
}

const daemonNames = ['virtqemud', 'libvirtd'];
/** As the kernel cuts it: `qemu-system-x86`. */
const qemuNames = ['qemu-system', 'qemu-kvm'];

type IsIt = (pid: number) => boolean | Promise<boolean>;

/** libvirt's daemon that the launcher started; undefined: it starts its guests in another way. */
export async function findDaemon({ launcherPid, procDir }: StartedBy): Promise<number | undefined> {
  const isDaemon: IsIt = (pid) => processFacts(pid, procDir)?.parent === launcherPid;
  const isNamed = (name: string) => daemonNames.includes(name);
  const children = await childrenOf(launcherPid, procDir);
  return (await firstOf(namedIn(procDir, children), isNamed, isDaemon)) ?? firstOf(namedIn(procDir), isNamed, isDaemon);
}

/**
 * QEMU of the domain `name`. It is no child of the launcher: libvirt starts it as a daemon, so the launcher's ancestors in the
 * container have it. Unlike upstream's look for a child of the launcher's parent this one believes no other process of the machine,
 * whatever a tenant calls it: it is in the launcher's own pid namespace and has the guest's name.
 */
export async function findQemu(name: string, { launcherPid, procDir }: StartedBy): Promise<number | undefined> {
  const namespace = pidNamespace(launcherPid, procDir);
  if (namespace === undefined) return undefined;
  const given = `guest=${name}`;
  const isNamed = (each: string) => qemuNames.some((prefix) => each.startsWith(prefix));
  const isQemu: IsIt = async (pid) =>
    pidNamespace(pid, procDir) === namespace &&
    (await argumentsOf(pid, procDir)).some((argument) => argument === given || argument.startsWith(`${given},`));
  for (const pid of ancestors(launcherPid, namespace, procDir)) {
    if (isNamed(nameOf(pid, procDir)) && (await isQemu(pid))) return pid;
    const found = await firstOf(namedIn(procDir, await childrenOf(pid, procDir)), isNamed, isQemu);
    if (found !== undefined) return found;
  }
  return firstOf(namedIn(procDir), isNamed, isQemu);
}

/** A launcher that no monitor started has none but itself; on a node without containers the last one is process 1. */
function ancestors(launcherPid: number, namespace: string, procDir: string): number[] {
  const found: number[] = [];
  for (let pid = launcherPid; pid > 0 && found.length < maxAncestors; pid = processFacts(pid, procDir)?.parent ?? 0) {
    if (pidNamespace(pid, procDir) !== namespace) break;
    found.push(pid);
  }
  return found;
}

const maxAncestors = 8;

async function firstOf(
  processes: AsyncIterable<NamedProcess>,
  isNamed: (name: string) => boolean,
  isIt: IsIt,
): Promise<number | undefined> {
  for await (const { id, name } of processes) if (isNamed(name) && (await isIt(id))) return id;
  return undefined;
}

/** vCPU → thread. */
export async function vcpuThreads(qemu: number, procDir: string): Promise<ReadonlyMap<number, number>> {
  const threads = new Map<number, number>();
  for await (const { id, name } of namedIn(`${procDir}/${qemu}/task`)) {
    const vcpu = vcpuOf(name);
    if (vcpu !== undefined) threads.set(vcpu, id);
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
const kthreadd = 2;

/**
 * The kernel's thread for the guest's interval timer. It is named after QEMU's pid in its own namespace, which several launchers
 * can share: of those the one that was made first after this QEMU. No process of a tenant is a kernel thread, whatever its name.
 */
export async function findPitThread(qemu: number, procDir: string): Promise<number | undefined> {
  const wanted = `kvm-pit/${innerPid(qemu, procDir)}`;
  const qemuStart = Number(processFacts(qemu, procDir)?.startTicks ?? Number.POSITIVE_INFINITY);
  const kernelThreads = await childrenOf(kthreadd, procDir);
  const found: { readonly id: number; readonly startTicks: number }[] = [];
  for await (const { id, name } of namedIn(procDir, kernelThreads.length > 0 ? kernelThreads : undefined)) {
    const facts = name === wanted ? processFacts(id, procDir) : undefined;
    const isIt = facts && (facts.flags & kernelThread) !== 0 && Number(facts.startTicks) >= qemuStart;
    if (isIt) found.push({ id, startTicks: Number(facts.startTicks) });
  }
  return found.sort((one, other) => one.startTicks - other.startTicks)[0]?.id;
}
