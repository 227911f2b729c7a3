import { rename } from 'node:fs/promises';
import { credentials, Metadata, Server } from '@grpc/grpc-js';
import { errorMessage } from '../../base/index.ts';
import {
  clientOptions,
  cmd,
  cmdInfo,
  serverOptions,
  serveUnix,
  supportedVersions,
  type UnixListener,
  unixTarget,
} from '../../wire/index.ts';
import { LauncherError } from '../errors.ts';

export interface CommandServerOptions {
  /** Where it listens until "ready". */
  readonly initSocket: string;
  readonly socket: string;
  /** Limit of the check that it answers. */
  readonly checkTimeoutMs: number;
}

const maxConnections = 200;
const stopLimitMs = 1000;

/** The launcher's gRPC server. Readiness is the rename of its socket, as upstream's `markReady` does it. */
export class CommandServer {
  readonly #options: CommandServerOptions;
  readonly #server = new Server(serverOptions());
  #listener: UnixListener | undefined;

  constructor(options: CommandServerOptions, service: cmd.CmdServer) {
    this.#options = options;
    this.#server.addService(cmd.CmdService, service);
    const info: cmdInfo.CmdInfoServer = {
      info: (_call, callback) => callback(null, { supportedCmdVersions: [...supportedVersions] }),
    };
    this.#server.addService(cmdInfo.CmdInfoService, info);
  }

  /** Listens on the init socket and checks with a client of its own that Info and Ping are answered. */
  async start(): Promise<void> {
    const { initSocket } = this.#options;
    try {
      this.#listener = await serveUnix(this.#server, initSocket, { maxConnections });
      await this.#check();
    } catch (cause) {
      throw new LauncherError(
        'SETUP_FAILED',
        `command server at ${initSocket} does not answer: ${errorMessage(cause)}`,
        {
          cause,
        },
      );
    }
  }

  /** From now on the agent finds it. */
  async markReady(): Promise<void> {
    await rename(this.#options.initSocket, this.#options.socket);
  }

  /**
   * Lets answers that are under way go out (the Delete that ends it all), for up to a second. The ready socket's file stays: a
   * connect to it is refused from now on.
   */
  async stop(): Promise<void> {
    await withLimit(new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve())), stopLimitMs);
    await withLimit(this.#listener?.close(), stopLimitMs);
    this.#server.forceShutdown();
  }

  async #check(): Promise<void> {
    const name = unixTarget(this.#options.initSocket);
    const insecure = credentials.createInsecure();
    const client = new cmd.CmdClient(name.target, insecure, clientOptions());
    const info = new cmdInfo.CmdInfoClient(name.target, insecure, { channelOverride: client.getChannel() });
    const options = { deadline: Date.now() + this.#options.checkTimeoutMs };
    try {
      await new Promise((resolve, reject) => {
        info.info({}, new Metadata(), options, (error, answer) => (error ? reject(error) : resolve(answer)));
      });
      await new Promise((resolve, reject) => {
        client.ping({}, new Metadata(), options, (error, answer) => (error ? reject(error) : resolve(answer)));
      });
    } finally {
      client.close();
      name.close();
    }
  }
}

async function withLimit(work: Promise<void> | undefined, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
