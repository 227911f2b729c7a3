import type { Clock } from '../../base/index.ts';
import type { ProcessId } from '../../host/index.ts';
import type { ControlConnection, RoleFigures } from './control-connection.ts';
import type { ProxyFigures } from './ports.ts';
import type { KeptProxy } from './proxy-keeper.ts';
import { type ProxyDuty, proxyId } from './proxy-record.ts';

/** A proxy process that serves, and what it has carried. */
export class HeldProxy implements KeptProxy {
  readonly duty: ProxyDuty;
  readonly control: ControlConnection;
  #read: { readonly atMs: number; readonly roles: readonly RoleFigures[] } | undefined;
  #bytesPerSecond = 0;

  constructor(duty: ProxyDuty, control: ControlConnection) {
    this.duty = duty;
    this.control = control;
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
    };
  }

  /** Rejects with MigrationProxyError NO_ANSWER; what was known stays. */
  async refresh(clock: Pick<Clock, 'monotonicMs'>): Promise<void> {
    const roles = await this.control.figures();
    const [before, atMs] = [this.#read, clock.monotonicMs()];
    const bytesBefore = this.figures.bytes;
    this.#read = { atMs, roles };
    const seconds = before === undefined ? 0 : (atMs - before.atMs) / 1000;
    this.#bytesPerSecond = seconds > 0 ? Math.round((this.figures.bytes - bytesBefore) / seconds) : 0;
  }
}
