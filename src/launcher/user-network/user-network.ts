import { randomInt } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, Turn } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor, type LauncherEvent } from '../ports.ts';
import { type Forward, Forwards, forwardState, isSameForward } from './forwards.ts';
import { type PublishedPorts, publishedPorts, shownForward } from './published-ports.ts';
import { TableLooks } from './table-looks.ts';

export interface UserNetworkDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'monitor'>;
  /** Throws MIGRATING while the guest moves. */
  readonly refuse: (what: string) => void;
  readonly notifier: { sendEvent(event: LauncherEvent): void };
  readonly log: Logger;
  readonly clock: Clock;
}

/** A program that has a port may end. */
const lookAgainMs = 20_000;
const answerMs = 10_000;
const maxDraws = 10;

/**
 * Ports of a guest that has QEMU's user networking. Those that its VMI lists are on a loopback address of the machine as long as its QEMU runs; any other one is there for the
 * moment in which a caller is joined to it.
 */
export class UserNetwork {
  readonly #domainName: string;
  readonly #deps: UserNetworkDeps;
  readonly #forwards: Forwards;
  readonly #looks: TableLooks;
  /** What is published, as it was asked for. */
  #done: string | undefined;
  readonly #told = new Set<string>();
  readonly #opened = new Set<Forward>();
  /** A port that is added twice would be said to be another program's. */
  readonly #turn = new Turn();
  #cancelLook: () => void = () => undefined;

  constructor(options: { readonly domainName: string }, deps: UserNetworkDeps) {
    this.#domainName = options.domainName;
    this.#deps = deps;
    this.#forwards = new Forwards(deps.hypervisor);
    const read = async () => (await this.#forwards.read(await this.#domain())).rows;
    this.#looks = new TableLooks({ read, clock: deps.clock });
  }

  /** A QEMU that has just been started forwards nothing yet. */
  async started(vmi: VirtualMachineInstance): Promise<void> {
    this.#done = undefined;
    this.#told.clear();
    await this.publish(vmi);
  }

  /** The ports that the VMI lists; what is published already stays, and a repeated call asks nobody. A guest that runs is not refused for it. */
  async publish(vmi: VirtualMachineInstance): Promise<void> {
    const wanted = publishedPorts(vmi);
    const key = JSON.stringify(wanted);
    await this.#turn.take(async () => {
      if (key === this.#done) return;
      this.#cancelLook();
      const isWhole = await this.#publish(wanted).catch((error: unknown) => {
        this.#deps.log.warn({ err: errorMessage(error) }, 'ports of the guest are not published');
        return false;
      });
      if (isWhole) this.#done = key;
      else this.#cancelLook = this.#deps.clock.schedule(lookAgainMs, () => void this.publish(vmi));
    });
  }

  stop(): void {
    this.#cancelLook();
  }

  /**
   * A connection to a TCP port of the guest: by a port of the machine that nobody knows before, and that is forwarded until the guest has answered. Rejects with LauncherError:
   * INVALID_REQUEST when nothing listens in the guest, MIGRATING, DOMAIN_NOT_FOUND, NOT_SUPPORTED without a network; or with the reason of the signal.
   */
  async connect(guestPort: number, signal: AbortSignal): Promise<Socket> {
    this.#deps.refuse(`port ${guestPort}`);
    const domain = await this.#domain();
    const { netdev } = await this.#forwards.read(domain);
    const forward = await this.#open(domain, netdev, guestPort);
    const joined = new JoinedSocket(forward);
    try {
      await this.#answered(joined, signal);
      return joined.release();
    } catch (error) {
      joined.destroy();
      throw error;
    } finally {
      await this.#close(domain, netdev, forward);
    }
  }

  /** Throws LauncherError DOMAIN_NOT_FOUND. */
  #domain(): Promise<DomainRef> {
    return existingDomain(this.#deps.hypervisor, this.#domainName);
  }

  /** False: something of it is not published (yet). */
  async #publish({ forwards, problems }: PublishedPorts): Promise<boolean> {
    if (forwards.length === 0) {
      this.#tellOfMissing(problems);
      return true;
    }
    const domain = await this.#domain();
    const { netdev, rows } = await this.#forwards.read(domain);
    const there = rows.filter(({ state }) => state === forwardState);
    // A launcher that was killed may have left some that were for a moment.
    const surplus = there.filter((row) => ![...forwards, ...this.#opened].some((each) => isSameForward(each, row)));
    for (const row of surplus) await this.#forwards.remove(domain, netdev, row);
    const added: Forward[] = [];
    const taken: Forward[] = [];
    for (const forward of forwards.filter((each) => !there.some((row) => isSameForward(each, row)))) {
      (await this.#forwards.add(domain, netdev, forward)) ? added.push(forward) : taken.push(forward);
    }
    this.#tellOfAdded(added);
    const why = `another program of this machine listens there; it is tried again every ${lookAgainMs / 1000} s`;
    this.#tellOfMissing([...problems, ...taken.map((forward) => `${shownForward(forward)}: ${why}`)]);
    return taken.length === 0;
  }

  #tellOfAdded(added: readonly Forward[]): void {
    if (added.length === 0) return;
    const message = `ports of the guest are on this machine: ${added.map(shownForward).join(', ')}`;
    this.#deps.notifier.sendEvent({ reason: 'PortsPublished', type: 'Normal', message });
  }

  #tellOfMissing(problems: readonly string[]): void {
    if (problems.length === 0) return;
    const message = `not published: ${problems.join('; ')}`;
    if (this.#told.has(message)) return;
    this.#told.add(message);
    this.#deps.notifier.sendEvent({ reason: 'PortsNotPublished', type: 'Warning', message });
  }

  async #open(domain: DomainRef, netdev: string, guestPort: number): Promise<Forward> {
    for (let draw = 0; draw < maxDraws; draw++) {
      const address = `127.${randomInt(128, 256)}.${randomInt(256)}.${randomInt(1, 255)}`;
      const forward: Forward = { protocol: 'tcp', address, port: randomInt(10_000, 32_768), guestPort };
      this.#opened.add(forward);
      if (await this.#forwards.add(domain, netdev, forward)) return forward;
      this.#opened.delete(forward);
    }
    throw new LauncherError('SETUP_FAILED', `port ${guestPort} of the guest: no port of this machine is free for it`);
  }

  async #close(domain: DomainRef, netdev: string, forward: Forward): Promise<void> {
    try {
      await this.#forwards.remove(domain, netdev, forward);
    } catch (error) {
      this.#deps.log.warn({ ...forward, err: errorMessage(error) }, 'a forwarded port is left until the guest ends');
    } finally {
      this.#opened.delete(forward);
    }
  }

  /** QEMU takes each connection at once, and then asks the guest; its table says what the guest answered. */
  async #answered(joined: JoinedSocket, signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const untilMs = clock.monotonicMs() + answerMs;
    for (let isNew = true; ; isNew = false) {
      const rows = await this.#looks.next(isNew);
      signal.throwIfAborted();
      const { address, port, guestPort } = joined.forward;
      const row = rows.find((each) => each.address === address && each.port === port && each.state !== forwardState);
      if (joined.hasBytes || (row && row.state !== 'SYN_SENT' && !joined.hasEnded)) return;
      const words = `port ${guestPort} of the guest does not answer`;
      if (joined.hasEnded) throw new LauncherError('INVALID_REQUEST', `${words}: nothing listens there (ECONNREFUSED)`);
      if (clock.monotonicMs() > untilMs) {
        throw new LauncherError('INVALID_REQUEST', `${words}: no answer in ${answerMs / 1000} s`);
      }
    }
  }
}

/** The machine's end of a connection, of which nothing is lost that the guest says or does before somebody reads it. */
class JoinedSocket {
  readonly forward: Forward;
  readonly #socket: Socket;
  /** Nothing is taken out: only of a stream without bytes a look says that it has ended. */
  readonly #look = () => {
    if (!this.hasBytes) this.#socket.read();
  };
  hasEnded = false;

  constructor(forward: Forward) {
    this.forward = forward;
    const { address, port } = forward;
    this.#socket = connect({ host: address, port, noDelay: true, keepAlive: true, allowHalfOpen: true });
    const onEnd = () => {
      this.hasEnded = true;
    };
    this.#socket.on('readable', this.#look).once('end', onEnd).once('close', onEnd);
    // Its user learns of it by `close`.
    this.#socket.on('error', () => undefined);
  }

  get hasBytes(): boolean {
    return this.#socket.readableLength > 0;
  }

  release(): Socket {
    return this.#socket.off('readable', this.#look);
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
