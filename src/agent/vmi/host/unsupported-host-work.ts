import type { VirtualMachineInstance, VmiEvent } from '../../../api/index.ts';
import type { HostHook } from './work/index.ts';

/** Says clearly what this agent cannot prepare yet, before the launcher fails over it with a riddle. */
export function unsupportedHostWork(): HostHook<'unsupported-host-work', null> {
  return {
    name: 'unsupported-host-work',
    prepare: async ({ vmi }) => ({ kind: 'done', facts: null, events: withoutDownwardMetrics(vmi) }),
  };
}

/** The guest runs well without them: no reason to refuse it, and none to leave its owner waiting for figures. */
function withoutDownwardMetrics({ spec }: VirtualMachineInstance): readonly VmiEvent[] {
  const volume = spec.volumes?.find(({ downwardMetrics }) => downwardMetrics);
  const subjects = [
    ...(spec.domain.devices?.downwardMetrics ? ['the device downwardMetrics'] : []),
    ...(volume ? [`the volume ${volume.name}`] : []),
  ];
  if (subjects.length === 0) return [];
  const message = `${subjects.join(' and ')} will have no figures: this node agent does not serve downward metrics yet`;
  return [{ type: 'Warning', reason: 'DownwardMetricsNotServed', message }];
}
