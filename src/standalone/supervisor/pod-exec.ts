import type { ChildProcess } from 'node:child_process';
import type { IncomingMessage } from 'node:http';
import type { Duplex, Readable, Writable } from 'node:stream';
import { ReadStream } from 'node:tty';
import type { WebSocket, WebSocketServer } from 'ws';
import type { ExecWish, PodExec } from '../../apiserver/index.ts';
import { errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { refuseUpgrade } from '../../http/index.ts';
import { endCommand, type Sandboxes } from '../pod-runner/index.ts';
import { type Channels, type ExecEnd, RemoteCommand } from './remote-command.ts';
import { upgradesToWebSockets } from './websockets.ts';

export interface PodExecsDeps {
  /** Of the node with this name; undefined: there is none. */
  readonly sandboxesOf: (nodeName: string) => Pick<Sandboxes, 'exec' | 'execAtTerminal'> | undefined;
  readonly log: Logger;
}

/** The newer first. */
const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
/** Of all users together. */
const maxSessions = 64;
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

interface Started {
  readonly child: ChildProcess;
  readonly channels: Channels;
}

/**
 * Runs commands in pods for clients of `pods/exec`, over websockets as a kubelet does (kubernetes' pkg/kubelet/cri/streaming/remotecommand). A command ends
 * with its client. The caller has been let in before.
 */
export class PodExecs implements PodExec {
  readonly #deps: PodExecsDeps;
  readonly #websockets: WebSocketServer;
  #sessions = 0;

  constructor(deps: PodExecsDeps) {
    this.#deps = deps;
    this.#websockets = upgradesToWebSockets({
      handleProtocols: (offered) => protocols.find((name) => offered.has(name)) ?? false,
    });
  }

  serve(wish: ExecWish, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // A caller that goes away in the middle of it is no failure of this program.
    socket.on('error', () => undefined);
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (!offered.some((name) => protocols.includes(name))) {
      const message = `none of the protocols that are spoken here is offered: ${protocols.join(', ')}`;
      refuseUpgrade(socket, { httpStatus: 400, message }, systemClock);
      return;
    }
    if (this.#sessions >= maxSessions) {
      const message = `${maxSessions} commands run in pods already: end one of them`;
      refuseUpgrade(socket, { httpStatus: 429, message }, systemClock);
      return;
    }
    this.#sessions++;
    socket.once('close', () => this.#sessions--);
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => this.#join(websocket, wish));
  }

  #join(websocket: WebSocket, wish: ExecWish): void {
    const { uid, container, tty, command } = wish;
    const remote = new RemoteCommand(websocket, wish);
    this.#deps.log.info({ pod: uid, container, tty, program: command[0]?.slice(0, 100) }, 'a command runs in a pod');
    this.#start(wish).then(
      ({ child, channels }) => {
        const end = () => {
          endCommand(child);
          // What has a terminal hears that it is gone.
          for (const output of channels.outputs) output.destroy();
        };
        websocket.once('close', end);
        if (websocket.readyState !== websocket.OPEN) end();
        remote.carry(channels, endOf(child));
      },
      (error: unknown) => remote.end({ kind: 'failed', message: errorMessage(error) }),
    );
  }

  async #start({ uid, nodeName, command, env: given, tty }: ExecWish): Promise<Started> {
    const sandboxes = this.#deps.sandboxesOf(nodeName);
    if (!sandboxes) throw new Error(`the node ${nodeName} is not one of this machine`);
    const env = { PATH: path, HOME: '/root', ...given, ...(tty && { TERM: 'xterm' }) };
    if (!tty) {
      const child = await sandboxes.exec(uid, { argv: command, env, stdio: 'pipes' });
      const { stdin, stdout, stderr } = child;
      return {
        child,
        channels: { stdin: stdin ?? undefined, outputs: [stdout, stderr].filter((each) => each !== null) },
      };
    }
    const { child, master, resize } = await sandboxes.execAtTerminal(uid, { argv: command, env });
    const terminal = new ReadStream(master) as Readable & Writable;
    // EIO: all programs have left it. Its end is known by theirs.
    terminal.on('error', () => terminal.destroy());
    terminal.once('close', () => endCommand(child));
    return { child, channels: { stdin: terminal, outputs: [terminal], resize } };
  }
}

function endOf(child: ChildProcess): Promise<ExecEnd> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ kind: 'failed', message: errorMessage(error) }));
    child.once('exit', (code, signal) => resolve({ kind: 'exited', code: code ?? 128, signal: signal ?? undefined }));
  });
}
