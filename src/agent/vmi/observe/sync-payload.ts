import { createHash } from 'node:crypto';
import { annotations, type HostFacts, isFinal, type VirtualMachineInstance } from '../../../api/index.ts';
import type { ClusterConfig } from '../../../cluster-config/index.ts';
import type { SyncOptions } from '../ports.ts';
import { syncOptionsOf } from './sync-options.ts';

/** What a launcher call carries for a VMI. */
export interface SyncPayload {
  readonly options: SyncOptions;
  /** Of all that the launcher acts on; empty for a VMI that is final. */
  readonly fingerprint: string;
}

/** Worked out once per object and configuration: a VMI is looked at more often than it changes. Objects are never changed in place. */
export class SyncPayloadCache {
  readonly #known = new WeakMap<VirtualMachineInstance, SyncPayload & { readonly config: ClusterConfig }>();

  of(vmi: VirtualMachineInstance | undefined, config: ClusterConfig, host: HostFacts): SyncPayload {
    const known = vmi && this.#known.get(vmi);
    if (known?.config === config) return known;
    const options = syncOptionsOf(vmi, config, host);
    const fingerprint = vmi && !isFinal(vmi) ? fingerprintOf(vmi, options) : '';
    const syncPayload = { options, fingerprint, config };
    if (vmi) this.#known.set(vmi, syncPayload);
    return syncPayload;
  }
}

/** Labels and what this agent writes itself are left out, but for devices that are gone: they would only repeat the call. */
function fingerprintOf(vmi: VirtualMachineInstance, options: SyncOptions): string {
  const volumes = vmi.status?.volumeStatus?.map(({ name, phase, hotplugVolume, persistentVolumeClaimInfo: claim }) => {
    // A claim that has grown: the launcher tells the guest.
    return [name, phase, hotplugVolume, claim?.capacity, claim?.requests];
  });
  const {
    [annotations.migrationProgress]: _,
    [annotations.migrationRefused]: __,
    ...notes
  } = vmi.metadata.annotations ?? {};
  const syncPayload = [vmi.spec, notes, volumes, awaitedLinks(vmi), options];
  return createHash('sha256').update(JSON.stringify(syncPayload)).digest('base64url').slice(0, 22);
}

/** Of two states of one VMI: for an interface what it waits for has come, or has not any more. */
export function changesAwaitedLinks(before: VirtualMachineInstance, after: VirtualMachineInstance): boolean {
  const links = awaitedLinks(after);
  return awaitedLinks(before).some((hasCome, at) => hasCome !== links[at]);
}

/**
 * Of each interface, whether what it waits for has come: a wanted one is plugged once Multus has given the pod its link, which the controller
 * reports after the specification asks for it; of an absent one the pod's links are taken away once the domain has let go of it.
 */
function awaitedLinks({ spec, status }: VirtualMachineInstance): boolean[] {
  const interfaces = spec?.domain?.devices?.interfaces ?? [];
  return interfaces.map(({ name, state }) => {
    const sources = status?.interfaces?.find((entry) => entry.name === name)?.infoSource?.split(', ') ?? [];
    return state === 'absent' ? !sources.includes('domain') : sources.includes('multus-status');
  });
}
