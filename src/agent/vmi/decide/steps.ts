import type {
  StepError,
  Outcome as TypedOutcome,
  Step as TypedStep,
  StepOutcome as TypedStepOutcome,
} from '../../../reconcile/index.ts';
import type { ProxyPorts, ProxyRole } from '../../migration-proxy/ports.ts';
import type { Remember } from '../observe/index.ts';

/** Arguments of each step. A step is idempotent and asks again whether its UID is still the right one. */
export interface StepArgs {
  /** Find the socket, connect, open the notify pipe, ask for the domain. */
  ensureLauncherConnection: { readonly uid: string };
  /** Ask the launcher for the domain again: its event may have been lost. */
  refreshDomain: { readonly uid: string };
  /** Host hooks before a start. */
  prepareHost: { readonly uid: string };
  /** Host hooks of a running VMI. */
  adjustHost: { readonly uid: string };
  /** Host hooks of a running VMI whose domain has let go what it does not need any more. */
  settleHost: { readonly uid: string };
  syncVirtualMachine: { readonly uid: string; readonly fingerprint: string; readonly firstStart: boolean };
  /** The launcher only takes the order: its domain shows when the devices are there. */
  hotplugHostDevices: { readonly uid: string };
  /** The launcher only takes the order; how it goes is told in its domain's metadata. */
  dumpMemory: { readonly uid: string; readonly volume: string; readonly file: string };
  shutdownDomain: { readonly uid: string; readonly graceSeconds: number; readonly firstSignal: boolean };
  killDomain: { readonly uid: string };
  /** DeleteVirtualMachine: libvirt forgets the domain. */
  deleteDomain: { readonly uid: string };
  /** Everything of that UID on this host: hooks, connection, pipe, ghost record, cached domain. */
  cleanUp: { readonly uid: string };
  /** Migration target: host hooks for an incoming domain, then SyncMigrationTarget. */
  prepareMigrationTarget: { readonly uid: string; readonly migrationUid: string };
  openTargetProxies: { readonly uid: string; readonly roles: readonly ProxyRole[]; readonly streamUid?: string };
  closeTargetProxies: { readonly uid: string };
  /** Migration source: the sockets in the launcher's pod. */
  openSourceProxies: { readonly uid: string; readonly address: string; readonly ports: ProxyPorts };
  closeSourceProxies: { readonly uid: string };
  migrateVirtualMachine: { readonly uid: string; readonly migrationUid: string };
  cancelMigration: { readonly uid: string; readonly migrationUid: string };
  /** After the hand-over: CPUs and memory that were waiting for it, then FinalizeVirtualMachineMigration. */
  finalizeMigration: { readonly uid: string; readonly migrationUid: string };
  /** After a failure: the target's launcher may go. */
  signalTargetPodCleanup: { readonly uid: string };
}

export type StepName = keyof StepArgs;
export type Step<Name extends StepName = StepName> = TypedStep<StepArgs, Name>;

export type Outcome = TypedOutcome<Remember>;
export type StepOutcome = TypedStepOutcome<StepName, Remember>;

/** Codes of steps whose VMI was replaced, or was no more, when they came to it: not reported, and no fault of the VMI. */
const overtakenCodes = ['STALE', 'NO_VMI'] as const;
export type OvertakenCode = (typeof overtakenCodes)[number];

export function isOvertaken({ code }: StepError): boolean {
  return overtakenCodes.some((each) => each === code);
}
