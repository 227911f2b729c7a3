import { isBeingDeleted, isFinal } from '../../src/api/index.ts';
import type { SimAgent } from './world/sim-agent.ts';
import { isAlive } from './world/sim-domain.ts';
import type { SimWorld, WorldVmi } from './world/sim-world.ts';

/** What is not yet as it must be when all trouble is over; empty: all is well. */
export function unsettled(world: SimWorld): string[] {
  return [
    ...world.vmis.flatMap((vmi) => unsettledVmi(world, vmi)),
    ...world.agents.flatMap((agent) => leftovers(world, agent)),
  ];
}

function unsettledVmi(world: SimWorld, { key, uid, launcher }: WorldVmi): string[] {
  const stored = world.api.get(key);
  const isStored = stored?.metadata.uid === uid;
  const phase = isStored ? (stored.status?.phase ?? '') : 'removed';
  const problems: string[] = [];
  if (isStored && !isFinal(stored) && launcher.marked) problems.push(`${uid} is ${phase} and its pod is to end`);
  if (isStored && isBeingDeleted(stored)) problems.push(`${uid} is still being deleted (${phase})`);
  if (isStored && !isFinal(stored) && !isBeingDeleted(stored)) {
    const runs = launcher.alive && launcher.domain?.status === 'Running';
    const isPaused = launcher.alive && launcher.domain?.status === 'Paused';
    if (phase !== 'Running' || !(runs || isPaused)) {
      problems.push(
        `${uid} is ${phase}, its guest ${launcher.domain?.status ?? 'absent'}, its launcher ${launcher.alive}`,
      );
    }
  }
  if (!isStored || isFinal(stored)) {
    if (launcher.alive && isAlive(launcher.domain)) problems.push(`${uid} is ${phase} and its guest runs`);
    if (launcher.notifier.pipe?.open && !launcher.notifier.pipe.agent.dead)
      problems.push(`${uid} is ${phase} and has its pipe`);
  }
  return problems;
}

/** Things of VMIs that are over. */
function leftovers(world: SimWorld, agent: SimAgent): string[] {
  const problems: string[] = [];
  for (const file of world.disk.files.keys()) {
    if (file.endsWith('.corrupt')) continue;
    const vmi = world.byUid(file);
    const stored = vmi && world.api.get(vmi.key);
    const isNeeded = stored?.metadata.uid === file && !isFinal(stored);
    if (!isNeeded) problems.push(`ghost record ${file} is left`);
  }
  for (const key of agent.domains.keys()) {
    const stored = world.api.get(key);
    if (!stored || isFinal(stored)) problems.push(`the domain of ${key} is remembered`);
  }
  for (const { key, uid, launcher } of world.vmis) {
    const view = agent.domains.view(key, uid);
    const isOld = view.kind === 'present' && view.domain.Status.Status !== launcher.domain?.status;
    if (isOld) problems.push(`${uid} is ${launcher.domain?.status} and seen as ${view.domain.Status.Status}`);
  }
  const known = world.api.keys().length;
  if (agent.dispatcher.remembered > known) problems.push(`${agent.dispatcher.remembered} memories of ${known} VMIs`);
  return problems;
}
