import type { Stage } from './stage.ts';
import type { Json } from './started-domain.ts';

export interface Scenario {
  readonly name: string;
  readonly play: (stage: Stage) => Promise<void>;
}

export const scenario = (name: string, play: Scenario['play']): Scenario => ({ name, play });
export const final = (vmi: Json) => ['Succeeded', 'Failed'].includes(vmi.status.phase);

/** A VMI that only has to start: what is written and asked depends on its spec. */
export const starts = (name: string, change: (vmi: Json) => void): Scenario =>
  scenario(name, (stage) => stage.run(change));

export const withDomain = (change: (domain: Json) => void) => (vmi: Json) => change(vmi.spec.domain);

export function network(binding: Json) {
  return (vmi: Json) => {
    vmi.spec.domain.devices.interfaces = [{ name: 'default', ...binding }];
    vmi.spec.networks = [{ name: 'default', pod: {} }];
    delete vmi.spec.domain.devices.autoattachPodInterface;
  };
}

export function volume(name: string, source: Json, disk: Json = { disk: { bus: 'virtio' } }) {
  return (vmi: Json) => {
    vmi.spec.domain.devices.disks.push({ name, ...disk });
    vmi.spec.volumes.push({ name, ...source });
    vmi.status.volumeStatus ??= [{ name: 'root', target: '' }];
  };
}

export function claim(accessModes: readonly string[], volumeMode: 'Filesystem' | 'Block' = 'Filesystem') {
  return (vmi: Json) => {
    volume('data', { persistentVolumeClaim: { claimName: 'data' } })(vmi);
    const size = { storage: '1Gi' };
    vmi.status.volumeStatus.push({
      name: 'data',
      target: '',
      persistentVolumeClaimInfo: {
        ...{ claimName: 'data', accessModes, volumeMode, capacity: size, requests: size },
        filesystemOverhead: '0.055',
      },
    });
  };
}

export function hasCondition(vmi: Json, wanted: string): boolean {
  return Boolean(vmi.status.conditions?.some(({ type }: Json) => type === wanted));
}
