import { isBeingDeleted, isFinal, labels, type VirtualMachineInstance } from '../../src/api/index.ts';
import { isAlive } from '../fixtures/domain-rules.ts';
import type { SimAgent } from './world/sim-agent.ts';
import { needlessMounts } from './world/sim-hook.ts';
import type { SimWorld, WorldVmi } from './world/sim-world.ts';

/** What is not yet as it must be when all trouble is over; empty: all is well. */
export function unsettled(world: SimWorld): string[] {
  return [
    ...world.vmis.flatMap((vmi) => unsettledVmi(world, vmi)),
    ...world.vmis.flatMap((vmi) => unsettledMigration(world, vmi)),
    ...world.agents.flatMap((agent) => [...unreadRecords(world, agent), ...leftovers(world, agent)]),
  ];
}

/**
 * Records nobody needs that this agent cannot know: another agent wrote them after its start, or the disk did not give them then.
 * The next start reads them.
 */
export function unreadRecords(world: SimWorld, agent: SimAgent): string[] {
  return needlessRecords(world, agent).flatMap((file) =>
    agent.domains.ghostRecords.byUid(file) === undefined ? [`ghost record ${file} was never read`] : [],
  );
}

function unsettledVmi(world: SimWorld, { key, uid, launcher, home }: WorldVmi): string[] {
  const stored = world.api.get(key);
  const isStored = stored?.metadata.uid === uid;
  const phase = isStored ? (stored.status?.phase ?? '') : 'removed';
  const problems: string[] = [];
  if (isStored && !isFinal(stored) && launcher.marked) problems.push(`${uid} is ${phase} and its pod is to end`);
  if (isStored && isBeingDeleted(stored)) problems.push(`${uid} is still being deleted (${phase})`);
  if (isStored && !isFinal(stored) && !isBeingDeleted(stored)) {
    const runs = launcher.alive && launcher.domain?.status === 'Running';
    const isPaused = launcher.alive && launcher.domain?.status === 'Paused';
    const isReported = stored.status?.interfaces?.some(({ infoSource }) => infoSource?.includes('domain'));
    if (home.options.hasSriov && home.domain && !(home.domain.sriov && isReported))
      problems.push(`${uid} lacks its network device`);
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
  const known = needlessRecords(world, agent).filter((file) => agent.domains.ghostRecords.byUid(file) !== undefined);
  const problems = known.map((file) => `ghost record ${file} is left`);
  for (const key of agent.domains.keys()) {
    if (!isOwned(world.api.get(key), agent)) problems.push(`the domain of ${key} is remembered on ${agent.node.name}`);
  }
  for (const { key, uid, launcher } of world.vmis) {
    if (agent.migrationProxies.hasSource(uid) || agent.migrationProxies.targetPorts(uid))
      problems.push(`${uid} has streams`);
    if (launcher.options.nodeName !== agent.node.name) continue;
    const view = agent.domains.view(key, uid);
    const isOld = view.kind === 'present' && view.domain.Status.Status !== launcher.domain?.status;
    if (isOld) problems.push(`${uid} is ${launcher.domain?.status} and seen as ${view.domain.Status.Status}`);
  }
  const isOwnedUid = (uid: string) => {
    const vmi = world.byUid(uid);
    const stored = vmi && world.api.get(vmi.key);
    return stored?.metadata.uid === uid && isOwned(stored, agent);
  };
  problems.push(...needlessMounts(agent.node, isOwnedUid));
  const stored = world.api.keys().length;
  if (agent.dispatcher.remembered > stored) problems.push(`${agent.dispatcher.remembered} memories of ${stored} VMIs`);
  return problems;
}

function needlessRecords(world: SimWorld, agent: SimAgent): string[] {
  return [...agent.node.disk.files.keys()].filter((file) => {
    if (file.endsWith('.corrupt')) return false;
    const vmi = world.byUid(file);
    const stored = vmi && world.api.get(vmi.key);
    return stored?.metadata.uid !== file || !isOwned(stored, agent);
  });
}

/** Its guest is this agent's, or is to be. */
function isOwned(stored: VirtualMachineInstance | undefined, { node }: SimAgent): boolean {
  return stored !== undefined && !isFinal(stored) && stored.status?.nodeName === node.name;
}

function unsettledMigration(world: SimWorld, { key, uid, launchers, home }: WorldVmi): string[] {
  const stored = world.api.get(key);
  const problems: string[] = [];
  for (const launcher of launchers) {
    const { podUid, nodeName } = launcher.options;
    if (launcher !== home && launcher.alive) problems.push(`${uid} has an empty launcher ${podUid} on ${nodeName}`);
  }
  if (!stored || stored.metadata.uid !== uid || isFinal(stored)) return problems;
  const { migrationState: state, nodeName } = stored.status ?? {};
  if (nodeName !== home.options.nodeName)
    problems.push(`${uid} is on ${home.options.nodeName}, its VMI says ${nodeName}`);
  if (stored.metadata.labels?.[labels.migrationTargetNodeName]) problems.push(`${uid} still asks for a target node`);
  const last = world.migrations.findLast((each) => each.vmi.uid === uid && each.state !== undefined);
  if (state?.failed && state.abortRequested !== true && !state.failureReason)
    problems.push(`${uid} failed to migrate and does not say why`);
  const alive = launchers.filter((each) => each.alive && isAlive(each.domain));
  if (alive.length > 1) problems.push(`${uid} lives in ${alive.map(({ options }) => options.podUid).join(' and ')}`);
  const isMoved = last?.uid === `migration-${world.plan.migrations.length}` && home === last.target;
  if (world.plan.hasGoodEnd && !isMoved) problems.push(`${uid} does not migrate after the loss`);
  if (last && !last.over) problems.push(`${last.uid} is not over`);
  if (state && !state.completed && !state.failed) problems.push(`${uid} is still migrating`);
  if (state?.failed && state.completed !== true) problems.push(`${uid} failed to migrate and is not completed`);
  return problems;
}
