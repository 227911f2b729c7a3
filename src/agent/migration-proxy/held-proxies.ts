import type { Clock } from '../../base/index.ts';
import type { ProcessId } from '../../host/index.ts';
import type { ControlConnection, RoleFigures } from './control-connection.ts';
import { type ProxyFigures, proxyRoles } from './ports.ts';
import type { KeptProxy } from './proxy-keeper.ts';
import { type ProxyDuty, proxyId } from './proxy-record.ts';
import type { StallTimes } from './stall.ts';

/** A proxy process that serves, and what it has carried. */
export class HeldProxy implements KeptProxy {
  readonly duty: ProxyDuty;
  readonly control: ControlConnection;
  #read: { readonly atMs: number; readonly roles: readonly RoleFigures[] } | undefined;
  #bytesPerSecond = 0;
  #isAsked = false;
  readonly #times: StallTimes;
  /** When memory was last seen to move, or there was no stream for it. */
  #movedMs: number | undefined;

  constructor(duty: ProxyDuty, control: ControlConnection, times: StallTimes) {
    this.duty = duty;
    this.control = control;
    this.#times = times;
  }

  get id(): string {
    return proxyId(this.duty.side, this.duty.uid);
  }

  get process(): ProcessId {
    return this.control.process;
  }

  get figures(): ProxyFigures {
    const { key, side, ports } = this.duty;
    const sum = (of: (role: RoleFigures) => number) =>
      (this.#read?.roles ?? []).reduce((all, role) => all + of(role), 0);
    return {
      ...{ key, side, ports },
      streams: sum(({ streams }) => streams),
      bytes: sum(({ bytes }) => bytes),
      bytesPerSecond: this.#bytesPerSecond,
      refused: sum(({ refused }) => refused),
      stalledSeconds: this.#stalledSeconds,
    };
  }

  /** One question at a time. Rejects as `ControlConnection.figures`; what was known stays. */
  async refresh(clock: Pick<Clock, 'monotonicMs'>): Promise<void> {
    if (this.#isAsked) return;
    this.#isAsked = true;
    try {
      this.#learn(await this.control.figures(this.#times.answerMs), clock.monotonicMs());
    } finally {
      this.#isAsked = false;
    }
  }

  get #stalledSeconds(): number {
    const silentMs = (this.#read?.atMs ?? 0) - (this.#movedMs ?? 0);
    return silentMs >= this.#times.silentMs ? Math.floor(silentMs / 1000) : 0;
  }

  #learn(roles: readonly RoleFigures[], atMs: number): void {
    const before = this.#read;
    const bytesBefore = this.figures.bytes;
    const [was, is] = [memoryOf(before?.roles), memoryOf(roles)];
    if (!is || is.streams === 0 || is.bytes !== was?.bytes) this.#movedMs = atMs;
    this.#read = { atMs, roles };
    const seconds = before === undefined ? 0 : (atMs - before.atMs) / 1000;
    this.#bytesPerSecond = seconds > 0 ? Math.round((this.figures.bytes - bytesBefore) / seconds) : 0;
  }
}

/** libvirt's own stream has a word every few seconds, whatever becomes of the guest's memory. */
function memoryOf(roles: readonly RoleFigures[] | undefined): RoleFigures | undefined {
  return roles?.find(({ role }) => role === String(proxyRoles.direct));
}
