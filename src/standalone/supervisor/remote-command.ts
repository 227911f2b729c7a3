import type { Readable, Writable } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { ExecWish } from '../../apiserver/index.ts';
import { jsonRecord } from '../../base/index.ts';

/** First byte of each message (kubernetes' apimachinery/pkg/util/remotecommand/constants.go). */
const channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
/** A client that does not read makes the command wait. */
const maxWaitingBytes = 1024 * 1024;
/** From the end of a command to that of its output, which a child of it may hold on to. */
const outputMs = 2_000;
const normal = 1000;

/** The streams of a command that runs. */
export interface Channels {
  readonly stdin: Writable | undefined;
  /** stdout, and stderr unless a terminal has both. */
  readonly outputs: readonly Readable[];
  resize?(columns: number, rows: number): void;
}

export type ExecEnd =
  | { readonly kind: 'exited'; readonly code: number; readonly signal: NodeJS.Signals | undefined }
  | { readonly kind: 'failed'; readonly message: string };

/** One websocket of `v4.channel.k8s.io` or `v5.channel.k8s.io`, which can also close its stdin. */
export class RemoteCommand {
  readonly #websocket: WebSocket;
  readonly #wish: Pick<ExecWish, 'stdin' | 'stdout' | 'stderr'>;
  #channels: Channels | undefined;
  readonly #early: Buffer[] = [];

  constructor(websocket: WebSocket, wish: Pick<ExecWish, 'stdin' | 'stdout' | 'stderr'>) {
    this.#websocket = websocket;
    this.#wish = wish;
    websocket.on('error', () => undefined);
    websocket.on('message', (data: RawData) => this.#receive(data as Buffer));
    // Tells the client that the channels are open.
    this.#send(wish.stdout ? channel.stdout : channel.error, Buffer.alloc(0));
  }

  /** Until the command has ended, and its output with it, or for a moment after it. */
  carry(channels: Channels, ended: Promise<ExecEnd>): void {
    this.#channels = channels;
    channels.stdin?.on('error', () => undefined);
    channels.stdin?.on('drain', () => this.#websocket.resume());
    if (!this.#wish.stdin) channels.stdin?.end();
    const outputs = channels.outputs.map((output, index) => this.#pass(output, index === 0 ? 'stdout' : 'stderr'));
    this.#websocket.resume();
    for (const message of this.#early.splice(0)) this.#take(message);
    void ended.then(async (end) => {
      await Promise.race([Promise.all(outputs), new Promise((resolve) => setTimeout(resolve, outputMs).unref())]);
      this.end(end);
    });
  }

  end(end: ExecEnd): void {
    this.#send(channel.error, Buffer.from(JSON.stringify(statusOf(end))));
    this.#websocket.close(normal);
  }

  /** Resolves at its end. */
  #pass(output: Readable, name: 'stdout' | 'stderr'): Promise<void> {
    const isWanted = this.#wish[name];
    output.on('data', (chunk: Buffer) => {
      if (!isWanted || chunk.length === 0) return;
      this.#send(channel[name], chunk, () => output.resume());
      if (this.#websocket.bufferedAmount > maxWaitingBytes) output.pause();
    });
    return new Promise((resolve) => {
      for (const event of ['end', 'close', 'error']) output.once(event, () => resolve());
    });
  }

  #receive(message: Buffer): void {
    if (this.#channels) {
      this.#take(message);
      return;
    }
    // The client waits until there is somebody to read.
    this.#websocket.pause();
    this.#early.push(message);
  }

  #take(message: Buffer): void {
    const { stdin, resize } = this.#channels ?? {};
    const data = message.subarray(1);
    switch (message[0]) {
      case channel.stdin:
        if (this.#wish.stdin && data.length > 0 && stdin?.writable && !stdin.write(data)) this.#websocket.pause();
        return;
      case channel.close:
        if (data[0] === channel.stdin) stdin?.end();
        return;
      case channel.resize: {
        const { Width, Height } = jsonRecord(data.toString('utf8')) ?? {};
        if (isSize(Width) && isSize(Height)) resize?.(Width, Height);
      }
    }
  }

  #send(to: number, data: Buffer, sent?: () => void): void {
    if (this.#websocket.readyState !== this.#websocket.OPEN) return;
    this.#websocket.send(Buffer.concat([Buffer.from([to]), data]), () => sent?.());
  }
}

const isSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff;

/** As a kubelet writes it; clients take the exit code from its causes. */
function statusOf(end: ExecEnd): object {
  if (end.kind === 'failed') {
    return { metadata: {}, status: 'Failure', message: end.message, reason: 'InternalError', code: 500 };
  }
  if (end.code === 0 && !end.signal) return { metadata: {}, status: 'Success' };
  const how = end.signal ? `was killed by ${end.signal}` : `exit code ${end.code}`;
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: ${how}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(end.signal ? 137 : end.code) }] },
  };
}
