import './small-heap.ts';
import { randomUUID } from 'node:crypto';
import { arch, hostname } from 'node:os';
import { createAdjustableLogger, errorMessage } from '../base/index.ts';
import { type ControllerFlags, ControllerProgram, controllerUsage, parseControllerFlags } from '../controller/index.ts';
import { loadKubeAccess, podNamespace } from '../kube/index.ts';
import { collectWhenQuiet } from './collect-when-quiet.ts';

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

/** True: it ended as it was asked to. */
async function run(flags: ControllerFlags): Promise<boolean> {
  const logging = createAdjustableLogger({ component: 'virt-controller', verbosity: flags.verbosity });
  const { log } = logging;
  const stopping = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(1);
      stopping.abort(new Error(name));
    });
  }
  try {
    if (flags.unused.length > 0) log.warn({ flags: flags.unused }, 'flags were given that nothing here uses');
    collectWhenQuiet();
    const program = await makeProgram(flags, logging);
    const end = await program.run(stopping.signal);
    if (end.kind === 'released') log.info({}, 'virt-controller ends');
    else log.fatal({ reason: end.reason }, 'the lease was lost: virt-controller ends, and another one leads');
    return end.kind === 'released';
  } catch (error) {
    log.fatal({ err: error }, errorMessage(error));
    return false;
  }
}

async function makeProgram(
  flags: ControllerFlags,
  logging: ReturnType<typeof createAdjustableLogger>,
): Promise<ControllerProgram> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port, POD_NAME: podName } = process.env;
  const { kubeconfig, master, server, verbosity } = flags;
  const access = await loadKubeAccess({ kubeconfig, master, inCluster: { host, port } });
  // As upstream: the pod's name, so that a process that was killed goes on at once when it is back.
  const identity = podName || hostname();
  const namespace = (await podNamespace()) ?? 'kubevirt';
  const lease = flags.lease && { namespace, name: 'virt-controller', identity, ...flags.lease };
  return new ControllerProgram(
    { controller: controllerOptions(flags, namespace), lease, server, verbosity },
    { ...logging, access, randomUuid: randomUUID },
  );
}

function controllerOptions(flags: ControllerFlags, namespace: string) {
  const { launcherImage, imagePullSecret, qemuTimeoutSeconds, launcherGroup, synced, runtimeUser, explainSocket } =
    flags;
  const { exporterImage, exportCaDir, backupCaDir } = flags;
  const ofPods = {
    launcherImage,
    exporterImage,
    imagePullSecret,
    qemuTimeoutSeconds,
    launcherGroup,
    synced,
    runtimeUser,
  };
  return {
    ...flags,
    authorities: { exportCaDir, backupCaDir, namespace },
    config: {
      ...ofPods,
      architecture: architectures[arch()] ?? arch(),
      lacksSynchronization: flags.standaloneScheduler,
    },
    ...(explainSocket !== '' && { explain: { socketFile: explainSocket, pid: process.pid } }),
  };
}

const flags = readFlags();
if (flags && !(await run(flags))) process.exitCode = 1;
