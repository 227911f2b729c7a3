import { randomUUID } from 'node:crypto';
import { arch, hostname } from 'node:os';
import { createLogger, errorMessage, type Logger } from '../base/index.ts';
import { Controller, type ControllerFlags, controllerUsage, parseControllerFlags } from '../controller/index.ts';
import { KubeClient, LeaderElector, loadKubeAccess, podNamespace } from '../kube/index.ts';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64', s390x: 's390x' };

function readFlags(): ControllerFlags | undefined {
  try {
    const flags = parseControllerFlags(process.argv.slice(2));
    if (!flags) process.stdout.write(controllerUsage());
    return flags;
  } catch (error) {
    process.stderr.write(`${errorMessage(error)}\n\n${controllerUsage()}`);
    process.exitCode = 2;
    return undefined;
  }
}

async function connect(flags: ControllerFlags, log: Logger): Promise<KubeClient> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  const access = await loadKubeAccess({
    kubeconfig: flags.kubeconfig,
    master: flags.master,
    inCluster: { host, port },
  });
  return new KubeClient({ userAgent: 'virt-controller', rateLimit: { qps: 200, burst: 400 } }, { access, log });
}

async function run(flags: ControllerFlags, log: Logger): Promise<void> {
  const stopping = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(1);
      stopping.abort(new Error(name));
    });
  }
  const client = await connect(flags, log);
  const { signal } = stopping;
  const elector = flags.lease && makeElector(flags.lease, (await podNamespace()) ?? 'kubevirt', client, log);
  await elector?.acquire(signal);
  const controller = new Controller(
    {
      config: {
        launcherImage: flags.launcherImage,
        runtimeUser: flags.runtimeUser,
        architecture: architectures[arch()] ?? arch(),
      },
      vmWorkers: flags.vmWorkers,
      vmiWorkers: flags.vmiWorkers,
      migrationWorkers: flags.migrationWorkers,
      evacuationWorkers: flags.evacuationWorkers,
      nodeWorkers: flags.nodeWorkers,
      replicaSetWorkers: flags.replicaSetWorkers,
      poolWorkers: flags.poolWorkers,
      standaloneScheduler: flags.standaloneScheduler,
      ...(flags.explainSocket !== '' && { explain: { socketFile: flags.explainSocket, pid: process.pid } }),
    },
    { client, log, randomUuid: randomUUID },
  );
  // The lease is kept while the work goes on and given back after it.
  const working = new AbortController();
  const held = elector?.hold(working.signal).then((end) => {
    if (end === 'lost') stopping.abort(new Error('the lease was lost'));
  });
  try {
    await controller.start(signal);
    await untilAborted(signal);
  } finally {
    await controller.stop();
    working.abort();
    await held;
    client.close();
  }
  if (!/^SIG/.test(errorMessage(signal.reason))) throw signal.reason;
}

/** `namespace`: of the installation, where the lease is. */
function makeElector(
  lease: NonNullable<ControllerFlags['lease']>,
  namespace: string,
  client: KubeClient,
  log: Logger,
): LeaderElector {
  // As upstream: the pod's name, so that a process that was killed goes on at once when it is back.
  const identity = hostname();
  return new LeaderElector({ namespace, name: 'virt-controller', identity, ...lease }, { client, log });
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

const flags = readFlags();
if (flags) {
  const log = createLogger({ component: 'virt-controller', verbosity: flags.verbosity });
  try {
    await run(flags, log);
    log.info({}, 'virt-controller ends');
  } catch (error) {
    if (!(error instanceof Error && /^SIG/.test(error.message))) {
      log.fatal({ err: error }, errorMessage(error));
      process.exitCode = 1;
    }
  }
}
