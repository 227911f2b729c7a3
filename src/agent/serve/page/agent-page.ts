import path from 'node:path';
import { type Component, errorMessage, type Logger } from '../../../base/index.ts';
import { replaceFile } from '../../../host/index.ts';
import { type VmApi, type WebBackend, WebServer } from '../../../web/index.ts';
import { VmiFeed, type VmiFeedDeps } from './vmi-feed.ts';

export interface AgentPageOptions {
  readonly nodeName: string;
  /** `--web-port`, on the loopback addresses. */
  readonly port: number;
  /** The built page. */
  readonly pageDir: string;
  /** `--kubevirt-private-dir`: the address with its token is written there, for root. */
  readonly privateDir: string;
}

export interface AgentPageDeps extends VmiFeedDeps {
  readonly api: VmApi;
  readonly why: WebBackend['why'];
  readonly log: Logger;
}

/** The node's page, without starting and stopping. What fails here is reported and harms no VM. */
export class AgentPage implements Component {
  readonly name = 'web page';
  readonly #options: AgentPageOptions;
  readonly #deps: AgentPageDeps;
  readonly #feed: VmiFeed;
  #server: WebServer | undefined;

  constructor(options: AgentPageOptions, deps: AgentPageDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#feed = new VmiFeed(options.nodeName, deps);
  }

  async start(): Promise<void> {
    const { nodeName, port, pageDir } = this.#options;
    const { api, why, log, clock } = this.#deps;
    const { addressFile } = this;
    try {
      const backend: WebBackend = { nodeName, vms: this.#feed, api, why };
      const tokenHint = `open the address that is in ${addressFile} on node ${nodeName}`;
      const server = new WebServer({ port, pageDir, tokenHint }, { backend, log, clock });
      await server.start();
      this.#server = server;
      this.#feed.start();
      await replaceFile(addressFile, `${server.url}\n`, 0o600);
      // The token is not for a log, which others collect and read.
      log.info({ port: server.port, addressFile }, 'the web page is on the loopback address of this pod');
    } catch (error) {
      log.error({ reason: errorMessage(error), port }, 'the web page cannot be served');
    }
  }

  async stop(): Promise<void> {
    this.#feed.stop();
    await this.#server?.stop();
  }

  get addressFile(): string {
    return path.join(this.#options.privateDir, 'web-url');
  }
}
