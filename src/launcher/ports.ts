import type { BlockInfo, DomainRef, JobStats, MigrationTarget, TypedParams } from '../libvirt/index.ts';
import { LauncherError } from './errors.ts';

/** What happened in libvirt, as far as this launcher cares. */
export type HypervisorEvent =
  /** Numbers of libvirt's `virDomainEventType` and its details. */
  | { readonly kind: 'lifecycle'; readonly domain: DomainRef; readonly event: number; readonly detail: number }
  | { readonly kind: 'agent'; readonly domain: DomainRef; readonly connected: boolean }
  /** Devices came or went, memory changed its size: the Domain object is out of date. */
  | { readonly kind: 'changed'; readonly domain: DomainRef }
  /** The guest has let go of a device, or has refused to. */
  | { readonly kind: 'unplug'; readonly domain: DomainRef; readonly alias: string; readonly isGone: boolean }
  /** An outgoing migration begins another pass over the guest's memory. */
  | { readonly kind: 'migration-pass'; readonly domain: DomainRef }
  /** A job of libvirt's has ended: `operation` is `JobOperation`; `message` is empty when libvirt says none. */
  | {
      readonly kind: 'job-ended';
      readonly domain: DomainRef;
      readonly operation: number;
      readonly success: boolean;
      readonly message: string;
    }
  /** The daemon answers (again); events may have been missed. */
  | { readonly kind: 'connected' };

export interface DomainStateNumbers {
  readonly state: number;
  readonly reason: number;
}

/**
 * What the launcher asks of libvirt. Failures are `LibvirtError`. The real one is `connectHypervisor`; tests have one in
 * memory that passes the same cases.
 */
export interface Hypervisor {
  /** Undefined when libvirt has no such domain. */
  lookup(name: string): Promise<DomainRef | undefined>;
  list(): Promise<readonly DomainRef[]>;
  define(xml: string): Promise<DomainRef>;
  start(domain: DomainRef, options: { readonly paused: boolean }): Promise<void>;
  state(domain: DomainRef): Promise<DomainStateNumbers>;
  /** The live definition. */
  xml(domain: DomainRef): Promise<string>;
  /** What the domain would be started from. */
  persistentXml(domain: DomainRef): Promise<string>;
  /** The live definition as another daemon takes it from a migration. */
  migratableXml(domain: DomainRef): Promise<string>;
  suspend(domain: DomainRef): Promise<void>;
  resume(domain: DomainRef): Promise<void>;
  reset(domain: DomainRef): Promise<void>;
  reboot(domain: DomainRef, by: 'guest-agent' | 'acpi'): Promise<void>;
  /** Asks the guest to power off. */
  shutdown(domain: DomainRef): Promise<void>;
  /** Ends QEMU: `graceful` with SIGTERM, so that disks are flushed, else with SIGKILL. */
  destroy(domain: DomainRef, options: { readonly graceful: boolean }): Promise<void>;
  /** Keeps NVRAM. */
  undefine(domain: DomainRef): Promise<void>;
  setVcpus(domain: DomainRef, count: number): Promise<void>;
  /** From now on and after the next start, these threads run only on these CPUs of the host. */
  pinVcpu(domain: DomainRef, vcpu: number, cpus: readonly number[]): Promise<void>;
  pinEmulator(domain: DomainRef, cpus: readonly number[]): Promise<void>;
  /** Device changes of the running domain; with `persistent` also of its definition. */
  attachDevice(domain: DomainRef, xml: string, options: { readonly persistent: boolean }): Promise<void>;
  updateDevice(domain: DomainRef, xml: string, options: { readonly persistent: boolean }): Promise<void>;
  /** Asks the guest to release it, and waits some seconds for that; resolves also when the guest has not yet done so. */
  detachDevice(domain: DomainRef, xml: string, options: { readonly persistent: boolean }): Promise<void>;
  /**
   * Takes the device from the definition and asks the guest to release it, without waiting for that: an `unplug` event tells. To ask again changes
   * nothing. `gone`: the guest has no such device.
   */
  requestUnplug(domain: DomainRef, alias: string): Promise<'asked' | 'gone'>;
  /** By target device or path. */
  blockInfo(domain: DomainRef, disk: string): Promise<BlockInfo>;
  blockResize(domain: DomainRef, disk: string, sizeBytes: bigint): Promise<void>;
  diskErrors(domain: DomainRef): Promise<readonly { readonly disk: string; readonly error: number }[]>;
  /** `QEMU 7.2.22`. */
  version(): Promise<string>;
  /** libvirt's, as it counts: 9_000_000 is 9.0.0. */
  libvirtVersion(): Promise<number>;
  screenshot(domain: DomainRef): Promise<{ readonly mime: string; readonly data: Buffer }>;
  /** Writes the guest's memory as an ELF core file; the guest stands still until it resolves. A call without a limit, on a connection of its own. */
  dumpMemory(domain: DomainRef, file: string): Promise<void>;
  /** JSON text in, the agent's whole JSON text out. */
  agentCommand(domain: DomainRef, command: string, timeoutSeconds: number): Promise<string>;
  /** Names as in `virDomainGetGuestInfo`; `types` is `virDomainGuestInfoTypes`. */
  guestInfo(domain: DomainRef, types: number): Promise<TypedParams>;
  /** A line for QEMU's human monitor, and what it says. The first one marks the domain as tainted in libvirt's log, which changes nothing. */
  monitor(domain: DomainRef, line: string): Promise<string>;
  /** A QMP command as JSON text, and QEMU's whole answer. Taints as `monitor` does. */
  qmp(domain: DomainRef, command: string): Promise<string>;
  /** Begins a backup job with a checkpoint; its end is a `job-ended` event. */
  beginBackup(domain: DomainRef, xml: { readonly backup: string; readonly checkpoint: string }): Promise<void>;
  /** Tells libvirt of a checkpoint whose bitmaps are in the images; it looks whether they are. */
  redefineCheckpoint(domain: DomainRef, xml: string): Promise<void>;
  /** Names. */
  checkpoints(domain: DomainRef): Promise<readonly string[]>;
  /** With its bitmaps. */
  deleteCheckpoint(domain: DomainRef, name: string): Promise<void>;
  freeze(domain: DomainRef): Promise<void>;
  unfreeze(domain: DomainRef): Promise<void>;
  setGuestTime(domain: DomainRef, time: Date): Promise<void>;
  /** Replaces the keys that may log in as this user of the guest. By the guest agent. */
  setAuthorizedSshKeys(domain: DomainRef, user: string, keys: readonly string[]): Promise<void>;
  /** Of a user of the guest, by the guest agent; the password stays out of errors. */
  setUserPassword(domain: DomainRef, user: string, password: string): Promise<void>;
  /** AMD SEV of this machine, by libvirt's names. */
  sevInfo(): Promise<TypedParams>;
  /** How the guest's encrypted memory was measured at its start, by libvirt's names; empty: it has none. */
  launchSecurityInfo(domain: DomainRef): Promise<TypedParams>;
  /** For a guest with SEV that has not run yet; both in base64, for the firmware alone. */
  setLaunchSecret(domain: DomainRef, secret: { readonly header: string; readonly secret: string }): Promise<void>;
  /** The groups that upstream asks for, of running and paused domains. */
  stats(): Promise<readonly { readonly domain: DomainRef; readonly params: TypedParams }[]>;
  /** By `virDomainMemoryStatTags`. */
  memoryStats(domain: DomainRef): Promise<ReadonlyMap<number, bigint>>;
  /** Per vCPU, for each host CPU: may it run there. */
  vcpuPins(domain: DomainRef): Promise<readonly (readonly boolean[])[]>;
  /** Measures for `seconds`; the result is in the next `stats`. */
  measureDirtyRate(domain: DomainRef, seconds: number): Promise<void>;
  /**
   * Resolves when the domain runs on the target: a call without a limit, on a connection of its own. `flags`: `MigrateFlag`.
   * After `CONNECTION_LOST` the migration may go on.
   */
  migrate(domain: DomainRef, target: MigrationTarget, flags: number): Promise<void>;
  /** Of the job that is under way; its type is NONE when there is none. */
  jobStats(domain: DomainRef): Promise<JobStats>;
  abortJob(domain: DomainRef): Promise<void>;
  startPostCopy(domain: DomainRef): Promise<void>;
  /** The longest pause that a migration, also a later one, aims at for its switch to the target. */
  setMaxDowntime(domain: DomainRef, milliseconds: number): Promise<void>;
  /** Lets libvirt find out what QEMU can do, which its first define otherwise waits for. */
  warmUp(virtType: string): Promise<void>;
  /** Machine types that QEMU has for guests of this machine's architecture. */
  machineTypes(): Promise<readonly string[]>;
}

/** The domain as libvirt knows it. Throws DOMAIN_NOT_FOUND, in upstream's words. */
export async function existingDomain(hypervisor: Pick<Hypervisor, 'lookup'>, name: string): Promise<DomainRef> {
  const domain = await hypervisor.lookup(name);
  if (domain) return domain;
  throw new LauncherError('DOMAIN_NOT_FOUND', 'Domain not found.');
}

export type HypervisorListener = (event: HypervisorEvent) => void;

/** A Kubernetes event that the agent records on the VMI (`HandleK8SEvent` of `pkg/virt-handler/notify-server/server.go`). */
export interface LauncherEvent {
  readonly reason:
    | 'GuestPanicked'
    | 'IOerror'
    | 'GuestAgentPingFailed'
    | 'MigrationAdjusted'
    | 'PortsPublished'
    | 'PortsNotPublished';
  readonly type: 'Warning' | 'Normal';
  readonly message: string;
}
