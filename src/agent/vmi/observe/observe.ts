import {
  type DomainView,
  domainUid,
  type GhostRecord,
  hotPlugVolumesOf,
  isBeingDeleted,
  isFinal,
  type Key,
  type LauncherState,
  type LauncherTarget,
  labels,
  type VirtualMachineInstance,
} from '../../../api/index.ts';
import { errorMessage, rfc3339 } from '../../../base/index.ts';
import type { AgentPorts, GuestAgents } from '../ports.ts';
import { hasBegun, isGuestAgentConnected, readHostSeen, readLabel, readLauncherFacts } from './launcher-facts.ts';
import { type KeyMemory, type LauncherFacts, type Moved, newMemory } from './memory.ts';
import type { Observation, Predecessor, ProxiesView, StatusFacts, VmiView } from './observation.ts';
import type { SyncPayloadCache } from './sync-payload.ts';
import { isAddressable, readableVmi } from './vmi-shape.ts';

export type ObservePorts = Pick<
  AgentPorts,
  | 'vmis'
  | 'lookup'
  | 'domains'
  | 'ghosts'
  | 'launchers'
  | 'migrationProxies'
  | 'migrationNotes'
  | 'config'
  | 'host'
  | 'hostWork'
  | 'clock'
> & { readonly guestAgents: GuestAgents; readonly syncPayload: SyncPayloadCache };

/**
 * Gathers what one reconcile of `key` may know. The API server is asked only when the node's own list has no such VMI and
 * something of it is left here. Rejects never: what cannot be determined becomes `unclear` or `unknown`.
 */
export async function observeVmi(
  key: Key,
  memory: KeyMemory | undefined,
  ports: ObservePorts,
  signal: AbortSignal,
): Promise<Observation> {
  const ghost = ports.ghosts.get(key);
  const vmi = await viewVmi(key, ghost, memory?.moved, ports, signal);
  const uid = uidOf(key, vmi, ghost, ports);
  const domain = uid === '' ? ({ kind: 'absent' } as const) : ports.domains.view(key, uid);
  const object = 'vmi' in vmi ? vmi.vmi : undefined;
  const target = targetOf(key, uid, object, ports.ghosts.byUid(uid));
  const isCleanedUp = memory?.uid === uid && memory.ending.cleaned && isOverHere(vmi, ports.host.nodeName);
  const launcher = isCleanedUp ? notLookedAt : await launcherState(target, ports);
  const predecessor = await findPredecessor(key, uid, ghost, ports);
  const recordProblem = ports.domains.problemOf(uid)?.message;
  const syncPayload = ports.syncPayload.of(object, ports.config.current(), ports.host);
  const known = memory?.uid === uid ? memory : newMemory(uid);
  const reachable = launcher.kind === 'ready' && launcher.connected ? object : undefined;
  const inside = hasBegun(domain) ? reachable : undefined;
  const facts = known.launcherFacts ?? (inside && (await readLauncherFacts(target, inside, ports, signal)));
  const looked = inside ?? (reachable && hotPlugVolumesOf(reachable).length > 0 ? reachable : undefined);
  const migrationNote = ports.migrationNotes?.noteOf(key, uid);
  const seen = looked ? await readHostSeen(target, looked, ports, signal) : {};
  const label = facts?.selinuxContext ?? (looked && (await readLabel(target, ports, signal)));
  return {
    key,
    nodeName: ports.host.nodeName,
    now: ports.clock.now(),
    nowMs: ports.clock.monotonicMs(),
    vmi,
    uid,
    domain,
    launcher,
    ...(ghost && { ghost }),
    ...(predecessor && { predecessor }),
    memory: known,
    migrationProxies: proxyView(uid, ports.migrationProxies),
    ...(migrationNote !== undefined && { migrationNote }),
    ...(recordProblem && { recordProblem }),
    syncOptions: syncPayload.options,
    syncFingerprint: syncPayload.fingerprint,
    selinuxContext: label ?? ports.host.selinuxContext(undefined),
    statusFacts: { ...statusFactsOf(target, domain, facts, ports), ...seen },
    hostFacts: ports.hostWork.facts(uid),
    ...learnedOf(known, vmi, facts, ports.clock.now()),
  };
}

/** What began because the VMI was missing counts no more once it is there: the next time it is missing is another story. */
function learnedOf(
  known: KeyMemory,
  vmi: VmiView,
  facts: LauncherFacts | undefined,
  now: Date,
): Pick<Observation, 'learned'> {
  const moved = movedOf(known, vmi, now);
  const isBack = known.doubts.missingSinceMs !== undefined && 'vmi' in vmi;
  const isNew = facts !== undefined && facts !== known.launcherFacts;
  if (!isBack && !isNew && moved === known.moved) return {};
  const lives = isBack && !isBeingDeleted(vmi.vmi);
  return {
    learned: {
      ...(isNew && { launcherFacts: facts }),
      ...(moved !== known.moved && { moved }),
      ...(isBack && { doubts: { missingSinceMs: undefined } }),
      ...(lives && { ending: { shutdown: undefined } }),
    },
  };
}

/** One that came back has not moved away. */
function movedOf({ moved }: KeyMemory, view: VmiView, now: Date): Moved | undefined {
  if (view.kind === 'present') return undefined;
  if (view.kind !== 'elsewhere') return moved;
  const { metadata, status } = view.vmi;
  const node = metadata.labels?.[labels.nodeName] ?? status?.nodeName ?? '';
  if (moved?.node === node) return moved;
  const { migrationUid, endTimestamp } = status?.migrationState ?? {};
  return { node, at: endTimestamp ?? rfc3339(now), ...(migrationUid && { migration: migrationUid }) };
}

function statusFactsOf(
  target: LauncherTarget,
  domain: DomainView,
  facts: LauncherFacts | undefined,
  { config, guestAgents, host }: ObservePorts,
): StatusFacts {
  const connected = domain.kind === 'present' && isGuestAgentConnected(domain.domain);
  const guestAgent = guestAgents.view(target, connected);
  return {
    config: config.current().status,
    ...(host.hostModel !== undefined && { hostModel: host.hostModel }),
    ...(host.architecture && { architecture: host.architecture }),
    ...(guestAgent && { guestAgent }),
    isoSizes: facts?.isoSizes ?? {},
  };
}

function proxyView(uid: string, migrationProxies: AgentPorts['migrationProxies']): ProxiesView {
  const { supported, unavailable, address, resumeMs, stallMs } = migrationProxies;
  const targetPorts = migrationProxies.targetPorts(uid);
  const sourceMigration = migrationProxies.migrationOf('source', uid);
  const targetMigration = migrationProxies.migrationOf('target', uid);
  const sourceEnded = migrationProxies.sourceEnded(uid);
  const sourceStalledSeconds = migrationProxies.sourceStalledSeconds(uid);
  return {
    supported,
    unavailable,
    address,
    ...(resumeMs > 0 && { resumeMs }),
    ...(stallMs > 0 && { stallMs }),
    ...(targetPorts && { targetPorts }),
    hasSource: migrationProxies.hasSource(uid),
    ...(sourceMigration !== undefined && { sourceMigration }),
    ...(targetMigration !== undefined && { targetMigration }),
    ...(sourceEnded && { sourceEnded }),
    ...(sourceStalledSeconds > 0 && { sourceStalledSeconds }),
  };
}

async function viewVmi(
  key: Key,
  ghost: GhostRecord | undefined,
  moved: Moved | undefined,
  ports: ObservePorts,
  signal: AbortSignal,
): Promise<VmiView> {
  const cached = ports.vmis.get(key);
  if (isAddressable(cached)) return present(cached);
  const isKnownHere = ghost !== undefined || ports.domains.view(key).kind !== 'absent';
  if (!isKnownHere) return { kind: 'deleted', ...(moved && { moved }) };
  try {
    const found = await ports.lookup.find(key, signal);
    if (!isAddressable(found)) return { kind: 'deleted' };
    return isLabelledFor(found, ports.host.nodeName) ? present(found) : elsewhere(found, ghost, key, ports);
  } catch (error) {
    return { kind: 'unclear', reason: errorMessage(error) };
  }
}

/** A VMI of another UID on another node is a successor: the one that was here is deleted. */
function elsewhere(
  found: VirtualMachineInstance,
  ghost: GhostRecord | undefined,
  key: Key,
  ports: ObservePorts,
): VmiView {
  const here = ports.domains.view(key);
  const uidHere = ghost?.uid ?? (here.kind === 'absent' ? undefined : here.uid);
  if (uidHere && uidHere !== found.metadata.uid) return { kind: 'deleted' };
  return { kind: 'elsewhere', vmi: readableVmi(found).vmi };
}

function present(stored: VirtualMachineInstance): VmiView {
  return { kind: 'present', stored, ...readableVmi(stored) };
}

function isLabelledFor(vmi: VirtualMachineInstance, node: string): boolean {
  const given = vmi.metadata.labels;
  return given?.[labels.nodeName] === node || given?.[labels.migrationTargetNodeName] === node;
}

function uidOf(key: Key, vmi: VmiView, ghost: GhostRecord | undefined, ports: ObservePorts): string {
  if ('vmi' in vmi) return vmi.vmi.metadata.uid ?? '';
  const view = ports.domains.view(key);
  if (view.kind === 'absent') return ghost?.uid ?? '';
  if (view.uid) return view.uid;
  return (view.kind === 'present' ? domainUid(view.domain) : '') || (ghost?.uid ?? '');
}

/** How the launcher of `uid` is found: by the VMI's pods, by the ghost record when there is no VMI. */
export function targetOf(
  key: Key,
  uid: string,
  vmi: VirtualMachineInstance | undefined,
  ghost: GhostRecord | undefined,
): LauncherTarget {
  const isOfVmi = vmi?.metadata.uid === uid;
  return {
    key,
    uid,
    activePods: (isOfVmi ? vmi.status?.activePods : undefined) ?? {},
    ...(ghost?.uid === uid && rememberedOf(ghost)),
  };
}

function rememberedOf({ socketFile, pid, startTime }: GhostRecord): Pick<LauncherTarget, 'socketFile' | 'process'> {
  const isProcessKnown = pid !== undefined && startTime !== undefined;
  return { socketFile, ...(isProcessKnown && { process: { pid, startTime } }) };
}

/** What has ended and is cleaned up is asked for by no rule any more: looking for its launcher would begin to wait for one. */
const notLookedAt: LauncherState = { kind: 'unclear', reason: 'all of it on this node is cleaned up' };

function isOverHere(view: VmiView, nodeName: string): boolean {
  if (view.kind === 'deleted') return true;
  if (view.kind !== 'present') return false;
  const isAskedFor = view.vmi.metadata.labels?.[labels.migrationTargetNodeName] === nodeName;
  return !isAskedFor && (isFinal(view.vmi) || isBeingDeleted(view.vmi));
}

async function launcherState(target: LauncherTarget, ports: ObservePorts): Promise<LauncherState> {
  if (target.uid === '') return { kind: 'unclear', reason: 'no VirtualMachineInstance is known by this name' };
  try {
    return await ports.launchers.state(target);
  } catch (error) {
    return { kind: 'unclear', reason: errorMessage(error) };
  }
}

async function findPredecessor(
  key: Key,
  uid: string,
  ghost: GhostRecord | undefined,
  ports: ObservePorts,
): Promise<Predecessor | undefined> {
  const ghostUid = ghost && ghost.uid !== uid ? [ghost.uid] : [];
  const [old] = [...ghostUid, ...ports.domains.otherUids(key, uid)];
  if (!old || uid === '') return undefined;
  const domain: DomainView = ports.domains.view(key, old);
  const launcher = await launcherState(targetOf(key, old, undefined, ports.ghosts.byUid(old)), ports);
  return { uid: old, domain, launcher };
}
