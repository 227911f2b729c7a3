import { type LiveUpdateSettings, parseQuantity, type Quantity } from '../api/index.ts';
import { memberAt } from '../base/index.ts';

/** With upstream's defaults, also in place of a value that is none. `configuration` is that of a KubeVirt object. */
export function readLiveUpdate(configuration: unknown): LiveUpdateSettings {
  const at = (field: string) => memberAt(configuration, 'liveUpdateConfiguration', field) as Quantity | undefined;
  const maxGuest = at('maxGuest');
  return {
    rolloutStrategy: memberAt(configuration, 'vmRolloutStrategy') === 'Stage' ? 'Stage' : 'LiveUpdate',
    liveUpdateRatio: parseQuantity(at('maxHotplugRatio')) ?? 4,
    maxCpuSockets: parseQuantity(at('maxCpuSockets')) ?? 0,
    maxGuest: parseQuantity(maxGuest) === undefined ? undefined : maxGuest,
  };
}
