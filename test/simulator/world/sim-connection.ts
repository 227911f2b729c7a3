import type { Domain, LauncherAddress, VirtualMachineInstance } from '../../../src/api/index.ts';
import {
  type CommandRequest,
  type CommandResponse,
  type CommandRpc,
  type ConnectionDeps,
  commands,
  LauncherClientError,
  type OpenConnection,
} from '../../../src/launcher-client/index.ts';
import { decodeDomain } from '../../../src/wire/index.ts';
import type { Life } from '../engine/scheduler.ts';
import type { SimHostDeps } from './sim-host.ts';
import { Refusal, type SimLauncher } from './sim-launcher.ts';

/** A connection as the real one behaves: deadlines, error codes, what is proven and what is not. */
export class SimConnection implements OpenConnection {
  readonly address: LauncherAddress;
  readonly launcher: SimLauncher;
  readonly #hooks: ConnectionDeps;
  readonly #deps: SimHostDeps;
  readonly #broken = new Set<() => void>();
  #closed = false;
  #connected = true;

  constructor(address: LauncherAddress, launcher: SimLauncher, hooks: ConnectionDeps, deps: SimHostDeps) {
    this.address = address;
    this.launcher = launcher;
    this.#hooks = hooks;
    this.#deps = deps;
    deps.node.connections.add(this);
    if (!launcher.alive) this.break();
  }

  get life(): Life {
    return this.#deps.life;
  }

  get peer() {
    return this.launcher.process;
  }

  get socketPath(): string {
    return this.address.socketFile;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get connected(): boolean {
    return this.#connected && !this.#closed;
  }

  onLauncherEnded(launcher: SimLauncher): void {
    if (launcher === this.launcher) this.break();
  }

  /** The stream ends; whether the launcher did is another question. */
  break(): void {
    const { scheduler, chance, life } = this.#deps;
    if (!this.#connected) return;
    scheduler.after(chance.between(0, 20), `connection to ${this.address.uid} breaks`, life, () => {
      if (!this.#connected) return;
      this.#connected = false;
      for (const fail of [...this.#broken]) fail();
      if (!this.#closed) this.#hooks.onDown(this);
    });
  }

  reconnect(): void {
    const { scheduler, chance, life } = this.#deps;
    if (this.#connected || this.#closed) return;
    scheduler.after(chance.between(1, 1_000), `dials ${this.address.uid} again`, life, () => {
      if (this.launcher.alive && !this.launcher.isHung) this.#connected = true;
    });
  }

  async call<R extends CommandRpc>(
    rpc: R,
    request: CommandRequest<R>,
    signal?: AbortSignal,
  ): Promise<CommandResponse<R>> {
    const { name, timeoutMs } = commands[rpc];
    if (this.#closed) throw new LauncherClientError('CLOSED', `command ${name}: the connection was closed`);
    const body = 'vmi' in request ? String(request.vmi?.vmiJson ?? '') : '';
    const answered = this.#deps.onCall(this.launcher, rpc, body);
    try {
      const answer = await this.#carry(name, timeoutMs, signal, () => this.#handle(rpc, body));
      answered(true);
      return answer as CommandResponse<R>;
    } catch (error) {
      answered(false);
      throw error;
    }
  }

  async ping(signal?: AbortSignal): Promise<void> {
    await this.#carry('Ping', commands.ping.timeoutMs, signal, () => undefined);
  }

  async getDomain(signal?: AbortSignal): Promise<Domain | undefined> {
    const { chance, onDomainSeen } = this.#deps;
    const { launcher } = this;
    const json = await this.#carry('GetDomain', commands.getDomain.timeoutMs, signal, () => {
      if (!launcher.hasLibvirt) throw new Refusal('libvirt does not answer');
      if (chance.happens(launcher.garbageRate)) return '{"ObjectMeta":[]}';
      return launcher.domain ? launcher.json() : '';
    });
    if (json !== '') onDomainSeen(launcher, json);
    if (json === '') return undefined;
    try {
      return decodeDomain(json);
    } catch (error) {
      throw new LauncherClientError('BAD_ANSWER', 'the domain cannot be read', { cause: error });
    }
  }

  close(): void {
    this.#closed = true;
    this.#deps.node.connections.delete(this);
    for (const fail of [...this.#broken]) fail();
  }

  /** A dead launcher, a broken stream, the deadline and the caller each end it in their own words. */
  async #carry<T>(
    name: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    act: () => T | Promise<T>,
  ): Promise<T> {
    const { wire, scheduler, life } = this.#deps;
    const stop = new AbortController();
    const late = () => stop.abort(new LauncherClientError('TIMEOUT', `command ${name}: deadline exceeded`));
    const cancel = scheduler.after(timeoutMs, `${name} deadline`, life, late);
    const onAbort = () => stop.abort(new LauncherClientError('ABORTED', `command ${name} was given up`));
    const onBroken = () => stop.abort(broken);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
    this.#broken.add(onBroken);
    if (!this.#connected) onBroken();
    const label = `${name} ${this.address.uid}`;
    try {
      return await wire.request({ life, label, signal: stop.signal }, async () => {
        if (!this.launcher.alive) return await new Promise<never>(() => undefined);
        return await this.launcher.serve(act);
      });
    } catch (error) {
      if (error === broken) throw await this.#whenBroken(name);
      if (error instanceof Refusal)
        throw new LauncherClientError('COMMAND_FAILED', `command ${name} failed: "${error.message}"`);
      throw error;
    } finally {
      cancel();
      signal?.removeEventListener('abort', onAbort);
      this.#broken.delete(onBroken);
    }
  }

  async #whenBroken(name: string): Promise<LauncherClientError> {
    if (this.#closed) return new LauncherClientError('CLOSED', `command ${name}: the connection was closed`);
    const hasEnded = await this.#hooks.hasEnded(this);
    return new LauncherClientError(hasEnded ? 'DISCONNECTED' : 'UNAVAILABLE', `command ${name}: the connection broke`);
  }

  async #handle(rpc: CommandRpc, body: string): Promise<unknown> {
    const { launcher } = this;
    if (!launcher.hasLibvirt && needsLibvirt.has(rpc)) throw new Refusal('libvirt does not answer');
    switch (rpc) {
      case 'syncVirtualMachine':
        await launcher.sync(JSON.parse(body) as VirtualMachineInstance);
        break;
      case 'shutdownVirtualMachine':
        launcher.shutdown();
        break;
      case 'killVirtualMachine':
        launcher.kill();
        break;
      case 'deleteVirtualMachine':
        launcher.delete();
        break;
      case 'hotplugHostDevices':
        launcher.plugSriov();
        break;
      case 'getGuestInfo':
        return { response: { success: true, message: '' }, guestInfoResponse: '{}' };
      case 'finalizeVirtualMachineMigration':
        break;
      case 'syncMigrationTarget':
        launcher.preparedFor = migrationUidOf(body);
        break;
      case 'signalTargetPodCleanup':
        if (targetPodOf(body) === launcher.options.podUid) launcher.mayGo();
        break;
      case 'migrateVirtualMachine':
        this.#deps.moveOf(migrationUidOf(body))?.begin();
        break;
      case 'cancelVirtualMachineMigration':
        this.#deps.moveOf(migrationUidOf(body))?.cancel();
        break;
      default:
        throw new Refusal(`${rpc} is not known to the simulator`);
    }
    return { response: { success: true, message: '' } };
  }
}

const needsLibvirt: ReadonlySet<CommandRpc> = new Set([
  'syncVirtualMachine',
  'shutdownVirtualMachine',
  'killVirtualMachine',
  'deleteVirtualMachine',
  'syncMigrationTarget',
  'hotplugHostDevices',
  'migrateVirtualMachine',
] as const);

function migrationUidOf(body: string): string {
  return (JSON.parse(body) as VirtualMachineInstance).status?.migrationState?.migrationUid ?? '';
}

function targetPodOf(body: string): string | undefined {
  return (JSON.parse(body) as VirtualMachineInstance).status?.migrationState?.targetPod;
}

const broken = new Error('the stream broke');
