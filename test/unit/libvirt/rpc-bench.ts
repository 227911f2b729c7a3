import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { afterEach, beforeEach } from 'node:test';
import { isLibvirtError, type LibvirtErrorCode } from '../../../src/libvirt/error.ts';
import type { Packet } from '../../../src/libvirt/frame.ts';
import { RpcConnection, type RpcLimits } from '../../../src/libvirt/rpc-connection.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { FakeDaemon } from './fake-daemon.ts';

/** A connection to a fake daemon, both new for each test. */
export class RpcBench {
  readonly clock = new FakeClock();
  /** Why packets were ignored. */
  readonly ignored: string[] = [];
  readonly daemon: FakeDaemon;
  #connection: RpcConnection | undefined;

  constructor(daemon: FakeDaemon) {
    this.daemon = daemon;
  }

  get connection(): RpcConnection {
    assert.ok(this.#connection, 'open() comes first');
    return this.#connection;
  }

  async open(limits: Partial<RpcLimits> = {}): Promise<void> {
    const socket = connect(this.daemon.socketPath);
    await new Promise((resolve) => socket.once('connect', resolve));
    this.#connection = new RpcConnection(
      { callTimeoutMs: 1_000, limits },
      { socket, clock: this.clock, onMessage: () => undefined, onIgnored: (reason) => this.ignored.push(reason) },
    );
    await eventually(() => assert.equal(this.daemon.peers.length > 0, true));
  }

  /** Calls of a procedure that the test answers itself. */
  held(procedure: { readonly number: number }): Packet[] {
    const calls: Packet[] = [];
    this.daemon.onRaw(procedure.number, (_args, _peer, call) => {
      calls.push(call);
      return undefined;
    });
    return calls;
  }

  async close(): Promise<void> {
    this.#connection?.close();
    await this.daemon.remove();
  }
}

/** Calls `take` with the bench of each test before it runs. */
export function eachTestHasRpcBench(take: (bench: RpcBench) => void): void {
  let bench: RpcBench;
  beforeEach(async () => {
    bench = new RpcBench(await FakeDaemon.start());
    take(bench);
  });
  afterEach(() => bench.close());
}

export const failsWith =
  (...codes: LibvirtErrorCode[]) =>
  (error: unknown) =>
    isLibvirtError(error, ...codes);
