import type { Container, Pod, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { podNames, renderLauncherPod } from './render.ts';
import type { ClaimsByName } from './volumes.ts';

/** Beside the VMI's UID in what its name is made of. */
export const temporaryPurpose = 'temporary';

/**
 * A pod that asks for a node and for volumes as the launcher pod will, and does nothing there: volumes that wait for a first consumer get
 * one, and their DataVolumes are filled (upstream: `tempPod` of renderLaunchManifest in pkg/virt-controller/services/template.go). Throws PodRenderError.
 */
export function renderTemporaryPod(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  salt: string,
  claims: ClaimsByName,
  stateClaim?: string,
): Pod {
  const launcher = renderLauncherPod(vmi, config, salt, claims, stateClaim);
  const { readinessGates, initContainers, containers, ...spec } = launcher.spec;
  const { name, uid = '' } = vmi.metadata;
  return {
    ...launcher,
    metadata: {
      ...launcher.metadata,
      name: podNames(name, `${uid} ${temporaryPurpose}`, salt).podName,
      annotations: { ...launcher.metadata.annotations, 'kubevirt.io/ephemeral-provisioning': 'true' },
    },
    spec: { ...spec, containers: containers.filter((each) => each.name === 'compute').map(idle) },
  };
}

/** No guest is there to be asked. */
function idle({ livenessProbe, readinessProbe, ...compute }: Container): Container {
  return { ...compute, command: ['/bin/sh', '-c', 'echo bound claims'] };
}
