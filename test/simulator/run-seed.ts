import { beginFault, doDeed } from './act.ts';
import { Chance } from './engine/chance.ts';
import { Trace } from './engine/trace.ts';
import { Judge, type Violation } from './judge.ts';
import { describePlan, type Plan, planOf } from './plan.ts';
import { unreadRecords, unsettled } from './settled.ts';
import { Migration } from './world/migration.ts';
import { SimWorld } from './world/sim-world.ts';

export interface SeedResult {
  readonly seed: number;
  /** Equal for equal runs. */
  readonly hash: string;
  readonly steps: number;
  readonly virtualMs: number;
  readonly passes: number;
  /** VMIs that were to start. */
  readonly starts: number;
  readonly violation?: Violation;
  /** Seed, plan, last steps: only with a violation. */
  readonly story?: string;
}

export interface RunOptions {
  readonly plan?: Plan;
  readonly onLine?: (line: string) => void;
}

const lookMs = 5_000;
/** Longer than a request may hang, and than the pause after a write that did not go through. */
const quietLooks = 8;
/** By now everything is in order: longer than the longest period (resync and a watch's silence, 300 s each). */
const settleMs = 20 * 60_000;
/** Longer than the resync of all domains. */
const steadyMs = 310_000;
/** After these there may be ghost records that the agent reads at its next start only. */
const leavesUnread = new Set<string>(['two-agents', 'disk-errors']);
const maxSteps = 200_000;

/** One world from its beginning to its end: trouble, calm, order, silence, a clean stop. */
export async function runSeed(seed: number, options: RunOptions = {}): Promise<SeedResult> {
  const plan = options.plan ?? planOf(seed);
  const trace = new Trace(options.onLine);
  const world = new SimWorld(plan, new Chance(seed * 2), trace, (made) => new Judge(made));
  const { judge } = world;
  const startedMs = world.scheduler.nowMs;
  const onRejection = (error: unknown) => judge.violate('no-unhandled-rejection', errorText(error));
  process.on('unhandledRejection', onRejection);
  process.on('uncaughtException', onRejection);
  try {
    await play(world, plan);
  } catch (error) {
    judge.violate('the-simulator-works', errorText(error));
  } finally {
    process.off('unhandledRejection', onRejection);
    process.off('uncaughtException', onRejection);
  }
  const { violation } = judge;
  const result = {
    seed,
    hash: trace.hash,
    steps: trace.steps,
    virtualMs: world.scheduler.nowMs - startedMs,
    passes: judge.passes,
    starts: world.vmis.filter(({ plan: { begins } }) => begins === 'scheduled').length,
  };
  return violation ? { ...result, violation, story: storyOf(seed, world, violation) } : result;
}

async function play(world: SimWorld, plan: Plan): Promise<void> {
  for (const vmi of plan.vmis) {
    if (vmi.atMs === 0) world.createVmi(vmi);
    else world.after(vmi.atMs, `${vmi.name} is created`, () => world.createVmi(vmi));
  }
  for (const deed of plan.deeds) world.after(deed.atMs, `${deed.name}: ${deed.kind}`, () => doDeed(world, deed));
  for (const fault of plan.faults) world.after(fault.atMs, `fault ${fault.kind}`, () => beginFault(world, fault));
  for (const [number, migration] of plan.migrations.entries()) {
    world.after(migration.atMs, `${migration.name} is to migrate`, () =>
      Migration.begin(world, migration, `migration-${number + 1}`),
    );
  }
  world.ensureAgent();
  if (!(await passTime(world, plan.calmAtMs))) return;
  world.ensureAgent();
  await settle(world);
}

async function settle(world: SimWorld): Promise<void> {
  const { judge } = world;
  if (!(await getQuiet(world))) return;
  const [writes, events] = [judge.writes, world.api.events];
  const passes = judge.passes;
  if (!(await passTime(world, steadyMs))) return;
  const news = judge.writes - writes + world.api.events - events;
  if (news > 0)
    judge.violate(
      'a-steady-state-writes-nothing',
      `${judge.writes - writes} VMIs, ${world.api.events - events} events`,
    );
  if (judge.passes - passes > 12 * world.vmis.length) {
    judge.violate('a-steady-state-is-quiet', `${judge.passes - passes} passes in ${steadyMs / 1000} s`);
  }
  const untimely = judge.timely.late(world);
  if (untimely.length > 0) judge.violate('what-happens-is-answered-in-time', untimely.join('; '));
  const late = unsettled(world);
  if (late.length > 0) judge.violate('order-lasts', late.join('; '));
  for (const agent of [...world.agents]) world.stopAgent(agent, () => undefined);
  if ((await passTime(world, 60_000)) && world.agents.length > 0) {
    judge.violate('an-agent-stops', 'it did not end within a minute');
  }
}

/** False when an invariant is broken, also that there is an end of it. */
async function getQuiet(world: SimWorld): Promise<boolean> {
  const { judge, scheduler } = world;
  const endMs = scheduler.nowMs + settleMs;
  let mayRestart = world.plan.faults.some(({ kind }) => leavesUnread.has(kind));
  for (let quiet = 0, news = -1; quiet < quietLooks; ) {
    if (scheduler.nowMs >= endMs) {
      judge.violate('all-is-in-order-in-the-end', unsettled(world).join('; ') || 'it never gets quiet');
      return false;
    }
    if (!(await passTime(world, lookMs))) return false;
    const left = unsettled(world).length;
    const isSame = news === newsOf(world);
    news = newsOf(world);
    quiet = left === 0 && isSame && areWatching(world) ? quiet + 1 : 0;
    const ignorant = world.agents.filter((agent) => unreadRecords(world, agent).length > 0);
    const unread = ignorant.flatMap((agent) => unreadRecords(world, agent)).length;
    if (!mayRestart || left === 0 || left > unread) continue;
    mayRestart = false;
    for (const agent of ignorant) world.stopAgent(agent, () => world.ensureAgent());
  }
  return true;
}

/** An agent has two watches; one that waits to be made again may bring news. */
function areWatching({ agents, streams }: SimWorld): boolean {
  return agents.every(({ life }) => [...streams].filter((stream) => stream.life === life).length >= 2);
}

function newsOf({ api, judge }: SimWorld): number {
  return api.events + judge.writes;
}

/** False when an invariant is broken. */
async function passTime(world: SimWorld, ms: number): Promise<boolean> {
  const { scheduler, judge, trace } = world;
  const untilMs = scheduler.nowMs + ms;
  await scheduler.settle();
  while (!judge.violation && (await scheduler.step(untilMs))) {
    if (trace.steps > maxSteps) judge.violate('a-world-comes-to-an-end', `${maxSteps} steps`);
  }
  return judge.violation === undefined;
}

function storyOf(seed: number, world: SimWorld, { invariant, text }: Violation): string {
  const { plan, trace, agents, vmis } = world;
  const keys = new Set(vmis.map(({ key }) => key));
  const rules = agents.flatMap(({ life, node, dispatcher }) =>
    [...keys].map((key) => {
      const last = dispatcher.reconciler.decisions.of(key).slice(-8);
      return `  ${life.name} on ${node.name}, ${key}: ${last.map(({ rule }) => rule).join(', ')}`;
    }),
  );
  const last = trace.lines.slice(-50).map((line) => `  ${line}`);
  return [
    `seed ${seed} breaks ${invariant}: ${text}`,
    'plan:',
    describePlan(plan),
    'last rules:',
    ...rules,
    'last steps:',
    ...last,
  ].join('\n');
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
