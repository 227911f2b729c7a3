import { createHash } from 'node:crypto';
import { annotations, labels, observedApiVersion, type VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { networkAnnotations } from './networks.ts';
import type { PodResources } from './resources.ts';

const istioInjection = 'sidecar.istio.io/inject';

export function hostnameOf(vmi: VirtualMachineInstance): string {
  return vmi.spec.hostname || (vmi.metadata.name.split('.')[0] ?? '').slice(0, 63).replace(/-+$/, '');
}

export function podLabels(vmi: VirtualMachineInstance): Record<string, string> {
  const { name, uid = '' } = vmi.metadata;
  const proxy = vmi.metadata.annotations?.[istioInjection];
  const hash = createHash('sha1').update(name).digest('hex').slice(0, 8);
  return {
    ...vmi.metadata.labels,
    [labels.app]: 'virt-launcher',
    [labels.createdBy]: uid,
    [labels.vmName]: hostnameOf(vmi),
    'vmi.kubevirt.io/id': name.length > 63 ? `${name.slice(0, 54)}-${hash}` : name,
    ...(proxy !== undefined && { [istioInjection]: proxy }),
  };
}

export function podAnnotations(
  vmi: VirtualMachineInstance,
  { networkBindings }: ControllerConfig,
  { overheadBytes }: PodResources,
): Record<string, string> {
  const notCopied = Object.keys(observedApiVersion);
  const copies = Object.entries(vmi.metadata.annotations ?? {}).filter(
    ([key]) => !key.startsWith('kubectl.kubernetes.io') && !notCopied.includes(key),
  );
  const hasMasquerade = vmi.spec.domain.devices?.interfaces?.some(({ masquerade }) => masquerade);
  return {
    ...Object.fromEntries(copies),
    [annotations.domain]: vmi.metadata.name,
    'kubectl.kubernetes.io/default-container': 'compute',
    'kubevirt.io/migrationTransportUnix': 'true',
    'descheduler.alpha.kubernetes.io/request-evict-only': '',
    'kubevirt.io/memory-overhead-bytes': String(overheadBytes),
    ...backupHooks(vmi),
    ...networkAnnotations(vmi, networkBindings),
    ...(hasMasquerade
      ? { 'traffic.sidecar.istio.io/kubevirtInterfaces': 'k6t-eth0', 'istio.io/reroute-virtual-interfaces': 'k6t-eth0' }
      : {}),
  };
}

/** Velero asks them around a snapshot of the pod's volumes: the guest's file systems stand still meanwhile. */
function backupHooks({ metadata: { namespace = 'default', name, annotations: own } }: VirtualMachineInstance) {
  if (own?.['kubevirt.io/skip-backup-hooks'] === 'true') return {};
  const command = (action: string) =>
    `["/usr/bin/virt-freezer", "--${action}", "--name", "${name}", "--namespace", "${namespace}"]`;
  return {
    'pre.hook.backup.velero.io/container': 'compute',
    'pre.hook.backup.velero.io/command': command('freeze'),
    'pre.hook.backup.velero.io/timeout': '60s',
    'post.hook.backup.velero.io/container': 'compute',
    'post.hook.backup.velero.io/command': command('unfreeze'),
  };
}

export const hasIstioProxy = ({ metadata }: VirtualMachineInstance) =>
  metadata.annotations?.[istioInjection] === 'true';
