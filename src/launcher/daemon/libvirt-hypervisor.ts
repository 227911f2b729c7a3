import { errorMessage, Listeners, type Logger } from '../../base/index.ts';
import {
  AffectFlag,
  AgentState,
  type BlockInfo,
  BlockResizeFlag,
  CheckpointCreateFlag,
  CreateFlag,
  DestroyFlag,
  type DomainRef,
  DumpFlag,
  DumpFormat,
  isLibvirtError,
  type JobStats,
  LibvirtClient,
  LibvirtConnector,
  ListFlag,
  type MigrationTarget,
  MonitorFlag,
  ShutdownFlag,
  StatsGroup,
  type TypedParams,
  UndefineFlag,
  VcpuFlag,
  XmlFlag,
} from '../../libvirt/index.ts';
import { machineTypesIn } from '../domain/index.ts';
import type { DomainStateNumbers, Hypervisor, HypervisorEvent, HypervisorListener } from '../ports.ts';

export interface LibvirtHypervisorOptions {
  readonly socketPath: string;
  readonly uri: string;
  /** How long a call waits for a daemon that is being restarted. */
  readonly outageWaitMs: number;
}

const deviceFlags = (persistent: boolean) => AffectFlag.LIVE | (persistent ? AffectFlag.CONFIG : 0);
/** libvirt's words and QEMU's; their code is that of any internal error. */
const noSuchDevice = /no device found with alias/;
const isAskedAlready = /already in the process of unplug/;
const { CPU_TOTAL, BALLOON, VCPU, INTERFACE, BLOCK, DIRTYRATE } = StatsGroup;

/** `Hypervisor` on a libvirt daemon, over two connections: what waits for the guest must not hold up the rest. */
export class LibvirtHypervisor implements Hypervisor {
  readonly #options: LibvirtHypervisorOptions;
  readonly #main: LibvirtConnector;
  readonly #slow: LibvirtConnector;
  readonly #log: Logger;
  readonly #listeners = new Listeners<[event: HypervisorEvent]>();

  constructor(options: LibvirtHypervisorOptions, deps: { readonly log: Logger }) {
    const { socketPath, uri, outageWaitMs } = options;
    const backoff = { baseMs: 20, maxMs: 500 };
    this.#options = options;
    this.#log = deps.log;
    const connector = () =>
      new LibvirtConnector(
        { connect: { socketPath, uri }, backoff, outageWaitMs },
        {
          onSubscribeError: (kind, error) =>
            this.#log.warn({ kind, err: errorMessage(error) }, 'libvirt event is not available'),
          onListenerError: (error) => this.#log.error({ err: errorMessage(error) }, 'event handling failed'),
        },
      );
    this.#main = connector();
    this.#slow = connector();
  }

  get isConnected(): boolean {
    return this.#main.isConnected;
  }

  /** Resolves when libvirt answers and all events are registered. Rejects with CONNECT_FAILED after `signal`. */
  async connect(signal: AbortSignal): Promise<void> {
    this.#main.onConnected(() => this.#emit({ kind: 'connected' }));
    this.#main.onDisconnected((cause) => this.#log.warn({ err: cause?.message }, 'connection to libvirt ended'));
    await this.#main.start(signal);
    await this.#subscribe();
    await this.#slow.start(signal);
  }

  async close(): Promise<void> {
    this.#listeners.clear();
    await Promise.all([this.#main.stop(), this.#slow.stop()]);
  }

  onEvent(listener: HypervisorListener): () => void {
    return this.#listeners.add(listener);
  }

  lookup(name: string): Promise<DomainRef | undefined> {
    return this.#main.lookupDomainByName(name);
  }

  list(): Promise<readonly DomainRef[]> {
    return this.#main.listAllDomains();
  }

  define(xml: string): Promise<DomainRef> {
    return this.#main.defineXml(xml);
  }

  async start(domain: DomainRef, { paused }: { readonly paused: boolean }): Promise<void> {
    await this.#main.createDomain(domain, paused ? CreateFlag.START_PAUSED : 0);
  }

  state(domain: DomainRef): Promise<DomainStateNumbers> {
    return this.#main.getState(domain);
  }

  xml(domain: DomainRef): Promise<string> {
    return this.#main.getXmlDesc(domain);
  }

  persistentXml(domain: DomainRef): Promise<string> {
    return this.#main.getXmlDesc(domain, XmlFlag.INACTIVE);
  }

  migratableXml(domain: DomainRef): Promise<string> {
    return this.#main.getXmlDesc(domain, XmlFlag.MIGRATABLE);
  }

  suspend(domain: DomainRef): Promise<void> {
    return this.#main.suspend(domain);
  }

  resume(domain: DomainRef): Promise<void> {
    return this.#main.resume(domain);
  }

  reset(domain: DomainRef): Promise<void> {
    return this.#main.reset(domain);
  }

  reboot(domain: DomainRef, by: 'guest-agent' | 'acpi'): Promise<void> {
    return this.#slow.reboot(domain, by === 'acpi' ? ShutdownFlag.ACPI_POWER_BTN : ShutdownFlag.GUEST_AGENT);
  }

  shutdown(domain: DomainRef): Promise<void> {
    return this.#main.shutdown(domain, ShutdownFlag.DEFAULT);
  }

  destroy(domain: DomainRef, { graceful }: { readonly graceful: boolean }): Promise<void> {
    return this.#slow.destroy(domain, graceful ? DestroyFlag.GRACEFUL : DestroyFlag.DEFAULT);
  }

  undefine(domain: DomainRef): Promise<void> {
    return this.#main.undefine(domain, UndefineFlag.KEEP_NVRAM | UndefineFlag.CHECKPOINTS_METADATA);
  }

  setVcpus(domain: DomainRef, count: number): Promise<void> {
    return this.#main.setVcpus(domain, count, VcpuFlag.LIVE | VcpuFlag.CONFIG);
  }

  pinVcpu(domain: DomainRef, vcpu: number, cpus: readonly number[]): Promise<void> {
    return this.#main.pinVcpu(domain, vcpu, cpus, AffectFlag.LIVE | AffectFlag.CONFIG);
  }

  pinEmulator(domain: DomainRef, cpus: readonly number[]): Promise<void> {
    return this.#main.pinEmulator(domain, cpus, AffectFlag.LIVE | AffectFlag.CONFIG);
  }

  attachDevice(domain: DomainRef, xml: string, { persistent }: { readonly persistent: boolean }): Promise<void> {
    return this.#main.attachDevice(domain, xml, deviceFlags(persistent));
  }

  updateDevice(domain: DomainRef, xml: string, { persistent }: { readonly persistent: boolean }): Promise<void> {
    return this.#main.updateDevice(domain, xml, deviceFlags(persistent));
  }

  detachDevice(domain: DomainRef, xml: string, { persistent }: { readonly persistent: boolean }): Promise<void> {
    return this.#slow.detachDevice(domain, xml, deviceFlags(persistent));
  }

  async requestUnplug(domain: DomainRef, alias: string): Promise<'asked' | 'gone'> {
    const detach = (flags: number) =>
      this.#main.detachDeviceAlias(domain, alias, flags).then(
        () => 'asked' as const,
        (error: unknown) => {
          if (isLibvirtError(error) && noSuchDevice.test(error.message)) return 'gone';
          if (isLibvirtError(error) && isAskedAlready.test(error.message)) return 'asked';
          throw error;
        },
      );
    // An earlier request has taken it out of the definition.
    await detach(AffectFlag.CONFIG);
    return detach(AffectFlag.LIVE);
  }

  blockInfo(domain: DomainRef, disk: string): Promise<BlockInfo> {
    return this.#main.blockInfo(domain, disk);
  }

  blockResize(domain: DomainRef, disk: string, sizeBytes: bigint): Promise<void> {
    return this.#main.blockResize(domain, disk, sizeBytes, BlockResizeFlag.BYTES);
  }

  diskErrors(domain: DomainRef): Promise<readonly { readonly disk: string; readonly error: number }[]> {
    return this.#main.getDiskErrors(domain);
  }

  async version(): Promise<string> {
    const number = await this.#main.getVersion();
    return `QEMU ${Math.floor(number / 1_000_000)}.${Math.floor(number / 1000) % 1000}.${number % 1000}`;
  }

  libvirtVersion(): Promise<number> {
    return this.#main.getLibVersion();
  }

  screenshot(domain: DomainRef): Promise<{ readonly mime: string; readonly data: Buffer }> {
    return this.#slow.screenshot(domain, 0);
  }

  agentCommand(domain: DomainRef, command: string, timeoutSeconds: number): Promise<string> {
    return this.#slow.agentCommand(domain, command, timeoutSeconds);
  }

  monitor(domain: DomainRef, line: string): Promise<string> {
    return this.#slow.monitorCommand(domain, line, MonitorFlag.HMP);
  }

  qmp(domain: DomainRef, command: string): Promise<string> {
    return this.#main.monitorCommand(domain, command);
  }

  beginBackup(domain: DomainRef, xml: { readonly backup: string; readonly checkpoint: string }): Promise<void> {
    return this.#slow.beginBackup(domain, xml);
  }

  redefineCheckpoint(domain: DomainRef, xml: string): Promise<void> {
    const { REDEFINE, REDEFINE_VALIDATE } = CheckpointCreateFlag;
    return this.#main.createCheckpoint(domain, xml, REDEFINE | REDEFINE_VALIDATE);
  }

  checkpoints(domain: DomainRef): Promise<readonly string[]> {
    return this.#main.listCheckpoints(domain);
  }

  deleteCheckpoint(domain: DomainRef, name: string): Promise<void> {
    return this.#main.deleteCheckpoint(domain, name);
  }

  guestInfo(domain: DomainRef, types: number): Promise<TypedParams> {
    return this.#slow.getGuestInfo(domain, types);
  }

  async freeze(domain: DomainRef): Promise<void> {
    await this.#slow.fsFreeze(domain);
  }

  async unfreeze(domain: DomainRef): Promise<void> {
    await this.#slow.fsThaw(domain);
  }

  setGuestTime(domain: DomainRef, time: Date): Promise<void> {
    const ms = time.getTime();
    return this.#slow.setTime(domain, BigInt(Math.floor(ms / 1000)), (ms % 1000) * 1_000_000);
  }

  setAuthorizedSshKeys(domain: DomainRef, user: string, keys: readonly string[]): Promise<void> {
    return this.#slow.setAuthorizedSshKeys(domain, user, keys);
  }

  setUserPassword(domain: DomainRef, user: string, password: string): Promise<void> {
    return this.#slow.setUserPassword(domain, user, password);
  }

  sevInfo(): Promise<TypedParams> {
    return this.#main.getSevInfo();
  }

  launchSecurityInfo(domain: DomainRef): Promise<TypedParams> {
    return this.#main.getLaunchSecurityInfo(domain);
  }

  setLaunchSecret(domain: DomainRef, secret: { readonly header: string; readonly secret: string }): Promise<void> {
    return this.#main.setLaunchSecret(domain, secret);
  }

  stats(): Promise<readonly { readonly domain: DomainRef; readonly params: TypedParams }[]> {
    const groups = CPU_TOTAL | BALLOON | VCPU | INTERFACE | BLOCK | DIRTYRATE;
    return this.#slow.getAllDomainStats(groups, ListFlag.RUNNING | ListFlag.PAUSED);
  }

  memoryStats(domain: DomainRef): Promise<ReadonlyMap<number, bigint>> {
    return this.#slow.memoryStats(domain);
  }

  async vcpuPins(domain: DomainRef): Promise<readonly (readonly boolean[])[]> {
    const { nodes, sockets, cores, threads } = await this.#slow.getNodeInfo();
    const pins = await this.#slow.getVcpuPinInfo(domain);
    return pins.map((cpus) => {
      const allowed = new Set(cpus);
      return Array.from({ length: nodes * sockets * cores * threads }, (_, cpu) => allowed.has(cpu));
    });
  }

  measureDirtyRate(domain: DomainRef, seconds: number): Promise<void> {
    return this.#slow.startDirtyRateCalc(domain, seconds);
  }

  migrate(domain: DomainRef, target: MigrationTarget, flags: number): Promise<void> {
    return this.#alone((client) => client.migrate(domain, target, flags));
  }

  dumpMemory(domain: DomainRef, file: string): Promise<void> {
    const unlimited = { timeoutMs: Number.POSITIVE_INFINITY };
    return this.#alone((client) =>
      client.coreDumpWithFormat(domain, file, DumpFormat.RAW, DumpFlag.MEMORY_ONLY, unlimited),
    );
  }

  jobStats(domain: DomainRef): Promise<JobStats> {
    return this.#main.getJobStats(domain);
  }

  abortJob(domain: DomainRef): Promise<void> {
    return this.#main.abortJob(domain);
  }

  startPostCopy(domain: DomainRef): Promise<void> {
    return this.#main.startPostCopy(domain);
  }

  setMaxDowntime(domain: DomainRef, milliseconds: number): Promise<void> {
    return this.#main.setMaxDowntime(domain, milliseconds);
  }

  async machineTypes(): Promise<readonly string[]> {
    return machineTypesIn(await this.#slow.getCapabilities(), process.arch);
  }

  async warmUp(virttype: string): Promise<void> {
    await this.#slow.getDomainCapabilities({ arch: 'x86_64', machine: 'q35', virttype });
  }

  /** On a connection of its own: the call holds one of its few slots for as long as it takes. */
  async #alone(call: (client: LibvirtClient) => Promise<void>): Promise<void> {
    const { socketPath, uri } = this.#options;
    const client = await LibvirtClient.connect({ socketPath, uri });
    try {
      await call(client);
    } finally {
      await client.close();
    }
  }

  async #subscribe(): Promise<void> {
    const main = this.#main;
    await main.subscribe('lifecycle', ({ domain, event, detail }) => {
      this.#emit({ kind: 'lifecycle', domain, event, detail });
    });
    await main.subscribe('agentLifecycle', ({ domain, state }) => {
      this.#emit({ kind: 'agent', domain, connected: state === AgentState.CONNECTED });
    });
    const changed = ({ domain }: { readonly domain: DomainRef }) => this.#emit({ kind: 'changed', domain });
    await main.subscribe('deviceAdded', changed);
    await main.subscribe('deviceRemoved', ({ domain, alias }) => {
      changed({ domain });
      this.#emit({ kind: 'unplug', domain, alias, isGone: true });
    });
    await main.subscribe('deviceRemovalFailed', ({ domain, alias }) => {
      this.#emit({ kind: 'unplug', domain, alias, isGone: false });
    });
    await main.subscribe('memoryDeviceSizeChange', changed);
    await main.subscribe('jobCompleted', ({ domain, params }) => {
      const ended = new Map(params.map(({ field, value }) => [field, value]));
      const message = String(ended.get('errmsg') ?? '');
      const [operation, success] = [Number(ended.get('operation') ?? 0), Boolean(ended.get('success'))];
      this.#emit({ kind: 'job-ended', domain, operation, success, message });
    });
    await main.subscribe('migrationIteration', ({ domain }) => this.#emit({ kind: 'migration-pass', domain }));
  }

  #emit(event: HypervisorEvent): void {
    this.#listeners.notify(event);
  }
}
