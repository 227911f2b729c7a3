import { createServer, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { createWebSocketStream, type WebSocket } from 'ws';
import { errorCode, errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { peerOwner } from '../socket-tables.ts';

export interface VncProxyDeps {
  /** A new stream to the screen for each viewer. */
  readonly open: (signal: AbortSignal) => Promise<WebSocket>;
  /** Lines for a person. */
  readonly report: (line: string) => void;
}

const host = '127.0.0.1';
const closeMs = 1_000;
/** The guest goes on at another node. */
const moved = 4004;

/**
 * A port on the loopback address for one VNC viewer at a time, of the users who may see the screen: RFB, which is passed on as it
 * is, asks for no password, and everybody on the machine can connect.
 */
export class VncProxy {
  readonly #port: number;
  readonly #users: readonly number[];
  readonly #deps: VncProxyDeps;
  readonly #stopping = new AbortController();
  #server: Server | undefined;
  #viewer: Socket | undefined;

  /** `users` by uid. */
  constructor(port: number, users: readonly number[], deps: VncProxyDeps) {
    this.#port = port;
    this.#users = users;
    this.#deps = deps;
  }

  /** Gives the port. Throws NodeError PORT_TAKEN. */
  async start(): Promise<number> {
    const server = createServer({ noDelay: true, pauseOnConnect: true }, (viewer) => this.#accept(viewer));
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) => reject(portError(this.#port, cause)));
      server.listen(this.#port, host, resolve);
    });
    const address = server.address();
    return typeof address === 'object' && address ? address.port : this.#port;
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('stopped'));
    this.#viewer?.destroy();
    const server = this.#server;
    if (server?.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  #accept(viewer: Socket): void {
    viewer.on('error', () => undefined);
    this.#letIn(viewer).catch((error: unknown) => {
      viewer.destroy();
      if (!this.#stopping.signal.aborted) this.#deps.report(`no screen: ${errorMessage(error)}`);
    });
  }

  async #letIn(viewer: Socket): Promise<void> {
    const { report } = this.#deps;
    const user = await peerOwner(viewer);
    if (user === undefined || !this.#users.includes(user)) {
      report(`a viewer of ${user === undefined ? 'an unknown user' : `the user with the number ${user}`} was refused`);
      viewer.destroy();
      return;
    }
    if (this.#viewer) {
      report('another viewer was refused: there is one already');
      viewer.destroy();
      return;
    }
    this.#viewer = viewer;
    await this.#serve(viewer).finally(() => {
      viewer.destroy();
      this.#viewer = undefined;
    });
  }

  async #serve(viewer: Socket): Promise<void> {
    const { open, report } = this.#deps;
    const gone = new AbortController();
    viewer.once('close', () => gone.abort(new Error('the viewer left')));
    const screen = await open(AbortSignal.any([gone.signal, this.#stopping.signal]));
    report('a viewer is connected');
    let hasLeft = false;
    screen.once('close', (code, reason) => {
      if (hasLeft) return;
      // A viewer's state is of one connection to QEMU: it cannot be carried over.
      const what = code === moved ? '; the viewer finds it there when it connects again' : '';
      report(`${reason.toString('utf8') || `the screen was closed (code ${code})`}${what}`);
    });
    const stream = createWebSocketStream(screen);
    // Whichever side ends, or fails, first ends both: there is nothing more to show.
    await Promise.race([pipeline(viewer, stream), pipeline(stream, viewer)]).catch(() => undefined);
    hasLeft = true;
    await closed(screen);
    report('the viewer is gone; another one may connect');
  }
}

/** Waited for, so that the next viewer finds the screen free. */
function closed(screen: WebSocket): Promise<void> {
  if (screen.readyState === screen.CLOSED) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => screen.terminate(), closeMs);
    screen.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    screen.close(1000);
  });
}

function portError(port: number, cause: unknown): NodeError {
  const text = errorCode(cause) === 'EADDRINUSE' ? 'is taken: choose another --port' : `: ${errorMessage(cause)}`;
  return new NodeError('PORT_TAKEN', `port ${port} ${text}`, { cause });
}
