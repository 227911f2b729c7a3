import { rm } from 'node:fs/promises';
import { type Component, errorMessage, type Logger } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { type WebBackend, WebServer } from '../../web/index.ts';
import { AgentProxy, agentOf, getExplanation } from '../agent-api/index.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { KubeVmFeed } from './vm-feed.ts';
import { startVm, stopVm } from './vm-power.ts';

export interface NodePageOptions {
  readonly paths: NodePaths;
  readonly nodeName: string;
  /** On the loopback address; it must be free. */
  readonly port: number;
  /** The built page. */
  readonly pageDir: string;
}

export interface NodePageDeps {
  /** What the page may do is what this one may do. */
  readonly client: KubeClient;
  readonly log: Logger;
}

/** The web page of the standalone node. A page that cannot be served is no reason not to run VMs: it is logged, and reported. */
export class NodePage implements Component {
  readonly name = 'page';
  readonly #options: NodePageOptions;
  readonly #deps: NodePageDeps;
  readonly #feed: KubeVmFeed;
  #server: WebServer | undefined;
  #problem: string | undefined;

  constructor(options: NodePageOptions, deps: NodePageDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#feed = new KubeVmFeed(deps);
  }

  /** For a person: the address with its token, or why there is none. */
  get address(): string {
    return this.#server?.url ?? `no web page: ${this.#problem ?? 'not started'}`;
  }

  async start(): Promise<void> {
    const { paths, port, pageDir } = this.#options;
    try {
      const tokenHint = 'run `virt-node url` as the user of the node (root), and open the address that it prints';
      const server = new WebServer({ port, pageDir, tokenHint }, { backend: this.#backend(), log: this.#deps.log });
      await this.#feed.start();
      await server.start();
      this.#server = server;
      await writeFileAtomic(paths.webAddress, `${server.url}\n`, 0o600);
    } catch (error) {
      this.#problem = errorMessage(error);
      this.#deps.log.error({ reason: this.#problem }, 'the web page cannot be served');
    }
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    this.#server = undefined;
    await this.#feed.stop();
  }

  #backend(): WebBackend {
    const { paths, nodeName } = this.#options;
    const { client, log } = this.#deps;
    return {
      nodeName,
      vms: this.#feed,
      actions: {
        start: (namespace, name, signal) => startVm(client, { namespace, name }, signal),
        stop: (namespace, name, signal) => stopVm(client, { namespace, name }, signal),
      },
      api: new AgentProxy({ find: agentOf(paths), log }),
      why: async (target, signal) => {
        const { httpStatus, document } = await getExplanation(paths.agentSocket, target, { signal });
        return { httpStatus, body: document };
      },
    };
  }
}

/** The address that a running node wrote; undefined when it serves no page. */
export async function pageAddress({ webAddress }: NodePaths): Promise<string | undefined> {
  return (await readIfThere(webAddress))?.trim();
}

/** A node without a page must not leave the address of an earlier one. */
export async function forgetPage({ webAddress }: NodePaths): Promise<void> {
  await rm(webAddress, { force: true });
}
