import type { Domain, DomainReason, DomainStatus, MigrationMetadata } from '../../../src/api/index.ts';
import { domainOf } from '../../fixtures/agent/builders.ts';

/** How a guest came to its end, as the world knows it. */
export type GuestEnd = 'shutdown' | 'crashed' | 'killed' | 'migrated' | 'launcher-died';

/** Of guests that migrate. */
export const sriovInterface = 'fast';

/** libvirt's domain inside one launcher. */
export interface SimDomain {
  status: DomainStatus;
  reason: DomainReason;
  /** Seconds the launcher was told at start. */
  readonly graceSeconds: number;
  /** Wall clock of the first shutdown signal. */
  shutdownAt: string | null;
  migration: MigrationMetadata | null;
  /** It has the device of its SR-IOV interface. */
  sriov: boolean;
}

export interface DomainIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly markedForShutdown: boolean;
}

/** As the launcher writes it; without a domain as it tells of its end. */
export function domainJson(domain: SimDomain | undefined, identity: DomainIdentity, now: Date): string {
  const { namespace, name, uid } = identity;
  if (!domain) {
    const gone = shaped('NoState', 'NonExistent', uid);
    gone.ObjectMeta = { ...gone.ObjectMeta, namespace, name, deletionTimestamp: now.toISOString() };
    return JSON.stringify(gone);
  }
  const shown = shaped(domain.status, domain.reason, uid);
  shown.ObjectMeta = { ...shown.ObjectMeta, namespace, name };
  shown.Spec.Name = `${namespace}_${name}`;
  if (domain.sriov) {
    const alias = { Name: `sriov-${sriovInterface}`, UserDefined: true };
    shown.Spec.Devices = { ...shown.Spec.Devices, HostDevices: [{ Alias: alias }] };
  }
  const { KubeVirt: metadata } = shown.Spec.Metadata;
  metadata.GracePeriod = {
    DeletionGracePeriodSeconds: domain.graceSeconds,
    DeletionTimestamp: domain.shutdownAt,
    MarkedForGracefulShutdown: identity.markedForShutdown || null,
  };
  metadata.Migration = domain.migration;
  return JSON.stringify(shown);
}

function shaped(status: DomainStatus, reason: DomainReason, uid: string): Domain {
  return domainOf(status, reason, { UID: uid });
}
