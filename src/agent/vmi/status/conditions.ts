import {
  type Condition,
  type Domain,
  findCondition,
  isSameCondition,
  type VmiSpec,
  type VmiStatus,
  withoutCondition,
} from '../../../api/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import { bounds, clip } from './bounds.ts';

const syncFailedReason = 'Synchronizing with the Domain failed.';

/** Unset times are written as null, as upstream does (pkg/virt-handler/vm.go). */
function setCondition(status: VmiStatus, condition: Condition): void {
  const others = withoutCondition(status.conditions ?? [], condition.type);
  status.conditions = [...others, { lastProbeTime: null, lastTransitionTime: null, ...condition }];
}

export function removeCondition(status: VmiStatus, type: string): void {
  if (status.conditions) status.conditions = withoutCondition(status.conditions, type);
}

/** Replaces only what differs in meaning, so that times stay those of the change. */
export function putCondition(status: VmiStatus, condition: Condition, now: string | null): void {
  const present = findCondition(status.conditions, condition.type);
  const { message, reason } = condition;
  const wanted = {
    ...condition,
    ...(reason !== undefined && { reason: clip(reason, bounds.reasonBytes) }),
    ...(message !== undefined && { message: clip(message, bounds.messageBytes) }),
  };
  const isSame = present !== undefined && isSameCondition(present, wanted);
  if (!isSame) setCondition(status, { ...wanted, lastTransitionTime: now });
}

/** Upstream keeps the first message for ever; ours follows the error. */
export function setSyncFailed(status: VmiStatus, message: string, now: string): void {
  putCondition(status, { type: 'Synchronized', status: 'False', reason: syncFailedReason, message }, now);
}

const nothingToBoot =
  'there is nothing to boot: no disk, no kernel and no network interface with a boot order. Add a volume with a disk ' +
  '(a containerDisk, say) or spec.domain.firmware.kernelBoot, and create the VirtualMachineInstance again.';

/**
 * Such a guest runs, as upstream's does, and shows its firmware's complaint on a screen that may have no viewer: reported here.
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
const pausedByMigration = ['PausedByMigrationMonitor', 'VMI was paused by the migration monitor'] as const;

/** A paused guest keeps the reason it was first paused for (pkg/virt-handler/vm.go). */
export function setPaused(status: VmiStatus, domain: Domain | undefined, nodeName: string, now: string): void {
  if (domain?.Status.Status !== 'Paused') {
    removeCondition(status, 'Paused');
    return;
  }
  const { Reason: why } = domain.Status;
  const known = why === 'Migration' && isPausedToMigrate(status, nodeName) ? pausedByMigration : pauseReasons[why];
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

/** The migration monitor stopped the guest of this node so that its memory can follow. */
function isPausedToMigrate({ migrationState: state }: VmiStatus, nodeName: string): boolean {
  return (
    state?.mode === 'Paused' && !state.completed && state.sourceNode === nodeName && Boolean(state.targetNodeAddress)
  );
}

/** A guest of another architecture runs without KVM, slowly (gate CrossArchitectureVirtualization). */
export function setSoftwareEmulation(
  status: VmiStatus,
  domain: Domain | undefined,
  guest: string | undefined,
  { config, architecture: host }: StatusFacts,
): void {
  if (!config.crossArchitecture) return;
  const type = 'SoftwareEmulation';
  if (domain?.Spec?.Type !== 'qemu' || !guest || !host || guest === host) {
    removeCondition(status, type);
    return;
  }
  const message = `VM running with software emulation (host=${host}, guest=${guest})`;
  putCondition(status, { type, status: 'True', reason: 'CrossArchitectureEmulation', message }, null);
}

/** True when the condition changed: worth an event. */
export function setAccessCredentials(status: VmiStatus, domain: Domain | undefined, now: string): boolean {
  const metadata = domain?.Spec?.Metadata?.KubeVirt?.AccessCredential;
  if (!metadata) return false;
  const type = 'AccessCredentialsSynchronized';
  const before = findCondition(status.conditions, type);
  const wanted = metadata.Succeeded ? 'True' : 'False';
  putCondition(status, { type, status: wanted, ...(metadata.Message && { message: metadata.Message }) }, now);
  return findCondition(status.conditions, type) !== before;
}
