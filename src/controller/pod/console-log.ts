import type { Container, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { hasGuaranteedResources } from './disk-containers.ts';
import { privateDir } from './standard-volumes.ts';

/**
 * Shows what the guest writes to its serial console as a log of the pod (upstream: pkg/virt-controller/services/serialconsolelog.go): an init
 * container that stays. Undefined: VMI or cluster want none.
 */
export function consoleLog(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  verbosity: number,
): Container | undefined {
  const { autoattachSerialConsole, logSerialConsole } = vmi.spec.domain.devices ?? {};
  if (autoattachSerialConsole === false || !(logSerialConsole ?? config.launcherPods.logsConsoles)) return undefined;
  const said = config.launcherPods.sideContainers['guest-console-log'];
  const limits = { cpu: '15m', memory: '60M', ...said?.limits };
  return {
    name: 'guest-console-log',
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: ['/usr/bin/virt-tail'],
    args: ['--logfile', `${privateDir}/${vmi.metadata.uid ?? ''}/virt-serial0-log`],
    env: [{ name: 'VIRT_LAUNCHER_LOG_VERBOSITY', value: String(verbosity) }],
    resources: {
      requests: hasGuaranteedResources(vmi) ? limits : { cpu: '5m', memory: '35M', ...said?.requests },
      limits,
    },
    restartPolicy: 'Always',
    volumeMounts: [{ name: 'private', mountPath: privateDir, readOnly: true }],
    securityContext: {
      runAsUser: 107,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    },
  };
}
