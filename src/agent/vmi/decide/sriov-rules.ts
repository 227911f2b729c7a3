import { sriovInterfacesInPod, sriovInterfacesOf } from '../../../api/index.ts';
import { backoffDelayMs } from '../../../base/index.ts';
import type { Facts } from './facts.ts';
import type { Plan, Rule } from './rule.ts';
import { isSynced } from './sync-state.ts';
import type { OpenWork } from './tries.ts';

/** Pauses and limit of upstream's (pkg/executor): 3 s, 5.4 s, ... 10 min, and after 5 h no more. */
const plugBackoff = { baseMs: 3_000, factor: 1.8, maxMs: 600_000 };
const plugLimitMs = 5 * 3_600_000;
/** Another part of the same plan may fail: the other rules wait no longer for it. */
const plugLatestMs = 1_000;

/**
 * Interfaces whose device the pod has and the guest has not: it was taken from the guest for a migration, after which it may have stayed. Upstream leaves
 * out those of claims, which such a guest never gets back.
 */
export function missingInterfaces({ vmi, domainState }: Facts): string[] {
  if (!vmi || domainState.kind !== 'alive') return [];
  const inPod = sriovInterfacesInPod(vmi);
  if (inPod.length === 0) return [];
  const inGuest = sriovInterfacesOf(domainState.domain);
  return inPod.map(({ name }) => name).filter((name) => !inGuest.has(name));
}

/** After its launcher was given the VMI. */
const lacksInterfaces = (facts: Facts) => isSynced(facts) && missingInterfaces(facts).length > 0;

const memoryOf = ({ observation }: Facts) => observation.memory.hostDevices;

function isGivenUp(facts: Facts): boolean {
  const { plugTries } = memoryOf(facts);
  return plugTries !== undefined && facts.observation.nowMs - plugTries.firstMs >= plugLimitMs;
}

function plugPauseLeftMs(facts: Facts): number {
  const { plugTries } = memoryOf(facts);
  if (isGivenUp(facts)) return Number.POSITIVE_INFINITY;
  return plugTries ? plugTries.lastMs + backoffDelayMs(plugTries.count, plugBackoff) - facts.observation.nowMs : 0;
}

function plug(facts: Facts): Plan {
  const { uid, observation } = facts;
  const { nowMs } = observation;
  const { count = 0, firstMs = nowMs } = memoryOf(facts).plugTries ?? {};
  return {
    steps: [
      // Its event may have been lost.
      ...(count > 0 ? [{ step: 'refreshDomain', uid } as const] : []),
      { step: 'adjustHost', uid },
      { step: 'hotplugHostDevices', uid },
    ],
    requeueAfterMs: 0,
    latestMs: plugLatestMs,
    remember: { hostDevices: { plugTries: { count: count + 1, firstMs, lastMs: nowMs } } },
  };
}

/** Devices that a guest lost on its way to another node, or for a migration that came to nothing (pkg/virt-handler/vm.go, `hotplugSriovInterfaces`). */
export const sriovRule: Rule = {
  name: 'sriov-plug-due',
  why: 'The pod has a network device of the machine that was taken from the guest for a migration, so its launcher is told to give it back.',
  when: (facts) => lacksInterfaces(facts) && plugPauseLeftMs(facts) <= 0,
  plan: plug,
};

/** The launcher does it after its answer, so one try that has no effect yet is no problem; upstream only logs any. */
export const sriovWork: OpenWork = {
  isOpen: lacksInterfaces,
  pauseLeftMs: plugPauseLeftMs,
  problem: (facts) => {
    const { plugTries, plugRefusal } = memoryOf(facts);
    if ((plugTries?.count ?? 0) < 2) return undefined;
    const names = missingInterfaces(facts).join(', ');
    const why = plugRefusal ?? "its launcher was told to give them back: the launcher's log says what became of it";
    const next = isGivenUp(facts)
      ? 'It was tried for 5 hours and is tried no more: restart the VM when the cause is gone'
      : 'It is tried again by itself';
    return `the guest lacks network devices of the machine that its pod has (${names}): ${why}. ${next}.`;
  },
};

/** All that were missing are back: the next migration begins anew. */
export function arePlugged(facts: Facts): boolean {
  return memoryOf(facts).plugTries !== undefined && missingInterfaces(facts).length === 0;
}
