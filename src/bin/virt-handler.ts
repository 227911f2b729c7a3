import './small-heap.ts';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  type AgentOptions,
  AgentOptionsError,
  agentUsage,
  NodeAgent,
  parseAgentOptions,
  readNodeFacts,
} from '../agent/index.ts';
import { createAdjustableLogger, errorMessage, FlagError, type Logger } from '../base/index.ts';
import { loadKubeAccess, podNamespace } from '../kube/index.ts';
import { collectOnce } from './collect-once.ts';
import { heapForStreams } from './heap-for-streams.ts';

/** Beside the programs, from `npm run build`. */
const pageDir = join(import.meta.dirname, '../web');
/** Written by an init container; a standalone node has a path of its own. */
const labellerDir = process.env.KUBEVIRT_NODE_LABELLER_DIR ?? '/var/lib/kubevirt-node-labeller';

const dutiesBeginMs = 5_000;

const options = readOptions(await podNamespace());
if (options) await run(options);

function readOptions(installNamespace: string | undefined): AgentOptions | undefined {
  const environment = {
    hostName: hostname(),
    nodeName: process.env.NODE_NAME,
    podsDir: process.env.KUBEVIRT_PODS_DIR,
    installNamespace,
  };
  try {
    const parsed = parseAgentOptions(process.argv.slice(2), environment);
    if (!parsed) process.stdout.write(agentUsage());
    return parsed;
  } catch (error) {
    if (error instanceof FlagError) process.stderr.write(`${error.message}\n${agentUsage()}`);
    else if (error instanceof AgentOptionsError) process.stderr.write(`virt-handler: ${error.message}\n`);
    else throw error;
    process.exitCode = 2;
    return undefined;
  }
}

/** Whose mount namespace is the machine's; upstream's variable is for an agent whose parent is in it. */
function hostPidOf(hostRoot: string): number {
  if (process.env.VIRT_IN_CONTAINER === 'true') return process.ppid;
  return hostRoot === '/' ? process.pid : 1;
}

async function run(agentOptions: AgentOptions): Promise<void> {
  const { log, setVerbosity } = createAdjustableLogger({
    component: 'virt-handler',
    verbosity: agentOptions.verbosity,
  });
  const leaving = new AbortController();
  let signals = 0;
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const) {
    process.on(name, () => {
      signals++;
      // A user who asks twice does not want to wait for what the first time began.
      if (signals > 1) process.exit(1);
      log.info({ signal: name }, 'leaving; VMs go on; a second signal ends it at once');
      leaving.abort(new Error(name));
    });
  }
  try {
    const access = await loadAccess(agentOptions);
    // In a pod with the host's pid namespace process 1 is the host's; a standalone agent says where the host is.
    const hostRoot = process.env.KUBEVIRT_HOST_ROOT ?? '/proc/1/root';
    const host = await readNodeFacts({ hostRoot, labellerDir, arch: process.arch }, log);
    const paths = { hostRoot, hostDevDir: join(hostRoot, 'dev'), hostPid: hostPidOf(hostRoot), labellerDir, pageDir };
    const seams = { access, log, setVerbosity, host, onStreams: heapForStreams };
    const agent = new NodeAgent(agentOptions, { ...seams, ...paths });
    await serve(agent, agentOptions, log, leaving.signal);
  } catch (error) {
    if (leaving.signal.aborted) {
      log.info({ reason: describe(error) }, 'left before it served');
      leaveForSure(log);
      return;
    }
    log.fatal({ reason: describe(error) }, 'virt-handler cannot run');
    process.exitCode = 2;
  }
}

async function serve(agent: NodeAgent, { nodeName }: AgentOptions, log: Logger, signal: AbortSignal): Promise<void> {
  try {
    await agent.start(signal);
  } catch (error) {
    await agent.stop().catch(() => undefined);
    throw error;
  }
  log.info({ node: nodeName, startUpMs: Math.round(performance.now()) }, 'virt-handler serves this node');
  collectOnce();
  // Once more when the node's own duties, the kubelet's plugins among them, have begun, too.
  setTimeout(collectOnce, dutiesBeginMs).unref();
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  await agent.stop().catch((error: unknown) => log.warn({ reason: describe(error) }, 'not everything stopped cleanly'));
  log.info({ node: nodeName }, 'left');
  leaveForSure(log);
}

/** The process ends because nothing is left of it. What is stuck all the same, a file system say, does not keep it. */
function leaveForSure(log: Logger): void {
  const timer = setTimeout(() => {
    log.warn({ open: process.getActiveResourcesInfo() }, 'something keeps this process: it ends now');
    process.exit();
  }, 2_000);
  timer.unref();
}

function loadAccess({ kubeconfig, master }: AgentOptions) {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  return loadKubeAccess({ kubeconfig, master, inCluster: { host, port } });
}

function describe(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(errorMessage).join('; ');
  const cause = error instanceof Error && error.cause !== undefined ? `: ${errorMessage(error.cause)}` : '';
  return `${errorMessage(error)}${cause}`;
}
