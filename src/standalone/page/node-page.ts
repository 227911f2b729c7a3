import { rm } from 'node:fs/promises';
import { type Component, errorMessage, type Logger } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { type ExplainAnswer, type WebBackend, type WebImages, WebServer } from '../../web/index.ts';
import { AgentProxy, agentOf, getExplanation, knownAgents } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { readTimeline } from '../timeline/index.ts';
import { readWaiting } from '../waiting/index.ts';
import { beginMove, cancelMove } from './moves.ts';
import { cordonNode, emptyNode } from './node-actions.ts';
import { KubeVmFeed } from './vm-feed.ts';
import { restartVm, startVm, stopVm } from './vm-power.ts';

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
  readonly images: WebImages;
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
      await writeFileAtomic(paths.webViewAddress, `${server.viewUrl}\n`, 0o600);
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
    const { client, images, log } = this.#deps;
    return {
      nodeName,
      images,
      kube: { pass: (request) => client.plain(request) },
      vms: this.#feed,
      actions: {
        start: (namespace, name, signal) => startVm(client, { namespace, name }, signal),
        stop: (namespace, name, signal) => stopVm(client, { namespace, name }, signal),
        restart: (namespace, name, signal) => restartVm(client, { namespace, name }, signal),
      },
      nodes: {
        rows: () => this.#feed.nodes(),
        move: async (namespace, name, node, signal) => {
          await beginMove(client, { namespace, name }, node, signal);
        },
        cancelMove: (namespace, name, signal) => cancelMove(client, { namespace, name }, signal),
        cordon: (node, isCordoned, signal) => cordonNode(client, node, isCordoned, signal),
        empty: (node, signal) => emptyNode(client, node, signal),
        explain: async (node, target, signal) => {
          const socket = await this.#socketOf(node);
          if (socket === undefined) throw new NodeError('AGENT_AWAY', `the agent of ${node} does not run`);
          return explained(socket, target, signal);
        },
      },
      api: new AgentProxy({ find: agentOf(paths), log }),
      why: async (target, signal) => explained(await this.#agentFor(target), target, signal),
      waiting: async (namespace, name) =>
        reported(await readWaiting(client, paths, { namespace, name }, new Date()), 'there is no such VM'),
      timeline: async (namespace, name) =>
        reported(
          await readTimeline(client, paths, { namespace, name }, new Date()),
          `${namespace}/${name} does not run`,
        ),
      figures: async (namespace, name, signal) => {
        const target = `/figures/${namespace}/${name}`;
        return explained(await this.#agentFor(target), target, signal);
      },
    };
  }

  /** The socket of the agent that has the VMI; of anything else the first one's. */
  async #agentFor(target: string): Promise<string> {
    const { paths } = this.#options;
    const [, namespace, name] = target.split('/').slice(1);
    const row = this.#feed.rows().find((each) => each.namespace === namespace && each.name === name);
    const node = row?.vmi?.node;
    return (node === undefined ? undefined : await this.#socketOf(node)) ?? paths.agentSocket;
  }

  async #socketOf(node: string): Promise<string | undefined> {
    const agents = await knownAgents(this.#options.paths);
    return agents.find((agent) => agent.node === node)?.socket;
  }
}

/** `missing`: what is said where there is none. */
function reported(report: object | undefined, missing: string): ExplainAnswer {
  return report ? { httpStatus: 200, body: report } : { httpStatus: 404, body: { message: missing } };
}

async function explained(socket: string, target: string, signal: AbortSignal): Promise<ExplainAnswer> {
  const { httpStatus, document } = await getExplanation(socket, target, { signal });
  return { httpStatus, body: document };
}

/** The address that a running node wrote, on demand that for looking only; undefined when it serves no page. */
export async function pageAddress(
  { webAddress, webViewAddress }: NodePaths,
  isReadOnly = false,
): Promise<string | undefined> {
  return (await readIfThere(isReadOnly ? webViewAddress : webAddress))?.trim();
}

/** A node without a page must not leave the address of an earlier one. */
export async function forgetPage({ webAddress, webViewAddress }: NodePaths): Promise<void> {
  await Promise.all([webAddress, webViewAddress].map((file) => rm(file, { force: true })));
}
