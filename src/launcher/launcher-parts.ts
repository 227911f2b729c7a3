import path from 'node:path';
import { domainName, guestPortsSocket, type VirtualMachineInstance } from '../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../base/index.ts';
import type { cmd } from '../wire/index.ts';
import { SevAttestation } from './attestation/index.ts';
import { VmBackup } from './backup/index.ts';
import { BackupTunnel } from './backup-tunnel/index.ts';
import { commandService } from './cmd-server/index.ts';
import type { PodPaths } from './daemon/index.ts';
import { chownToQemu } from './disks/index.ts';
import type { ConverterOptions, VmiIdentity } from './domain/index.ts';
import {
  AccessCredentials,
  GuestAccess,
  GuestFreezer,
  GuestPoller,
  GuestStore,
  GuestTimeSync,
  guestAgentInfo,
} from './guest-agent/index.ts';
import { DiskSync, type DiskSyncDeps, HostDevicePlug, type HostDevicePlugDeps } from './hot-plug/index.ts';
import {
  DomainEvents,
  DomainLock,
  DomainReader,
  GracePeriod,
  type LauncherLife,
  MetadataCache,
  PowerControl,
  QemuWatch,
  qemuEnded,
  qemuStarted,
  type SyncDeps,
  VmiSync,
} from './lifecycle/index.ts';
import { MemoryDump } from './memory-dump/index.ts';
import { LiveMigration } from './migration/index.ts';
import { NicSync, type PodNetwork } from './network/index.ts';
import { DomainNotifier, NotifyClient, watchPipe } from './notify/index.ts';
import type { LauncherOptions } from './options.ts';
import { existingDomain, type Hypervisor, type HypervisorEvent } from './ports.ts';
import { GuestSize } from './resize/index.ts';
import { StatsCollector } from './stats/index.ts';
import { GuestPortServer, UserNetwork } from './user-network/index.ts';

export interface PartsOptions {
  readonly flags: LauncherOptions;
  readonly identity: VmiIdentity;
  readonly paths: PodPaths;
  /** CPUs that the pod may use. */
  readonly cpuSet: readonly number[];
  /** Set when QEMU runs as another user than this process. */
  readonly qemuUser?: { readonly uid: number; readonly gid: number };
}

export interface PartsDeps {
  readonly hypervisor: Hypervisor;
  readonly prepare: (
    vmi: VirtualMachineInstance,
    options: ConverterOptions,
    given?: { readonly isIncoming: boolean },
  ) => Promise<string>;
  readonly findMedia: DiskSyncDeps['findMedia'];
  readonly tracking: DiskSyncDeps['tracking'];
  readonly findSriovDevices: HostDevicePlugDeps['findSriovDevices'];
  /** Absent with QEMU's user networking. */
  readonly network: PodNetwork | undefined;
  readonly life: LauncherLife;
  readonly signalProcess: (pid: number, signal: NodeJS.Signals) => void;
  readonly onTargetPodCleanup: (targetPod: string) => void;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Longest wait of a change for the one before it; the agent itself waits 20 s. */
const lockWaitMs = 15_000;
const notifyRetryMs = 1000;
const qemuPollMs = 1000;
const maxWaitingEvents = 32;

/** Everything of a launcher that works on its domain, tied together. Nothing runs before `start`. */
export class LauncherParts {
  readonly metadata: MetadataCache;
  readonly notifier: DomainNotifier;
  readonly power: PowerControl;
  readonly qemu: QemuWatch;
  readonly sync: VmiSync;
  readonly service: cmd.CmdServer;
  readonly #options: PartsOptions;
  readonly #deps: PartsDeps;
  readonly #client: NotifyClient;
  readonly #guest = new GuestStore();
  readonly #poller: GuestPoller;
  readonly #grace: GracePeriod;
  readonly #freezer: GuestFreezer;
  readonly #access: GuestAccess;
  readonly #guestTime: GuestTimeSync;
  readonly #credentials: AccessCredentials;
  readonly #events: DomainEvents;
  readonly #reader: DomainReader;
  readonly #lock: DomainLock;
  readonly #migration: LiveMigration;
  readonly #dump: MemoryDump;
  readonly #backup: VmBackup;
  readonly #tunnel: BackupTunnel;
  /** Of a guest with QEMU's user networking. */
  readonly #userNetwork: UserNetwork | undefined;
  readonly #guestPorts: GuestPortServer | undefined;
  #stopPipeWatch: (() => void) | undefined;

  constructor(options: PartsOptions, deps: PartsDeps) {
    const { flags, identity, paths } = options;
    const { hypervisor, life, log, clock } = deps;
    const named = { domainName: domainName(identity.namespace, identity.name), identity };
    this.#options = options;
    this.#deps = deps;
    const refuse = (name: string) => this.#migration.refuse(name);
    this.#lock = new DomainLock({ maxWaitMs: lockWaitMs }, { clock, refuse });
    this.metadata = new MetadataCache({ file: paths.stateFile }, { log });
    const shared = { hypervisor, log, clock, lock: this.#lock, metadata: this.metadata, guest: this.#guest };
    this.#reader = new DomainReader(named, shared);
    this.#client = new NotifyClient({ socketPath: paths.notifyPipe, identity });
    this.notifier = new DomainNotifier(
      { retryMs: notifyRetryMs, maxEvents: maxWaitingEvents },
      { read: () => this.#reader.readForEvent(), sender: this.#client, log, clock },
    );
    this.qemu = new QemuWatch(
      { pidFile: paths.libvirt.qemuPidFile, pollMs: qemuPollMs },
      { onStarted: () => life.move(qemuStarted), onEnded: () => life.move(qemuEnded), clock },
    );
    const killQemu = () => this.#killQemu();
    this.power = new PowerControl(named, { ...shared, killQemu });
    this.#grace = new GracePeriod(
      { graceSeconds: flags.gracePeriodSeconds },
      { ...shared, life, power: this.power, qemu: this.qemu, signalProcess: deps.signalProcess },
    );
    const disks = new DiskSync(
      { hotplugDir: paths.disks.hotplugDiskDir },
      {
        ...shared,
        findMedia: deps.findMedia,
        tracking: deps.tracking,
        onMediumChange: () => this.#events.factsChanged(),
      },
    );
    const syncDisks: SyncDeps['syncDisks'] = (domain, vmi, converter) => disks.sync(domain, vmi, converter);
    const qemu = { ...(options.qemuUser && { owner: options.qemuUser }) };
    const giveToQemu = (file: string) => chownToQemu(file, qemu);
    this.#dump = new MemoryDump({ ...named, hotplugDir: paths.disks.hotplugDiskDir }, { ...shared, giveToQemu });
    const nics = new NicSync({ ...shared, network: deps.network });
    const userNetwork = deps.network
      ? undefined
      : new UserNetwork(named, { ...shared, refuse, notifier: this.notifier });
    this.#userNetwork = userNetwork;
    const portsFile = path.join(paths.vmiDir, guestPortsSocket);
    this.#guestPorts = userNetwork && new GuestPortServer({ socketFile: portsFile }, { network: userNetwork, log });
    const syncNetwork: SyncDeps['syncNetwork'] = async (domain, vmi, converter) => {
      await nics.sync(domain, vmi, converter);
      await userNetwork?.publish(vmi);
    };
    const onStarted = (vmi: VirtualMachineInstance) => void userNetwork?.started(vmi);
    this.sync = new VmiSync(named, { ...shared, prepare: deps.prepare, syncDisks, syncNetwork, onStarted });
    this.#poller = new GuestPoller({ ...named, intervals: flags }, { ...shared, store: this.#guest });
    this.#freezer = new GuestFreezer(shared);
    // Upstream's name of it.
    const nbdSocket = path.join(paths.socketsDir, 'backup-nbd-sock');
    this.#tunnel = new BackupTunnel({ nbdSocket }, shared);
    this.#backup = new VmBackup(
      {
        ...named,
        vmiName: identity.name,
        hotplugDir: paths.disks.hotplugDiskDir,
        nbdSocket,
      },
      { ...shared, freezer: this.#freezer, tunnel: this.#tunnel, giveToQemu },
    );
    this.#access = new GuestAccess(
      { ...named, swtpmDir: paths.disks.swtpmDir },
      { ...shared, freezer: this.#freezer, notifier: this.notifier },
    );
    this.#guestTime = new GuestTimeSync(named, shared);
    const secretsDir = path.join(paths.disks.privateDir, 'secret');
    this.#credentials = new AccessCredentials({ ...named, secretsDir }, shared);
    this.#migration = new LiveMigration(
      {
        ...named,
        proxyDir: path.join(paths.shareDir, 'migrationproxy'),
        isSession: flags.runAsNonroot,
        owner: options.qemuUser,
      },
      {
        ...shared,
        notifier: this.notifier,
        prepare: (vmi, converter) => deps.prepare(vmi, converter, { isIncoming: true }),
        findMedia: deps.findMedia,
        syncTime: () => this.#guestTime.start(),
      },
    );
    const qemuLogFile = path.join(paths.libvirt.qemuLogDir, `${named.domainName}.log`);
    this.#events = new DomainEvents(
      { ...named, qemuLogFile },
      {
        ...shared,
        notifier: this.notifier,
        reader: this.#reader,
        poller: this.#poller,
        credentials: this.#credentials,
        qemu: this.qemu,
      },
    );
    this.service = this.#commandService(named.domainName, new StatsCollector(named, shared));
  }

  handleEvent(event: HypervisorEvent): void {
    this.#migration.handle(event);
    this.#events.handle(event);
    this.#backup.handle(event);
  }

  /** SyncVMI as the command server and the standalone mode call it. */
  async syncVmi(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    await this.sync.sync(vmi, options);
    this.#access.noteVmi(vmi);
    if (this.metadata.state.run.kind !== 'has-run') return;
    this.qemu.noteStarted();
    this.#credentials.noteVmi(vmi);
  }

  start(): void {
    const { paths } = this.#options;
    this.metadata.onChange(() => this.#events.factsChanged());
    this.#guest.onChange(() => this.#events.factsChanged());
    this.#grace.start();
    this.#dump.start();
    this.notifier.start();
    this.#migration.start();
    this.#guestPorts?.start().catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'ports of the guest are not reached');
    });
    this.#stopPipeWatch = watchPipe(paths.notifyPipe, this.#deps.clock, () => this.notifier.agentAppeared());
  }

  async stop(): Promise<void> {
    this.#stopPipeWatch?.();
    this.#migration.stop();
    this.#poller.stop();
    this.#freezer.stop();
    this.#tunnel.close();
    this.#guestTime.stop();
    this.#credentials.stop();
    this.#deps.network?.stop();
    this.#userNetwork?.stop();
    await this.#guestPorts?.stop();
    this.qemu.stop();
    this.#grace.stop();
    // Ends a send that is under way.
    this.#client.close();
    await this.notifier.stop();
    this.#client.close();
  }

  #commandService(domain: string, stats: StatsCollector): cmd.CmdServer {
    const { identity, flags, cpuSet } = this.#options;
    const { hypervisor, log } = this.#deps;
    const size = new GuestSize({ domainName: domain, cpuSet }, { hypervisor, lock: this.#lock });
    const { findSriovDevices, clock } = this.#deps;
    const hostDevices = new HostDevicePlug(
      { domainName: domain },
      { hypervisor, log, clock, findSriovDevices, lock: this.#lock },
    );
    const attestation = new SevAttestation({ domainName: domain }, { hypervisor });
    return commandService({
      identity,
      log,
      guest: this.#access,
      domain: {
        sync: (vmi, options) => this.syncVmi(vmi, options),
        pause: () => this.power.pause(),
        unpause: () => this.#unpause(),
        reset: () => this.#unlessMigrating('ResetVMI', () => this.power.reset()),
        softReboot: (vmi) => this.#unlessMigrating('SoftRebootVMI', () => this.power.softReboot(vmi)),
        shutdown: async () => {
          await this.#migration.giveWay('SignalShutdownVMI');
          await this.power.shutdown();
        },
        kill: () => this.power.kill(),
        delete: async () => {
          await this.#migration.awaitEnd('DeleteVMI');
          await this.#unlessMigrating('DeleteVMI', () => this.power.delete());
        },
        setVcpus: (vmi, options) => size.setVcpus(vmi, options),
        setMemory: (vmi) => size.setMemory(vmi),
        plugHostDevices: (vmi) => this.#unlessMigrating('HotplugHostDevices', () => hostDevices.order(vmi)),
        injectLaunchSecret: (options) => attestation.injectSecret(options),
        dumpMemory: (file) => this.#unlessMigrating('Memorydump', () => this.#dump.begin(file)),
        backup: (options) => this.#unlessMigrating('Backup', () => this.#backup.order(options)),
        redefineCheckpoint: (json) => this.#unlessMigrating('RedefineCheckpoint', () => this.#backup.redefine(json)),
        signalTargetPodCleanup: (vmi) => this.#deps.onTargetPodCleanup(vmi.status?.migrationState?.targetPod ?? ''),
      },
      migration: {
        migrate: async (vmi, options) => {
          this.#backup.refuse('a migration');
          await this.#migration.migrate(vmi, options);
        },
        cancel: (vmi) => this.#migration.cancel(vmi),
        prepareTarget: (vmi, options) => this.#migration.prepareTarget(vmi, options),
        finalize: (interfaces) => this.#migration.finalize(interfaces),
      },
      queries: {
        domain: () => this.#reader.readCurrent(),
        stats: () => stats.current(),
        dirtyRate: () => stats.dirtyRate(),
        guestInfo: () => guestAgentInfo(this.#guest.facts),
        users: () => this.#guest.facts.users,
        filesystems: () => this.#guest.facts.filesystems,
        qemuVersion: () => hypervisor.version(),
        sevInfo: () => attestation.platform(),
        launchMeasurement: () => attestation.measurement(),
        screenshot: () => this.#screenshot(domain),
        vmStatsEnabled: flags.vmStatsCollector,
        agentVersion: () => this.#guest.facts.agentVersion,
        agentAnswer: (command) => this.#access.answer(command),
      },
    });
  }

  async #unlessMigrating(what: string, work: () => Promise<void>): Promise<void> {
    this.#migration.refuse(what);
    await work();
  }

  #killQemu(): void {
    const pid = this.qemu.livingPid;
    if (pid !== undefined) this.#deps.signalProcess(pid, 'SIGKILL');
  }

  async #unpause(): Promise<void> {
    if (await this.power.unpause()) this.#guestTime.start();
  }

  async #screenshot(domainName: string) {
    const { hypervisor } = this.#deps;
    return hypervisor.screenshot(await existingDomain(hypervisor, domainName));
  }
}
