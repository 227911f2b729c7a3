import {
  annotations,
  type Domain,
  findCondition,
  hotPlugVolumesOf,
  isFinal,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from '../../../api/index.ts';
import { copyJson, rfc3339 } from '../../../base/index.ts';
import type { Attempt } from '../../../reconcile/index.ts';
import { type Decision, isOvertaken } from '../decide/index.ts';
import { changesAwaitedLinks, type Observation, readableVmi } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import { projectTracking } from './backup.ts';
import { bounds, clip } from './bounds.ts';
import {
  removeCondition,
  setAccessCredentials,
  setNothingToBoot,
  setPaused,
  setSoftwareEmulation,
  setSyncFailed,
} from './conditions.ts';
import { projectDomainFields } from './domain-fields.ts';
import { setAgentConditions } from './guest-agent-conditions.ts';
import { setImageChecksums } from './image-checksums.ts';
import { projectInterfaces } from './interfaces.ts';
import { setLiveMigratable } from './live-conditions.ts';
import { classifyMigration } from './migratable.ts';
import { restoreParts } from './parts.ts';
import { semanticEqual } from './semantic-equal.ts';
import { applyPatch } from './vmi-patch.ts';
import { projectVolumes } from './volumes.ts';

export interface Reconciled extends Attempt<Observation, Decision> {
  /** Parts that the API server does not take: they stay as they are, and that is reported. */
  readonly refused?: { readonly parts: readonly string[]; readonly message: string; readonly makeRoom: boolean };
}

export interface Projection {
  /** The whole object to PUT; undefined: nothing has to be written. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** To be recorded when the write went through, or at once when there is nothing to write. */
  readonly events: readonly VmiEvent[];
  /** What is wrong, in words for the user. */
  readonly problem: string | undefined;
  /** Look again after this time: something is under way that no event may report. */
  readonly requeueAfterMs?: number;
}

/** Domain events report attached volumes and ended dumps; this is for the event that was lost. Upstream looks every second. */
const unfinishedMs = 10_000;

/**
 * The VMI as it should be after this reconcile, also after a failed step. Pure. Unknown fields are kept: `stored` is copied and
 * changed in place, never rebuilt. Nothing is written to a final VMI, to another node's, or without a difference.
 */
export function project(stored: VirtualMachineInstance, reconciled: Reconciled): Projection {
  const { observation, decision, refused } = reconciled;
  const isOurs = decision.route !== 'migration-target' && decision.route !== 'orphaned-source';
  const now = rfc3339(observation.now);
  if (!isOurs || isFinal(stored)) return projectPatch(stored, reconciled, now);
  const reported = problemOf(reconciled);
  const safe = readableVmi(stored);
  if (safe.problems.some(({ part }) => part !== 'spec')) {
    return { vmi: undefined, events: syncFailed(reported, undefined, observation), problem: reported };
  }
  const vmi = copyJson(stored);
  vmi.status ??= {};
  const { status } = vmi;
  const before = status.phase ?? '';
  const phase = phaseOf(reconciled, before) ?? before;
  setPhase(status, phase, now);
  const readable = { ...safe.vmi, status: { ...safe.vmi.status, phase } };
  const noticed = projectStatus(readable, status, observation, now);
  const problem = joined(reported, refused?.message);
  const failedBefore = findCondition(stored.status?.conditions, 'Synchronized')?.message;
  if (problem !== undefined) setSyncFailed(status, problem, now);
  else if (decision.healthy || hasSynced(reconciled)) removeCondition(status, 'Synchronized');
  if (refused) restoreParts(vmi, stored, refused);
  applyPatch(vmi, decision.patch, now);
  noteMigration(vmi, observation);
  const isNoted = observation.migrationNote !== undefined && !semanticEqual(stored.metadata, vmi.metadata);
  const isPatched = decision.patch !== undefined && !semanticEqual(stored, vmi);
  const isWorth =
    phase !== before ||
    isPatched ||
    isNoted ||
    ((noticed.isWaitedFor || isNoticeable(phase, stored, vmi)) && !semanticEqual(stored.status, vmi.status));
  // What is not written yet is noticed again in the next reconcile: its event waits for the write.
  const written = isWorth
    ? [...noticed.events, ...(phase === before ? [] : phaseEvents(phase)), ...(decision.patch?.events ?? [])]
    : [];
  const events = [...syncFailed(problem, failedBefore, observation), ...written];
  if (isWorth) fillIn(vmi.status);
  return { vmi: isWorth ? vmi : undefined, events, problem, ...lookAgain(noticed, isWorth, phase) };
}

/** The streams are the source's while they are open, and so is the VMI. The last note stays: readers compare its migration. */
function noteMigration({ metadata }: VirtualMachineInstance, { migrationNote }: Observation): void {
  if (migrationNote === undefined) return;
  metadata.annotations = { ...metadata.annotations, [annotations.migrationProgress]: migrationNote };
}

/** Own writes wake no key: what the launcher or the host work waits for in them is decided by looking again at once. */
function lookAgain({ isWaitedFor, unfinished }: Noticed, isWorth: boolean, phase: VmiPhase) {
  if (isWaitedFor && isWorth) return { requeueAfterMs: 0 };
  return unfinished && phase === 'Running' ? { requeueAfterMs: unfinishedMs } : {};
}

/** Always there in what upstream writes (pkg/virt-handler/vm.go); worth no write of their own. */
function fillIn(status: VmiStatus): void {
  status.guestOSInfo ??= {};
  status.runtimeUser ??= 0;
}

function joined(...problems: readonly (string | undefined)[]): string | undefined {
  const texts = problems.filter((problem) => problem !== undefined);
  // As the condition has it: the same text is reported once, also by the next process.
  return texts.length > 0 ? clip(texts.join('; '), bounds.messageBytes) : undefined;
}

/**
 * Of a VMI that is final or another node's only what a rule decided on is written; a target reports what goes wrong as events.
 */
function projectPatch(stored: VirtualMachineInstance, reconciled: Reconciled, now: string): Projection {
  const { observation, decision } = reconciled;
  const problem = decision.route === 'migration-target' && !isFinal(stored) ? problemOf(reconciled) : undefined;
  const failures = syncFailed(problem, undefined, observation);
  if (!decision.patch) return { vmi: undefined, events: failures, problem };
  const vmi = copyJson(stored);
  applyPatch(vmi, decision.patch, now);
  if (semanticEqual(stored, vmi)) return { vmi: undefined, events: failures, problem };
  return { vmi, events: [...failures, ...(decision.patch.events ?? [])], problem };
}

interface Noticed {
  readonly events: readonly VmiEvent[];
  readonly unfinished: boolean;
  /** What is written changes what the launcher is given, or what is done for it. */
  readonly isWaitedFor: boolean;
}

/** `readable`: as it was before, in the new phase; what has a wrong type was refused above or belongs to the spec. */
function projectStatus(
  readable: VirtualMachineInstance,
  status: VmiStatus,
  observation: Observation,
  now: string,
): Noticed {
  const { nodeName, selinuxContext, statusFacts } = observation;
  const domain = observation.domain.kind === 'present' ? observation.domain.domain : undefined;
  const events: VmiEvent[] = [];
  let volumes: ReturnType<typeof projectVolumes> | undefined;
  let isWaitedFor = false;
  if (domain) {
    projectDomainFields(status, domain);
    projectTracking(readable, status, domain);
    const interfaces = projectInterfaces(readable, domain, statusFacts.podIps);
    if (interfaces.length > 0) status.interfaces = interfaces;
    else delete status.interfaces;
    isWaitedFor = changesAwaitedLinks(readable, { ...readable, status });
  }
  if (status.volumeStatus?.length && (domain || isPluggedBefore(readable))) {
    volumes = projectVolumes(readable, domain, statusFacts, observation.now);
    status.volumeStatus = volumes.volumes;
    events.push(...volumes.events);
    isWaitedFor ||= volumes.isWaitedFor;
  }
  // Into the entries as they are by now.
  if (domain) setImageChecksums(status, statusFacts, readable);
  if (selinuxContext !== '') status.selinuxContext = selinuxContext;
  if (setAccessCredentials(status, domain, now)) events.push(credentialsEvent(domain));
  if (readable.spec?.domain) {
    const migratability = classifyMigration(readable, migrationFactsOf(observation));
    status.migrationMethod = migratability.method;
    events.push(...setLiveMigratable(status, migratability, readable, statusFacts));
  }
  if (domain || observation.domain.kind === 'gone') {
    setAgentConditions(status, domain, readable.spec, statusFacts, now);
    setPaused(status, domain, nodeName, now);
    setSoftwareEmulation(status, domain, readable.spec?.architecture, statusFacts);
  }
  if (domain) events.push(...setNothingToBoot(status, readable.spec));
  return { events, unfinished: volumes?.unfinished ?? false, isWaitedFor };
}

/** A start waits for volumes that were plugged before. */
function isPluggedBefore(vmi: VirtualMachineInstance): boolean {
  return vmi.status?.phase === 'Scheduled' && hotPlugVolumesOf(vmi).length > 0;
}

const noMigrations = 'this node agent carries no live migrations (--live-migration=false)';

function migrationFactsOf({ nodeName, migrationProxies, statusFacts, syncOptions }: Observation) {
  return {
    nodeName,
    vgpuMigration: syncOptions.clusterFlags.vgpuLiveMigrationEnabled,
    nodeObstacle: migrationProxies.supported ? undefined : (migrationProxies.unavailable ?? noMigrations),
    status: statusFacts,
  };
}

/** A critical failure ends a VMI that has not started. A guest that runs is not killed for it, as upstream does: it is reported. */
function phaseOf({ decision, outcomes }: Reconciled, before: VmiPhase): VmiPhase | undefined {
  if (before === 'Running') return decision.phase;
  const isCritical = outcomes.some(({ outcome }) => outcome.kind === 'failed' && outcome.error.severity === 'critical');
  return isCritical ? 'Failed' : decision.phase;
}

function problemOf({ observation, decision, outcomes }: Reconciled): string | undefined {
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'failed' && !isOvertaken(outcome.error)) return outcome.error.message;
  }
  return decision.problem ?? observation.recordProblem;
}

function hasSynced({ outcomes }: Reconciled): boolean {
  return outcomes.some(({ step, outcome }) => step === 'syncVirtualMachine' && outcome.kind === 'done');
}

function setPhase(status: VmiStatus, phase: VmiPhase, now: string): void {
  if ((status.phase ?? '') === phase) return;
  status.phase = phase;
  const times = status.phaseTransitionTimestamps ?? [];
  if (times.some((entry) => entry.phase === phase)) return;
  status.phaseTransitionTimestamps = [...times, { phase, phaseTransitionTimestamp: now }];
}

/**
 * Before a guest runs only a new problem is worth a write of its own, and the label that pods wait for which bring volumes; the rest travels
 * with the phase Running. So a start costs one PUT where upstream needs two.
 */
function isNoticeable(phase: VmiPhase, stored: VirtualMachineInstance, vmi: VirtualMachineInstance): boolean {
  if (phase === 'Running') return true;
  if (awaitsPod(vmi) && stored.status?.selinuxContext !== vmi.status?.selinuxContext) return true;
  const [before, after] = [stored, vmi].map((each) => findCondition(each.status?.conditions, 'Synchronized'));
  return after !== undefined && (before?.message !== after.message || before?.status !== after.status);
}

const awaitsPod = ({ status }: VirtualMachineInstance) =>
  status?.volumeStatus?.some(({ hotplugVolume }) => hotplugVolume && !hotplugVolume.attachPodUID) === true;

function phaseEvents(phase: VmiPhase): VmiEvent[] {
  switch (phase) {
    case 'Running':
      return [{ type: 'Normal', reason: 'Started', message: 'VirtualMachineInstance started.' }];
    case 'Succeeded':
      return [{ type: 'Normal', reason: 'Stopped', message: 'The VirtualMachineInstance was shut down.' }];
    case 'Failed':
      return [{ type: 'Warning', reason: 'Stopped', message: 'The VirtualMachineInstance crashed.' }];
    default:
      return [];
  }
}

/** Once per text: upstream repeats it on every retry and uses up the event budget of the object. */
function syncFailed(problem: string | undefined, reported: string | undefined, observation: Observation): VmiEvent[] {
  if (problem === undefined || problem === reported || problem === observation.memory.reports.reportedProblem)
    return [];
  return [{ type: 'Warning', reason: 'SyncFailed', message: problem }];
}

function credentialsEvent(domain: Domain | undefined): VmiEvent {
  const metadata = domain?.Spec?.Metadata?.KubeVirt?.AccessCredential;
  const text = metadata?.Message ? `: ${metadata.Message}` : '.';
  return metadata?.Succeeded
    ? { type: 'Normal', reason: 'AccessCredentialsSyncSuccess', message: `Access credentials sync successful${text}` }
    : { type: 'Warning', reason: 'AccessCredentialsSyncFailed', message: `Access credentials sync failed${text}` };
}
