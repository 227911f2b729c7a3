import type { Socket } from 'node:net';
import { Listeners, Turn } from '../../base/index.ts';
import { type ProcessId, peerOf } from '../../host/index.ts';
import { connectIn } from './connect-in.ts';
import { MigrationProxyError } from './errors.ts';

/** What a role of one proxy process has carried since its start. */
export interface RoleFigures {
  /** As the configuration calls it: the role's number. */
  readonly role: string;
  readonly streams: number;
  readonly bytes: number;
  /** Connections that showed no certificate that is accepted. */
  readonly refused: number;
}

/** Ends each answer in the interactive mode of HAProxy's control socket. */
const promptEnd = '\n> ';
const maxAnswerBytes = 64 * 1024;
/** Of a process that was just found. */
const promptMs = 5_000;
/** A timer that is overdue by so much: this process stood still, and with it perhaps all of the pod or the machine. */
const overdueMs = 1_000;

/**
 * One connection to the control socket of a proxy process, kept open as long as both live: its end is the process' end, without
 * asking for it. The kernel names the process.
 */
export class ControlConnection {
  readonly process: ProcessId;
  readonly #socket: Socket;
  readonly #ended = new Listeners();
  #text = '';
  #waiting: ((text: string) => void) | undefined;
  /** One after the other: answers carry no number. */
  readonly #turn = new Turn();

  private constructor(socket: Socket, process: ProcessId) {
    this.#socket = socket;
    this.process = process;
    socket.setEncoding('latin1').unref();
    socket.on('data', (text: string) => this.#take(text));
    socket.on('error', () => undefined);
    socket.once('close', () => this.#ended.notify());
  }

  /** Rejects with the system's error while the process does not listen yet, PeerError, or MigrationProxyError NO_ANSWER. */
  static async open(directory: string, name: string): Promise<ControlConnection> {
    const socket = await connectIn(directory, name);
    try {
      const connection = new ControlConnection(socket, await peerOf(socket));
      await connection.#ask('prompt', promptMs);
      return connection;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /** Whom the kernel names behind the socket, also when the process does not answer. Rejects as `open`, but never NO_ANSWER. */
  static async processBehind(directory: string, name: string): Promise<ProcessId> {
    const socket = await connectIn(directory, name);
    try {
      const { pid, startTime } = await peerOf(socket);
      return { pid, startTime };
    } finally {
      socket.destroy();
    }
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  /** Rejects with MigrationProxyError NO_ANSWER: not within this time; UNREADABLE: not with figures. */
  async figures(withinMs: number): Promise<RoleFigures[]> {
    return readFigures(await this.#ask('show stat -1 1 -1', withinMs));
  }

  /** The process has ended, or this side closed. */
  onEnd(listener: () => void): () => void {
    return this.#ended.add(listener);
  }

  /** The process stays. No listener is called for it. */
  close(): void {
    this.#ended.clear();
    this.#socket.destroy();
  }

  #take(text: string): void {
    this.#text += text;
    if (this.#text.length > maxAnswerBytes) this.#socket.destroy();
    if (!this.#text.endsWith(promptEnd)) return;
    const answer = this.#text.slice(0, -promptEnd.length);
    this.#text = '';
    this.#waiting?.(answer);
  }

  #ask(command: string, withinMs: number): Promise<string> {
    return this.#turn.take(() => this.#askNow(command, withinMs));
  }

  #askNow(command: string, withinMs: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = () => {
        end();
        reject(new MigrationProxyError('NO_ANSWER', `the proxy process ${this.process.pid} does not answer`));
      };
      let [askedMs, isAskedOnce] = [performance.now(), true];
      // What came while this very process stood still is read first: its own sleep is nobody's silence.
      const startTimer = () => setTimeout(() => setImmediate(timeOut), withinMs);
      const timeOut = () => {
        if (this.#waiting !== take) return;
        const isOverdue = performance.now() - askedMs > withinMs + overdueMs;
        if (!isOverdue || !isAskedOnce) return fail();
        // Who stood still beside it has had no time to answer yet: it gets that once more, and only once.
        [askedMs, isAskedOnce] = [performance.now(), false];
        timer = startTimer();
      };
      let timer = startTimer();
      const end = () => {
        clearTimeout(timer);
        this.#socket.off('close', fail);
        this.#waiting = undefined;
      };
      this.#socket.once('close', fail);
      const take = (answer: string) => {
        end();
        resolve(answer);
      };
      this.#waiting = take;
      if (this.#socket.destroyed) fail();
      else this.#socket.write(`${command}\n`);
    });
  }
}

/** HAProxy's CSV of its frontends. Rejects what is none. */
export function readFigures(csv: string): RoleFigures[] {
  const [head = '', ...lines] = csv.split('\n').filter((line) => line !== '');
  const names = head.replace(/^# /, '').split(',');
  return lines.map((line) => {
    const values = line.split(',');
    const text = (name: string) => values[names.indexOf(name)];
    const count = (name: string) => {
      const value = text(name);
      if (value !== undefined && /^\d{1,15}$/.test(value)) return Number(value);
      throw new MigrationProxyError('UNREADABLE', `no figures: ${line.slice(0, 100)}`);
    };
    return {
      role: text('pxname') ?? '',
      streams: count('scur'),
      bytes: count('bin') + count('bout'),
      refused: count('dreq') + count('ssl_failed_handshake'),
    };
  });
}
