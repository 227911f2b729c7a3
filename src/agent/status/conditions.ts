import { type Condition, type Domain, findCondition, type VmiSpec, type VmiStatus } from '../../api/index.ts';
import type { VmiEvent } from '../ports.ts';

const syncFailedReason = 'Synchronizing with the Domain failed.';

function setCondition(status: VmiStatus, condition: Condition): void {
  const others = (status.conditions ?? []).filter(({ type }) => type !== condition.type);
  status.conditions = [...others, condition];
}

export function removeCondition(status: VmiStatus, type: string): void {
  if (status.conditions) status.conditions = status.conditions.filter((condition) => condition.type !== type);
}

/** Replaces only what differs in meaning, so that times stay those of the change. */
export function putCondition(status: VmiStatus, wanted: Condition, now: string | null): void {
  const present = findCondition(status.conditions, wanted.type);
  const isSame =
    present?.status === wanted.status &&
    (present.reason ?? '') === (wanted.reason ?? '') &&
    (present.message ?? '') === (wanted.message ?? '');
  if (!isSame)
    setCondition(status, { ...wanted, lastProbeTime: wanted.lastProbeTime ?? null, lastTransitionTime: now });
}

/** Upstream keeps the first message for ever; ours follows the error (spec 10b §7). */
export function setSyncFailed(status: VmiStatus, message: string, now: string): void {
  putCondition(status, { type: 'Synchronized', status: 'False', reason: syncFailedReason, message }, now);
}

/** The agent cannot migrate yet, and says so before anybody tries. */
const notMigratable = 'this node agent does not support live migration yet';

export function setNotMigratable(status: VmiStatus): void {
  for (const type of ['LiveMigratable', 'StorageLiveMigratable']) {
    putCondition(status, { type, status: 'False', reason: 'NotMigratable', message: notMigratable }, null);
  }
}

const nothingToBoot =
  'there is nothing to boot: no disk, no kernel and no network interface with a boot order. Add a volume with a disk ' +
  '(a containerDisk, say) or spec.domain.firmware.kernelBoot, and create the VirtualMachineInstance again.';

/**
 * Such a guest runs, as upstream's does, and shows its firmware's complaint on a screen nobody looks at: said here.
 * Gives the event when the condition is new.
 */
export function setNothingToBoot(status: VmiStatus, spec: VmiSpec | undefined): VmiEvent[] {
  const type = 'NothingToBoot';
  const { devices, firmware } = spec?.domain ?? {};
  const isBootable =
    Boolean(spec?.volumes?.length || devices?.disks?.length || firmware?.kernelBoot?.container) ||
    devices?.interfaces?.some(({ bootOrder }) => bootOrder !== undefined);
  const isKnown = findCondition(status.conditions, type) !== undefined;
  if (isBootable || isKnown) return [];
  setCondition(status, { type, status: 'True', reason: 'NoDiskAndNoKernel', message: nothingToBoot });
  return [{ type: 'Warning', reason: type, message: nothingToBoot }];
}

const pauseReasons: Readonly<Record<string, readonly [reason: string, message: string]>> = {
  User: ['PausedByUser', 'VMI was paused by user'],
  IOError: ['PausedIOError', 'VMI was paused, low-level IO error detected'],
};

/** A paused guest keeps the reason it was first paused for (spec 10b §3). */
export function setPaused(status: VmiStatus, domain: Domain | undefined, now: string): void {
  if (domain?.Status.Status !== 'Paused') {
    removeCondition(status, 'Paused');
    return;
  }
  const known = pauseReasons[domain.Status.Reason];
  if (!known || findCondition(status.conditions, 'Paused')) return;
  const [reason, message] = known;
  setCondition(status, {
    type: 'Paused',
    status: 'True',
    reason,
    message,
    lastProbeTime: now,
    lastTransitionTime: now,
  });
}

const agentChannel = 'org.qemu.guest_agent.0';

function isGuestAgentConnected(domain: Domain | undefined): boolean {
  const channels = domain?.Spec?.Devices?.Channels ?? [];
  return channels.some(({ Target: target }) => target?.Name === agentChannel && target.State === 'connected');
}

export function setAgentConnected(status: VmiStatus, domain: Domain | undefined, now: string): void {
  if (!isGuestAgentConnected(domain)) {
    removeCondition(status, 'AgentConnected');
    removeCondition(status, 'AgentVersionNotSupported');
    return;
  }
  if (findCondition(status.conditions, 'AgentConnected')) return;
  setCondition(status, { type: 'AgentConnected', status: 'True', lastProbeTime: now, lastTransitionTime: null });
}

/** True when the condition changed: worth an event. */
export function setAccessCredentials(status: VmiStatus, domain: Domain | undefined, now: string): boolean {
  const metadata = domain?.Spec?.Metadata?.KubeVirt?.AccessCredential;
  if (!metadata) return false;
  const type = 'AccessCredentialsSynchronized';
  const before = findCondition(status.conditions, type);
  const wanted = metadata.Succeeded ? 'True' : 'False';
  putCondition(status, { type, status: wanted, message: metadata.Message ?? '' }, now);
  return findCondition(status.conditions, type) !== before;
}
