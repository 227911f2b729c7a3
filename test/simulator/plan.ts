import { Chance } from './engine/chance.ts';
import type { ShutdownHabit } from './world/sim-launcher.ts';

/** What a seed makes of a world: read it to know what a failing seed is about. */
export interface Plan {
  readonly vmis: readonly VmiPlan[];
  readonly deeds: readonly Deed[];
  readonly faults: readonly Fault[];
  /** With any there are two nodes. */
  readonly migrations: readonly MigrationPlan[];
  /** The last migration begins when all is well: it has to succeed, if there is a guest. */
  readonly hasGoodEnd?: boolean;
  /** Agents have a hook that makes something on the node for each VMI. */
  readonly hasHostWork: boolean;
  /** No deed and no fault is under way after this. */
  readonly calmAtMs: number;
}

export interface VmiPlan {
  readonly name: string;
  readonly atMs: number;
  readonly graceSeconds: number;
  readonly habit: ShutdownHabit;
  /** `running`: when the first agent starts its guest runs already, as after an upgrade of the agent. */
  readonly begins: 'scheduled' | 'running' | 'running-recorded';
  readonly socketDelayMs: number;
}

/** A live migration to the other node. */
export interface MigrationPlan {
  readonly atMs: number;
  readonly name: string;
  readonly fate: 'succeeds' | 'breaks' | 'aborted' | 'target-dies';
  /** When its fate comes: after the hand-off, or into the copy. */
  readonly fateMs: number;
  /** The guest's memory is copied for this long. */
  readonly copyMs: number;
  /** Then the guest runs at the target, and the rest of its memory follows for this long; absent: it moves as a whole. */
  readonly postCopyMs?: number;
}

export type DeedKind =
  | 'delete'
  | 'remove-by-force'
  | 'guest-shuts-down'
  | 'guest-crashes'
  | 'pause'
  | 'launcher-dies'
  | 'pod-is-evicted'
  | 'change-vmi'
  | 'create-again';

/** Something that users and guests do. */
export interface Deed {
  readonly atMs: number;
  readonly name: string;
  readonly kind: DeedKind;
}

export type FaultKind =
  | 'api-down'
  | 'api-errors'
  | 'answers-lost'
  | 'conflict-storm'
  | 'watch-cut'
  | 'watch-expires'
  | 'watch-silent'
  | 'lists-are-old'
  | 'agent-killed'
  | 'agent-restarted'
  | 'two-agents'
  | 'launcher-hangs'
  | 'launcher-slow'
  | 'launcher-refuses'
  | 'launcher-garbage'
  | 'connection-breaks'
  | 'events-late'
  | 'events-doubled'
  | 'events-swapped'
  | 'events-garbage'
  | 'events-lost'
  | 'notify-storm'
  | 'pipe-fails'
  | 'disk-full'
  | 'disk-errors'
  | 'record-torn'
  | 'clock-jumps'
  /** Not on one node: there are no migrations. */
  | 'migration-proxies-fail'
  /** As `agent-killed`, on a node with this part in the migration; `agents-killed`: of both nodes at once, `agents-in-turn`: one after the other. */
  | 'source-agent-killed'
  | 'target-agent-killed'
  | 'agents-killed'
  | 'agents-in-turn'
  | 'source-launcher-killed'
  | 'target-launcher-killed'
  | 'streams-cut'
  /** The daemon that the launcher drives QEMU by ends, and is back after a time. */
  | 'source-libvirt-lost'
  | 'target-libvirt-lost'
  /** A process that carries streams stands still: nothing moves, nothing breaks, until its node's agent replaces it. */
  | 'source-proxy-frozen'
  | 'target-proxy-frozen'
  /** Both processes answer, and nothing moves through this pair of them any more. */
  | 'streams-silent'
  /** Only where hooks do something. */
  | 'hook-fails'
  | 'hook-hangs'
  | 'checkpoint-torn';

export interface Fault {
  readonly atMs: number;
  readonly forMs: number;
  readonly kind: FaultKind;
  /** VMI whose launcher it is about. */
  readonly name: string;
  /** 0 to 1: how much. */
  readonly size: number;
}

const faultKinds: readonly FaultKind[] = [
  'api-down',
  'api-errors',
  'answers-lost',
  'conflict-storm',
  'watch-cut',
  'watch-expires',
  'watch-silent',
  'lists-are-old',
  'agent-killed',
  'agent-killed',
  'agent-killed',
  'agent-restarted',
  'two-agents',
  'launcher-hangs',
  'launcher-slow',
  'launcher-refuses',
  'launcher-garbage',
  'connection-breaks',
  'events-late',
  'events-doubled',
  'events-swapped',
  'events-garbage',
  'events-lost',
  'notify-storm',
  'pipe-fails',
  'disk-full',
  'disk-errors',
  'record-torn',
  'clock-jumps',
];

const deedKinds: readonly DeedKind[] = [
  'delete',
  'delete',
  'delete',
  'remove-by-force',
  'guest-shuts-down',
  'guest-shuts-down',
  'guest-crashes',
  'pause',
  'launcher-dies',
  'pod-is-evicted',
  'change-vmi',
];

/** Seeds from here on are worlds of two nodes with live migrations. */
export const firstMigrationSeed = 1_000_000;

/** Seeds from here on are worlds of two nodes in which something that a migration needs is lost while it is under way. */
export const firstMigrationLossSeed = 5_000_000;

/** As the losses above, with more to lose: also libvirt's daemons, and two of three guests move in post-copy. */
export const firstPostCopyLossSeed = 7_000_000;

/** Seeds from here on are worlds of two nodes in which streams are frozen, in any stage of a migration with or without post-copy. */
export const firstFrozenSeed = 8_000_000;

/** Seeds from here on are worlds of one node in which nothing is wrong: what comes must come in time (timely.ts). */
export const firstCalmSeed = 10_000_000;

/** Seeds from here on are worlds of one node whose API server is away when guests end, for longer than their launchers stay (fault 1). */
export const firstOutageSeed = 20_000_000;

/** Seeds from here on are worlds whose agents have a hook that does something on the node; every third has migrations. */
export const firstHostWorkSeed = 30_000_000;

export function planOf(seed: number): Plan {
  if (seed >= firstHostWorkSeed) return withHostWork(seed - firstHostWorkSeed, new Chance(seed));
  if (seed >= firstOutageSeed) return withOutage(planOf(seed - firstOutageSeed), new Chance(seed));
  if (seed >= firstCalmSeed) return { ...planOf(seed - firstCalmSeed), faults: [] };
  if (seed >= firstFrozenSeed) return planFrozenWorld(new Chance(seed * 2 + 1));
  if (seed >= firstPostCopyLossSeed) return planPostCopyLossWorld(new Chance(seed * 2 + 1));
  if (seed >= firstMigrationLossSeed) return planLossWorld(new Chance(seed * 2 + 1));
  if (seed >= firstMigrationSeed) return planMigrationWorld(new Chance(seed * 2 + 1));
  const chance = new Chance(seed * 2 + 1);
  const vmis = Array.from({ length: chance.pick([1, 1, 1, 2, 2, 3]) }, (_, at) => planVmi(chance, `vm${at + 1}`));
  const deeds = vmis.flatMap((vmi) => planDeeds(chance, vmi)).sort(byTime);
  const faults = Array.from({ length: chance.pick([0, 1, 1, 2, 2, 3, 3, 4, 6]) }, () =>
    planFault(chance, chance.pick(vmis).name, deeds),
  ).sort(byTime);
  const ends = [...deeds.map(({ atMs }) => atMs), ...faults.map(({ atMs, forMs }) => atMs + forMs)];
  return { vmis, deeds, faults, migrations: [], hasHostWork: false, calmAtMs: Math.max(15_000, ...ends) + 1_000 };
}

function withOutage(plan: Plan, chance: Chance): Plan {
  const end: Deed = {
    atMs: plan.calmAtMs,
    name: chance.pick(plan.vmis).name,
    kind: chance.pick(['guest-shuts-down', 'guest-shuts-down', 'guest-crashes']),
  };
  const outage: Fault = {
    atMs: round(end.atMs - chance.between(0, 500)),
    forMs: round(chance.between(45_000, 75_000)),
    kind: 'api-down',
    name: end.name,
    size: 0,
  };
  const calmAtMs = outage.atMs + outage.forMs + 1_000;
  return { ...plan, deeds: [...plan.deeds, end], faults: [...plan.faults, outage], calmAtMs };
}

function withHostWork(seed: number, chance: Chance): Plan {
  const plan = planOf(seed % 3 === 0 ? firstMigrationSeed + seed : seed);
  const kinds = ['hook-fails', 'hook-hangs', 'agent-killed', 'agent-killed', 'checkpoint-torn'] as const;
  const more = Array.from({ length: chance.pick([0, 1, 1, 2, 3]) }, () =>
    planFault(chance, chance.pick(plan.vmis).name, plan.deeds, kinds),
  );
  const faults = [...plan.faults, ...more].sort(byTime);
  const calmAtMs = Math.max(plan.calmAtMs, ...more.map(({ atMs, forMs }) => atMs + forMs + 1_000));
  return { ...plan, hasHostWork: true, faults, calmAtMs };
}

/** As this plan, and all that happens comes up to 0.3 s earlier or later: what a seed found is not lost with one latency. */
export function jittered(plan: Plan, chance: Chance): Plan {
  const move = <T extends { readonly atMs: number }>(happenings: readonly T[]): T[] =>
    happenings.map((each) => ({ ...each, atMs: Math.max(0, round(each.atMs + chance.between(-300, 300))) }));
  return { ...plan, deeds: move(plan.deeds), faults: move(plan.faults), migrations: move(plan.migrations) };
}

const migrationDeeds: readonly DeedKind[] = [
  'delete',
  'remove-by-force',
  'guest-shuts-down',
  'guest-crashes',
  'pause',
  'pause',
  'launcher-dies',
  'pod-is-evicted',
  'change-vmi',
];

function planMigrationWorld(chance: Chance): Plan {
  const vmis = Array.from({ length: chance.pick([1, 1, 2]) }, (_, at) => planVmi(chance, `vm${at + 1}`));
  const migrations: MigrationPlan[] = [];
  for (let count = chance.pick([1, 1, 2, 3]), at = 1_000; count > 0; count--) {
    at += round(chance.between(500, 9_000));
    migrations.push({
      atMs: at,
      name: chance.pick(vmis).name,
      fate: chance.pick(['succeeds', 'succeeds', 'succeeds', 'succeeds', 'breaks', 'aborted', 'target-dies'] as const),
      fateMs: round(chance.happens(0.5) ? chance.between(0, 1_500) : chance.between(0, 8_000)),
      copyMs: round(chance.happens(0.5) ? chance.between(10, 1_000) : chance.between(500, 8_000)),
    });
  }
  const deeds = Array.from({ length: chance.pick([0, 0, 0, 1, 1, 2]) }, () => {
    const near = chance.pick(migrations);
    return { atMs: round(near.atMs + chance.between(0, 12_000)), name: near.name, kind: chance.pick(migrationDeeds) };
  }).sort(byTime);
  const kinds = [...faultKinds, 'migration-proxies-fail' as const];
  const faults = Array.from({ length: chance.pick([0, 1, 1, 2, 2, 3, 4]) }, () => {
    const near = chance.pick(migrations);
    const fault = planFault(chance, near.name, deeds, kinds);
    return chance.happens(0.7) ? { ...fault, atMs: round(near.atMs + chance.between(0, 10_000)) } : fault;
  }).sort(byTime);
  const ends = [...deeds, ...migrations].map(({ atMs }) => atMs).concat(faults.map(({ atMs, forMs }) => atMs + forMs));
  return {
    vmis,
    deeds,
    faults,
    migrations,
    hasHostWork: false,
    calmAtMs: Math.max(25_000, ...ends.map((ms) => ms + 8_000)) + 1_000,
  };
}

const lossKinds = [
  'source-agent-killed',
  'target-agent-killed',
  'agents-killed',
  'agents-in-turn',
  'source-launcher-killed',
  'target-launcher-killed',
  'streams-cut',
  'streams-cut',
  'api-down',
] as const;

/** Streams that broke in post-copy are made anew for this long. */
export const resumeMs = 60_000;
/** Streams that are frozen are noticed by then. */
export const stallMs = 20_000;
/** A launcher gives a migration up in which no byte moves for so long. */
export const progressMs = 60_000;

/** Agents and watches are back by then, and a launcher that ignores its end was killed by the kubelet. */
const launcherEndMs = 120_000;

/** One loss, in any stage of the first migration of a VM; then another migration, which nothing may hold up. */
function planLossWorld(chance: Chance): Plan {
  const vmi: VmiPlan = { ...planVmi(chance, 'vm1'), atMs: 0, socketDelayMs: 0 };
  const copyMs = round(chance.between(10, 6_000));
  const first: MigrationPlan = { atMs: 3_000, name: vmi.name, fate: 'succeeds', fateMs: 0, copyMs };
  const loss: Fault = {
    atMs: round(first.atMs + chance.between(0, copyMs + 5_000)),
    forMs: round(chance.happens(0.7) ? chance.between(50, 4_000) : chance.between(4_000, 45_000)),
    kind: chance.pick(lossKinds),
    name: vmi.name,
    size: Math.round(chance.next() * 100) / 100,
  };
  const freeMs = Math.max(first.atMs + copyMs, loss.atMs + loss.forMs) + launcherEndMs;
  const next: MigrationPlan = { ...first, atMs: freeMs, copyMs: round(chance.between(10, 1_000)) };
  const calmAtMs = freeMs + 25_000;
  const migrations = [first, next];
  return { vmis: [vmi], deeds: [], faults: [loss], migrations, hasGoodEnd: true, hasHostWork: false, calmAtMs };
}

/** The same, in any stage of a migration with or without post-copy. */
function planPostCopyLossWorld(chance: Chance): Plan {
  const plan = planLossWorld(chance);
  const postCopyMs = chance.happens(0.67) ? round(chance.between(500, 8_000)) : 0;
  const kind = chance.pick([
    ...lossKinds,
    'source-libvirt-lost',
    'source-libvirt-lost',
    'target-libvirt-lost',
  ] as const);
  const [first, next] = plan.migrations;
  const [loss] = plan.faults;
  if (!first || !next || !loss) return plan;
  const atMs = round(first.atMs + chance.between(0, first.copyMs + postCopyMs + 5_000));
  const deed = {
    atMs: round(first.atMs + chance.between(0, first.copyMs + postCopyMs + 2_000)),
    name: first.name,
    kind: chance.pick(migrationDeeds),
  };
  // Nobody knows sooner that a guest with half of its memory is lost.
  const lateMs = Math.max(0, atMs - loss.atMs) + postCopyMs + resumeMs;
  return {
    ...plan,
    faults: [{ ...loss, kind, atMs }],
    deeds: chance.happens(0.3) ? [deed] : [],
    migrations: [
      { ...first, ...(postCopyMs > 0 && { postCopyMs }) },
      { ...next, atMs: next.atMs + lateMs },
    ],
    calmAtMs: plan.calmAtMs + lateMs,
  };
}

/** As half-way losses, and what is frozen is frozen for good: only who notices it ends it. */
function planFrozenWorld(chance: Chance): Plan {
  const plan = planPostCopyLossWorld(chance);
  const kind = chance.pick(['source-proxy-frozen', 'target-proxy-frozen', 'streams-silent', 'streams-silent'] as const);
  const lateMs = stallMs + progressMs;
  const [first, next] = plan.migrations;
  const [fault] = plan.faults;
  if (!first || !next || !fault) return plan;
  const faults = [{ ...fault, kind, forMs: 0, atMs: Math.max(first.atMs, fault.atMs - 3_000) }];
  const migrations = [first, { ...next, atMs: next.atMs + lateMs }];
  return { ...plan, faults, migrations, calmAtMs: plan.calmAtMs + lateMs };
}

function planVmi(chance: Chance, name: string): VmiPlan {
  return {
    name,
    atMs: chance.happens(0.5) ? 0 : round(chance.between(0, 4_000)),
    graceSeconds: chance.pick([0, 5, 5, 30]),
    habit: chance.pick(['obeys', 'obeys', 'obeys', 'ignores', 'hangs'] as const),
    begins: chance.pick(['scheduled', 'scheduled', 'scheduled', 'scheduled', 'running', 'running-recorded'] as const),
    socketDelayMs: chance.happens(0.2) ? round(chance.between(0, 6_000)) : 0,
  };
}

function planDeeds(chance: Chance, { name, atMs }: VmiPlan): Deed[] {
  const deeds: Deed[] = [];
  let at = atMs;
  for (let count = chance.pick([0, 0, 1, 1, 2]); count > 0; count--) {
    // Near the start everything is in motion.
    at += chance.happens(0.5) ? round(chance.between(0, 1_500)) : round(chance.between(1_000, 15_000));
    deeds.push({ atMs: at, name, kind: chance.pick(deedKinds) });
  }
  const isOver = deeds.some(({ kind }) => kind === 'delete' || kind === 'remove-by-force');
  if (isOver && chance.happens(0.6))
    deeds.push({ atMs: at + round(chance.between(10, 8_000)), name, kind: 'create-again' });
  return deeds;
}

/** Half of the faults come close to a deed. */
function planFault(
  chance: Chance,
  name: string,
  deeds: readonly Deed[],
  kinds: readonly FaultKind[] = faultKinds,
): Fault {
  const deed = deeds.length > 0 && chance.happens(0.5) ? chance.pick(deeds) : undefined;
  const atMs = deed ? Math.max(0, deed.atMs + chance.between(-500, 2_000)) : chance.between(0, 12_000);
  const forMs = chance.happens(0.7) ? chance.between(50, 4_000) : chance.between(4_000, 45_000);
  return {
    atMs: round(atMs),
    forMs: round(forMs),
    kind: chance.pick(kinds),
    name: deed?.name ?? name,
    size: Math.round(chance.next() * 100) / 100,
  };
}

function byTime(left: { readonly atMs: number }, right: { readonly atMs: number }): number {
  return left.atMs - right.atMs;
}

function round(ms: number): number {
  return Math.round(ms);
}

export function describePlan({ vmis, deeds, faults, migrations, calmAtMs }: Plan): string {
  const lines = [
    ...vmis.map(({ name, atMs, ...rest }) => ({ atMs, text: `${name} ${JSON.stringify(rest)}` })),
    ...deeds.map(({ atMs, name, kind }) => ({ atMs, text: `${name}: ${kind}` })),
    ...migrations.map(({ atMs, name, ...rest }) => ({ atMs, text: `${name} migrates ${JSON.stringify(rest)}` })),
    ...faults.map(({ atMs, forMs, kind, name, size }) => ({
      atMs,
      text: `fault ${kind} ${name} ${size} for ${forMs} ms`,
    })),
    { atMs: calmAtMs, text: 'calm' },
  ].sort(byTime);
  return lines.map(({ atMs, text }) => `  ${(atMs / 1000).toFixed(3)} ${text}`).join('\n');
}
