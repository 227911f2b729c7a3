import {
  type Container,
  type VirtualMachineInstance,
  type Volume,
  virtiofsDir,
  virtiofsNames,
  virtiofsSocket,
  virtiofsVolume,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { hasGuaranteedResources } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import type { ClaimsByName } from './volumes.ts';

const launcherUser = 107;
const privateDir = '/var/run/kubevirt-private';

/**
 * A container for each volume that the guest mounts as a file system (upstream: pkg/virt-controller/services/virtiofs.go). It runs without
 * any right, also where the launcher is root's; what it shares it sees as the guest does. Throws PodRenderError.
 */
export function virtiofsContainers(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  claims: ClaimsByName,
): Container[] {
  const volumes = vmi.spec.volumes ?? [];
  return virtiofsNames(vmi).map((name) => {
    const volume = volumes.find((each) => each.name === name);
    if (!volume) throw unsupported(name, 'there is no volume of this name');
    refuseBlock(volume, claims);
    return virtiofsContainer(volume, vmi, config);
  });
}

function virtiofsContainer(volume: Volume, vmi: VirtualMachineInstance, config: ControllerConfig): Container {
  const shared = sharedPath(volume);
  const limits = { cpu: '100m', memory: '80M' };
  const isMounted = volume.serviceAccount === undefined;
  return {
    name: `virtiofs-${volume.name}`,
    image: config.launcherImage,
    imagePullPolicy: 'IfNotPresent',
    command: ['/usr/libexec/virtiofsd'],
    args: [
      `--socket-path=${virtiofsDir}/${virtiofsSocket(volume.name)}`,
      `--shared-dir=${shared}`,
      '--sandbox=none',
      '--cache=auto',
      // A file that cannot be found again at the destination is an error of the guest's, not the end of the migration.
      '--migration-on-error=guest-error',
      '--migration-mode=find-paths',
      // Else root in the guest may not follow the links of this directory: they belong to the pod's user.
      ...(isMounted ? [] : [`--translate-uid=host:${launcherUser}:0:1`]),
    ],
    volumeMounts: [
      { name: virtiofsVolume, mountPath: virtiofsDir },
      ...(isMounted ? [{ name: volume.name, mountPath: shared }] : []),
    ],
    resources: { requests: hasGuaranteedResources(vmi) ? limits : { cpu: '10m', memory: '1M' }, limits },
    securityContext: {
      runAsUser: launcherUser,
      runAsGroup: launcherUser,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    },
  };
}

/** It comes as a device node, and there is no directory to share. */
function refuseBlock({ name, persistentVolumeClaim, dataVolume }: Volume, claims: ClaimsByName): void {
  const claim = persistentVolumeClaim?.claimName ?? dataVolume?.name ?? '';
  if (claims.get(claim)?.spec.volumeMode !== 'Block') return;
  throw unsupported(name, `claim ${claim} is a block device. Use a claim with volumeMode Filesystem, or a disk`);
}

/** Where the side container has the volume. What is no directory of the pod has no such place. */
function sharedPath(volume: Volume): string {
  const { name } = volume;
  if (volume.configMap) return `${privateDir}/config-map/${name}`;
  if (volume.secret) return `${privateDir}/secret/${name}`;
  if (volume.downwardAPI) return `${privateDir}/downwardapi/${name}`;
  if (volume.serviceAccount) return '/var/run/secrets/kubernetes.io/serviceaccount';
  if (volume.persistentVolumeClaim?.hotpluggable || volume.dataVolume?.hotpluggable) {
    throw unsupported(name, 'a volume that is plugged in can be a disk only');
  }
  if (volume.persistentVolumeClaim || volume.dataVolume) return `/${name}`;
  throw unsupported(
    name,
    'use a claim, a data volume, a config map, a secret, the downward API or the service account',
  );
}

function unsupported(name: string, why: string): PodRenderError {
  return new PodRenderError('UNSUPPORTED', `file system ${name} cannot be shared with the guest by virtiofs: ${why}`);
}
