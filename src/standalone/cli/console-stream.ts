import { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { errorCode, errorMessage, sleep } from '../../base/index.ts';
import { type ConsoleNotice, type ConsoleRole, parseNotice } from '../../web/index.ts';
import { type AgentApi, AgentRefusal, vmPath } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';

export interface ConsoleWish {
  readonly namespace: string;
  readonly name: string;
  /** `take-if-free` is refused while another client types. */
  readonly access: 'take' | 'take-if-free' | 'view';
  /** Show what the guest wrote before; of no use to a program that sends a command and reads its answer. */
  readonly replay: boolean;
}

export interface ConsoleStreamDeps {
  readonly agent: AgentApi;
  /** Lines for the person at the terminal. */
  readonly report: (line: string) => void;
}

/** The agent comes back within seconds; a node that is being repaired is not waited for. */
const reconnectMs = 60_000;
/** An agent that answers, but knows no such VM, may still be reading its list. */
const refusedMs = 10_000;
const retryMs = 200;
const closeMs = 1_000;
/** The agent takes messages up to 1 MiB. */
const maxMessageBytes = 64 * 1024;
const protocol = 'session.virt-handler.io';
/** 1001: the agent leaves; 1006: it is gone without a word. */
const away = new Set([1001, 1006]);
/** The guest goes on at another node, where it is found by asking again. */
const moved = 4004;

/**
 * The serial console of a VM through the agent. Bytes both ways; outlives the agent: it connects again and goes on at the byte
 * where it was. Ends when the VM closes its console; is destroyed with NodeError NO_CONSOLE for every other end.
 */
export class ConsoleStream extends Duplex {
  readonly #wish: ConsoleWish;
  readonly #deps: ConsoleStreamDeps;
  readonly #leaving = new AbortController();
  #socket: WebSocket | undefined;
  #role: ConsoleRole = 'writer';
  #line = '';
  #offset = 0;
  #toSkip = 0;
  #back: Back | undefined;
  #unsent: { readonly chunk: Buffer; readonly done: (error?: Error | null) => void } | undefined;

  /** Rejects with the agent's refusal, or NodeError when there is no agent. */
  static async open(wish: ConsoleWish, deps: ConsoleStreamDeps, signal: AbortSignal): Promise<ConsoleStream> {
    const stream = new ConsoleStream(wish, deps);
    await stream.#connect(wish.access, signal);
    return stream;
  }

  private constructor(wish: ConsoleWish, deps: ConsoleStreamDeps) {
    super({ allowHalfOpen: false });
    this.#wish = wish;
    this.#deps = deps;
    // Also with keys that were not sent any more.
    this.once('end', () => this.destroy());
  }

  /** A viewer's keys go nowhere. */
  get role(): ConsoleRole {
    return this.#role;
  }

  /** Becomes the writer; the writer before is notified. */
  takeOver(): void {
    this.#socket?.send(JSON.stringify({ kind: 'take' }), ignore);
  }

  override _read(): void {
    if (this.#socket?.isPaused) this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#role === 'viewer') done();
    else if (this.#socket) this.#send(this.#socket, chunk, done);
    else this.#unsent = { chunk, done };
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#leaving.abort(new Error('left'));
    const socket = this.#socket;
    this.#socket = undefined;
    if (!socket || socket.readyState === socket.CLOSED) {
      done(error);
      return;
    }
    // Waited for, so that the next client finds the console free.
    const timer = setTimeout(() => socket.terminate(), closeMs);
    socket.once('close', () => {
      clearTimeout(timer);
      done(error);
    });
    socket.resume();
    socket.close(1000);
  }

  async #connect(access: ConsoleWish['access'], signal: AbortSignal): Promise<void> {
    const { namespace, name } = this.#wish;
    const query = new URLSearchParams({ access });
    if (this.#line !== '') {
      query.set('line', this.#line);
      query.set('from', String(this.#offset));
    }
    const path = `${vmPath(namespace, name)}/console?${query}`;
    this.#adopt(await this.#deps.agent.stream(path, protocol, signal));
  }

  #adopt(socket: WebSocket): void {
    this.#socket = socket;
    socket.on('message', (data, isBinary) => {
      const bytes = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer);
      if (isBinary) this.#receive(bytes);
      else this.#notice(parseNotice(bytes.toString('utf8')));
    });
    socket.once('error', ignore);
    socket.once('close', (code, reason) => this.#closed(socket, code, reason.toString('utf8')));
    socket.resume();
    const unsent = this.#unsent;
    this.#unsent = undefined;
    if (unsent) this._write(unsent.chunk, 'binary', unsent.done);
  }

  #send(socket: WebSocket, chunk: Buffer, done: (error?: Error | null) => void): void {
    const rest = chunk.subarray(maxMessageBytes);
    socket.send(chunk.subarray(0, maxMessageBytes), (error) => {
      if (!error && rest.length === 0) done();
      else if (!error) this._write(rest, 'binary', done);
      else if (this.destroyed) done(error);
      else if (this.#socket && this.#socket !== socket) this._write(chunk, 'binary', done);
      else this.#unsent = { chunk, done };
    });
  }

  #receive(bytes: Buffer): void {
    this.#offset += bytes.length;
    const skipped = Math.min(this.#toSkip, bytes.length);
    this.#toSkip -= skipped;
    if (skipped > 0) this.emit('past', bytes.subarray(0, skipped));
    if (skipped === bytes.length) return;
    if (!this.push(skipped === 0 ? bytes : bytes.subarray(skipped))) this.#socket?.pause();
  }

  #notice(notice: ConsoleNotice | undefined): void {
    if (!notice) return;
    if (notice.kind === 'attached') {
      if (this.#line === '' && !this.#wish.replay) this.#toSkip = notice.replayed;
      if (this.#line !== '') this.#deps.report(comeBackText(notice, this.#line, this.#back));
      this.#back = undefined;
      this.#line = notice.line;
      this.#offset = notice.offset;
      this.#role = notice.role;
    } else if (notice.kind === 'role' && notice.role !== this.#role) {
      this.#role = notice.role;
      this.emit('role', notice.role, notice.reason);
    }
  }

  #closed(socket: WebSocket, code: number, reason: string): void {
    if (this.destroyed || this.#socket !== socket) return;
    this.#socket = undefined;
    if (code === 1000) this.push(null);
    else if (away.has(code)) this.#comeBack('virt-handler went away; connecting again (Ctrl-] leaves)');
    else if (code === moved) this.#comeBack(`${reason}; the console follows`, 'on-another-node');
    else this.destroy(new NodeError('NO_CONSOLE', reason || `the console was closed (code ${code})`));
  }

  #comeBack(text: string, back: Back = 'to-the-same-line'): void {
    this.#deps.report(text);
    this.#back = back;
    this.#reconnect().catch((error: unknown) => this.destroy(noConsole(error)));
  }

  async #reconnect(): Promise<void> {
    const { signal } = this.#leaving;
    const sinceMs = performance.now();
    for (;;) {
      try {
        return await this.#connect(this.#role === 'writer' && this.#wish.access !== 'view' ? 'take' : 'view', signal);
      } catch (error) {
        if (signal.aborted) return;
        const limitMs = error instanceof AgentRefusal ? refusedMs : reconnectMs;
        if (performance.now() - sinceMs > limitMs) throw error;
      }
      await sleep(retryMs, signal).catch(ignore);
    }
  }
}

/** What is expected when the connection is there again. Undefined: it was never lost. */
type Back = 'to-the-same-line' | 'on-another-node';

/** Reported again in the middle of a connection: this viewer was too slow. */
function comeBackText(
  { line, lost }: ConsoleNotice & { kind: 'attached' },
  before: string,
  back: Back | undefined,
): string {
  if (back === undefined) return `too slow: ${lost} bytes of the guest were left out`;
  if (line !== before && back === 'on-another-node') return 'connected at its new node';
  if (line !== before) return 'connected again; what the guest wrote in between is lost';
  return lost > 0 ? `connected again; ${lost} bytes in between are lost` : 'connected again';
}

function noConsole(cause: unknown): NodeError {
  if (cause instanceof NodeError) return cause;
  return new NodeError('NO_CONSOLE', `the console is gone: ${errorMessage(cause) || errorCode(cause)}`, { cause });
}

function ignore(): void {}
