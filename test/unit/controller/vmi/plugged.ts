import type { PersistentVolumeClaim, Pod, PodPhase, VmiSpec } from '../../../../src/api/index.ts';
import type { AttachmentPod, Claims } from '../../../../src/controller/pod/hotplug-volumes.ts';

/** The spec of a VMI with volumes that its launcher pod does not bring along; each is on the claim of its name. */
export function pluggedSpec(...names: readonly string[]): VmiSpec {
  return {
    domain: { memory: { guest: '128Mi' }, devices: { disks: names.map((name) => ({ name, disk: { bus: 'scsi' } })) } },
    volumes: names.map((name) => ({ name, persistentVolumeClaim: { claimName: name, hotpluggable: true } })),
  };
}

export function claim(name: string, change: Partial<PersistentVolumeClaim> = {}): PersistentVolumeClaim {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'default', uid: `uid-claim-${name}`, resourceVersion: '30' },
    spec: { accessModes: ['ReadWriteOnce'], volumeMode: 'Filesystem', resources: { requests: { storage: '1Gi' } } },
    status: { phase: 'Bound', capacity: { storage: '2Gi' } },
    ...change,
  };
}

export const claims = (...names: readonly string[]): Claims => new Map(names.map((name) => [name, claim(name)]));

/** An attachment pod that holds the volumes `names`, each on the claim of its name. */
export function attachmentPod(id: string, phase: PodPhase, ...names: readonly string[]): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `hp-volume-${id}`,
      namespace: 'default',
      uid: `uid-${id}`,
      resourceVersion: '31',
      creationTimestamp: '2026-01-01T00:01:00Z',
      labels: { 'kubevirt.io': 'hotplug-disk' },
      ownerReferences: [
        { apiVersion: 'v1', kind: 'Pod', name: 'virt-launcher-vm1-abcde', uid: 'uid-pod', controller: true },
      ],
    },
    spec: {
      nodeName: 'node1',
      containers: [{ name: 'hotplug-disk' }],
      volumes: [
        { name: 'hotplug-disks', emptyDir: {} },
        ...names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
      ],
    },
    status: {
      phase,
      containerStatuses: [
        { name: 'hotplug-disk', ready: phase === 'Running', restartCount: 0, image: 'virt-launcher', imageID: '' },
      ],
    },
  };
}

export function attached(id: string, phase: PodPhase, ...names: readonly string[]): AttachmentPod {
  return { pod: attachmentPod(id, phase, ...names), isOwn: true };
}
