import type { Facts } from './facts.ts';
import { awaitsVolumes, dumpToOrder, plugProblem, volumesToPlug, volumesToUnplug } from './hot-plug.ts';
import { type Plan, type Rule, rest, wait } from './rule.ts';
import { isSeenSinceSync, isSynced, isWaitingForStart, sinceSyncMs } from './sync-state.ts';

/** Between looks for a volume that is attached to this node and not mounted in its pod yet, as upstream looks. */
const volumesAgainMs = 1_000;
/** Where one fails, others wait for it no longer. */
const volumesLatestMs = 10_000;
/** The launcher's event about a dump comes first as a rule; an order that is repeated changes nothing. */
const dumpAgainMs = 10_000;
/** A guest takes its time to let a disk go; its launcher's event comes first as a rule. */
const detachAskMs = 2_000;
const detachFirstAskMs = 100;

/** Mounted, and the status does not say so yet: it is written first, for the launcher goes by it. */
function awaitVolumes(facts: Facts): Plan {
  const { uid } = facts;
  if (volumesToPlug(facts).length === 0 && facts.observation.statusFacts.mountedVolumes) return wait(volumesAgainMs);
  return {
    steps: [
      { step: 'ensureLauncherConnection', uid },
      { step: 'prepareHost', uid },
    ],
    requeueAfterMs: 0,
    latestMs: volumesLatestMs,
  };
}

/** An answer wakes the key, so it is asked for only when the last one is old, or from before the sync. */
function awaitDetach(facts: Facts): Plan {
  const { domain, nowMs } = facts.observation;
  const ageMs = domain.kind === 'present' ? nowMs - domain.seenMs : detachAskMs;
  const pauseMs = isSeenSinceSync(facts) ? detachAskMs - ageMs : detachFirstAskMs - sinceSyncMs(facts);
  if (pauseMs > 0) return { ...wait(pauseMs), healthy: true };
  const steps = [{ step: 'refreshDomain', uid: facts.uid } as const];
  return { steps, requeueAfterMs: detachAskMs, healthy: true };
}

/** A volume that never comes keeps neither another one nor a dump waiting. */
function plugAgain(facts: Facts): Plan {
  const { uid } = facts;
  const problem = plugProblem(facts);
  const dump = dumpToOrder(facts);
  return {
    steps: [
      { step: 'adjustHost', uid },
      ...(volumesToUnplug(facts).length > 0 ? awaitDetach(facts).steps : []),
      ...(dump ? [{ step: 'dumpMemory', uid, ...dump } as const] : []),
    ],
    requeueAfterMs: volumesAgainMs,
    latestMs: volumesLatestMs,
    ...(problem === undefined ? { healthy: true } : { problem }),
  };
}

/** Of a guest that starts. */
export const startVolumesRule: Rule = {
  name: 'start-volumes-awaited',
  why: 'Volumes that are plugged into the guest are not mounted in its launcher yet; it starts when all of them are.',
  when: (facts) => isWaitingForStart(facts) && awaitsVolumes(facts),
  plan: awaitVolumes,
};

/** Volumes of a guest that runs, after its launcher was given the VMI. */
export const hotPlugRules: readonly Rule[] = [
  {
    name: 'volume-unplug-due',
    why: 'A volume was taken out of the guest and is not asked for any more, so it is taken out of its launcher.',
    when: (facts) => isSynced(facts) && isSeenSinceSync(facts) && volumesToUnplug(facts).some(({ isHeld }) => !isHeld),
    plan: ({ uid }) => ({ steps: [{ step: 'settleHost', uid }], requeueAfterMs: 0, latestMs: volumesLatestMs }),
  },
  {
    name: 'volume-plug-due',
    why: 'A volume is attached to this node and not in the launcher yet, so it is mounted there as soon as it can be.',
    when: (facts) => isSynced(facts) && volumesToPlug(facts).length > 0,
    plan: plugAgain,
  },
  {
    name: 'memory-dump-due',
    why: 'A memory dump is to be taken and the launcher has not told of it yet, so it is told to take it.',
    when: (facts) => isSynced(facts) && dumpToOrder(facts) !== undefined,
    plan: (facts) => {
      const order = dumpToOrder(facts);
      if (!order) return rest;
      return { steps: [{ step: 'dumpMemory', uid: facts.uid, ...order }], requeueAfterMs: dumpAgainMs };
    },
  },
  {
    name: 'volume-detach-awaited',
    why: 'The guest was told to let a volume go and still has its disk, so its launcher is asked until it has not.',
    when: (facts) => isSynced(facts) && volumesToUnplug(facts).length > 0,
    plan: awaitDetach,
  },
];
