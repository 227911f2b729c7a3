import { type Deed, type Fault, type FaultKind, stallMs } from './plan.ts';
import type { SimNode } from './world/sim-host.ts';
import type { SimLauncher } from './world/sim-launcher.ts';
import type { SimWorld } from './world/sim-world.ts';

/** Does what the plan says users and guests do. */
export function doDeed(world: SimWorld, { kind, name }: Deed): void {
  const vmi = world.latest(name);
  if (!vmi) return;
  const { key, launcher, plan } = vmi;
  switch (kind) {
    case 'delete':
      world.api.change(key, 'user', ({ metadata }) => {
        metadata.deletionTimestamp ??= new Date(world.wall.epochMs + world.scheduler.nowMs).toISOString();
      });
      return;
    case 'remove-by-force':
      world.api.remove(key, 'user');
      return;
    case 'guest-shuts-down':
      if (launcher.domain?.status === 'Running') launcher.end('shutdown');
      return;
    case 'guest-crashes':
      if (launcher.domain?.status === 'Running') launcher.end('crashed');
      return;
    case 'pause':
      if (launcher.domain?.status !== 'Running') return;
      launcher.become('Paused', 'User');
      world.after(world.chance.between(100, 5_000), `${name} goes on`, () => {
        if (launcher.domain?.status === 'Paused') launcher.become('Running', 'Unknown');
      });
      return;
    case 'launcher-dies':
      launcher.exit();
      return;
    case 'pod-is-evicted':
      vmi.unwantedMs ??= world.scheduler.nowMs;
      world.endLauncher(launcher);
      return;
    case 'change-vmi':
      world.api.change(key, 'user', ({ metadata }) => {
        metadata.annotations = { ...metadata.annotations, 'example.org/changed': String(world.scheduler.nowMs) };
      });
      return;
    case 'create-again':
      createAgain(world, { ...plan, begins: 'scheduled' }, 40);
      return;
  }
}

/** As users do: again and again until the name is free. */
function createAgain(world: SimWorld, plan: Parameters<SimWorld['createVmi']>[0], tries: number): void {
  if (!world.api.get(`default/${plan.name}`)) world.createVmi(plan);
  else if (tries > 0) world.after(2_000, `${plan.name} is wanted again`, () => createAgain(world, plan, tries - 1));
}

/** What an agent decides takes no longer. */
const noticedMs = 10_000;

/** Begins a fault; its end is planned here, too. */
export function beginFault(world: SimWorld, fault: Fault): void {
  const vmi = world.latest(fault.name);
  const launcher = fault.size > 0.5 ? vmi?.launchers.at(-1) : vmi?.launcher;
  faults[fault.kind]({ world, fault, launcher });
}

interface Act {
  readonly world: SimWorld;
  readonly fault: Fault;
  readonly launcher: SimLauncher | undefined;
}

const faults: Readonly<Record<FaultKind, (act: Act) => void>> = {
  'api-down': ({ world, fault }) => {
    world.trouble.downUntilMs = world.scheduler.nowMs + fault.forMs;
    for (const stream of [...world.streams]) stream.cut();
  },
  'api-errors': (act) => during(act, act.world.trouble, 'errorRate', 0.2 + 0.7 * act.fault.size),
  'answers-lost': (act) => during(act, act.world.trouble, 'lostRate', 0.1 + 0.6 * act.fault.size),
  'conflict-storm': ({ world, fault }) =>
    storm(world, fault.name, world.scheduler.nowMs + fault.forMs, 2 + 60 * fault.size),
  'watch-cut': ({ world }) => {
    for (const stream of [...world.streams]) if (world.chance.happens(0.7)) stream.cut();
  },
  'watch-expires': ({ world }) => {
    world.api.compact();
    for (const stream of [...world.streams]) if (world.chance.happens(0.7)) stream.expire();
  },
  'watch-silent': ({ world, fault }) => {
    world.trouble.silentUntilMs = world.scheduler.nowMs + fault.forMs;
  },
  'lists-are-old': (act) => {
    const relist = () => {
      for (const stream of [...act.world.streams]) stream.expire();
    };
    relist();
    during(act, act.world.trouble, 'oldLists', true, relist);
  },
  'agent-killed': (act) => disturb(act, 'agent-killed'),
  'agent-restarted': (act) => disturb(act, 'agent-restarted'),
  'two-agents': (act) => disturb(act, 'two-agents'),
  'launcher-hangs': ({ world, fault, launcher }) => {
    if (launcher) launcher.hungUntilMs = world.scheduler.nowMs + fault.forMs;
  },
  'launcher-slow': (act) => during(act, act.launcher, 'slowMs', 20 + 8_000 * act.fault.size),
  'launcher-refuses': (act) => during(act, act.launcher, 'refuseRate', 0.3 + 0.7 * act.fault.size),
  'launcher-garbage': (act) => during(act, act.launcher, 'garbageRate', 0.3 + 0.7 * act.fault.size),
  'connection-breaks': ({ world }) => {
    for (const { connections } of world.nodes)
      for (const connection of [...connections]) if (world.chance.happens(0.7)) connection.break();
  },
  'events-late': (act) => during(act, act.launcher?.notifyTrouble, 'lateMs', 100 + 9_000 * act.fault.size),
  'events-doubled': (act) => during(act, act.launcher?.notifyTrouble, 'duplicateRate', 0.2 + 0.8 * act.fault.size),
  'events-swapped': (act) => during(act, act.launcher?.notifyTrouble, 'reorderRate', 0.2 + 0.8 * act.fault.size),
  'events-garbage': (act) => during(act, act.launcher?.notifyTrouble, 'garbageRate', 0.2 + 0.8 * act.fault.size),
  'events-lost': (act) => during(act, act.launcher?.notifyTrouble, 'dropRate', 0.2 + 0.8 * act.fault.size),
  'notify-storm': ({ fault, launcher }) => {
    if (launcher?.alive) launcher.notifier.storm(launcher.json(), 50 + Math.floor(700 * fault.size));
  },
  'pipe-fails': (act) => during(act, aNode(act), 'pipesFail', true),
  'disk-full': (act) => during(act, aNode(act).disk.trouble, 'full', true),
  'disk-errors': (act) => during(act, aNode(act).disk.trouble, 'errorRate', 0.1 + 0.5 * act.fault.size),
  'record-torn': ({ world }) => world.tearRecord(),
  'migration-proxies-fail': (act) => during(act, aNode(act), 'proxyFail', true),
  'source-agent-killed': ({ world, fault }) => killAgent(world, fault, 'source'),
  'target-agent-killed': ({ world, fault }) => killAgent(world, fault, 'target'),
  'agents-killed': ({ world, fault }) => {
    killAgent(world, fault, 'source');
    killAgent(world, fault, 'target');
  },
  'agents-in-turn': ({ world, fault }) => {
    killAgent(world, fault, 'source');
    world.after(fault.forMs, 'the other agent is killed', () => killAgent(world, fault, 'target'));
  },
  'source-launcher-killed': ({ world, fault }) => world.migrationOf(fault.name)?.source.exit(),
  'target-launcher-killed': ({ world, fault }) => world.migrationOf(fault.name)?.target.exit(),
  'source-libvirt-lost': ({ world, fault }) => world.migrationOf(fault.name)?.source.loseLibvirt(fault.forMs),
  'target-libvirt-lost': ({ world, fault }) => world.migrationOf(fault.name)?.target.loseLibvirt(fault.forMs),
  'streams-cut': ({ world, fault }) => {
    for (const { migrationProxies } of world.agents) migrationProxies.areCut = true;
    world.after(fault.forMs, 'streams can be made again', () => {
      for (const { migrationProxies } of world.agents) migrationProxies.areCut = false;
    });
  },
  'source-proxy-frozen': (act) => freeze(act, 'source', true),
  'target-proxy-frozen': (act) => freeze(act, 'target', true),
  'streams-silent': (act) => freeze(act, 'source', false),
  'hook-fails': (act) => during(act, aNode(act).hookTrouble, 'failRate', 0.3 + 0.7 * act.fault.size),
  'hook-hangs': (act) => {
    aNode(act).hookTrouble.hangsUntilMs = act.world.scheduler.nowMs + act.fault.forMs;
  },
  'checkpoint-torn': (act) => act.world.tearCheckpoint(aNode(act)),
  'clock-jumps': ({ world, fault }) => {
    world.wallJumped = true;
    world.wall.epochMs += (fault.size - 0.5) * 7_200_000;
  },
};

/** At once; without a migration that of the first node. */
function killAgent(world: SimWorld, { name, forMs }: Fault, side: 'source' | 'target'): void {
  const migration = world.migrationOf(name);
  const node = migration ? world.nodeOf(migration[side]) : world.nodes[0];
  for (const agent of world.agentsOf(node.name)) world.killAgent(agent);
  world.after(Math.min(forMs, 30_000), 'a new agent starts', () => world.ensureAgent());
}

/** What its node's agent does about it then has to end it, in post-copy, where nobody else would. */
function freeze({ world, fault }: Act, side: 'source' | 'target', isProcess: boolean): void {
  const migration = world.migrationOf(fault.name);
  if (!migration) return;
  const { uid } = migration.vmi;
  for (const { migrationProxies } of world.agentsOf(migration[side].options.nodeName)) {
    const notice = migrationProxies.freeze(side, uid, isProcess);
    if (!notice) continue;
    world.after(stallMs, `${uid} is frozen at its ${side}`, notice);
    world.after(stallMs + noticedMs, `${uid} is not frozen any more`, () => {
      if (migration.move.standsInPostCopy && migrationProxies.isFrozen(side, uid))
        world.judge.violate('frozen-streams-are-noticed', `${uid} stands since ${stallMs + noticedMs} ms`);
    });
  }
}

function aNode({ world, fault }: Act): SimNode {
  return world.nodes[Math.floor(fault.size * 100) % world.nodes.length] ?? world.nodes[0];
}

/** A field is otherwise for the time of the fault; after it nothing of the kind is wrong. */
function during<K extends string, V extends number | boolean>(
  { world, fault }: Act,
  target: Record<K, V> | undefined,
  field: K,
  value: V,
  then = () => {},
): void {
  if (!target) return;
  const calm = (typeof value === 'number' ? 0 : false) as V;
  target[field] = value;
  world.after(fault.forMs, `${fault.kind} ends`, () => {
    target[field] = calm;
    then();
  });
}

function disturb({ world, fault }: Act, kind: Parameters<SimWorld['disturbAgents']>[0]): void {
  world.disturbAgents(kind, fault.forMs, Math.floor(fault.size * 25));
}

/** Somebody else writes the VMI again and again. */
function storm(world: SimWorld, name: string, untilMs: number, everyMs: number): void {
  if (world.scheduler.nowMs > untilMs) return;
  world.api.change(`default/${name}`, 'controller', ({ metadata, status }) => {
    metadata.annotations = { ...metadata.annotations, 'example.org/note': String(world.scheduler.nowMs) };
    if (status) status.foreign = { counter: world.scheduler.nowMs };
  });
  world.after(world.chance.between(0.5, 1.5) * everyMs, 'others write', () => storm(world, name, untilMs, everyMs));
}
