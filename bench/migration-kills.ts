import { findCondition } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { eventually } from '../test/fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../test/fixtures/migration-cluster.ts';
import { type Loss, lose } from '../test/fixtures/migration-loss.ts';
import { randomOf } from './random.ts';

export interface KillsOptions {
  /** Migrations, each with one loss. */
  readonly kills: number;
  readonly losses: readonly Loss[];
  readonly seed: number;
  readonly say: (text: string) => void;
}

export interface KillsResult {
  readonly kills: number;
  readonly succeeded: number;
  /** Reason → times. */
  readonly failed: Readonly<Record<string, number>>;
  /** What must not be. */
  readonly faults: readonly string[];
}

/** About as long as an undisturbed migration takes with `limits`, from its creation on. */
const spanMs = 6_000;
const limits = { bandwidthPerMigration: '24Mi' };

/** One guest that moves to and fro between two whole agents; each time something is lost at a random instant. */
export async function migrationKills({ kills, losses, seed, say }: KillsOptions): Promise<KillsResult> {
  const random = randomOf(seed);
  const world = await MigrationCluster.start(limits);
  try {
    const guest = await begin(world);
    const failed: Record<string, number> = {};
    const faults: string[] = [];
    let done = 0;
    let succeeded = 0;
    while (done < kills && faults.length === 0) {
      const loss = losses[Math.floor(random() * losses.length)] ?? 'source agent';
      const instantMs = random() * spanMs;
      const awayMs = random() * 1_000;
      const name = `kill-${++done}`;
      const outcome = await oneLoss(world, { guest, loss, instantMs, awayMs, name }).catch((error: Error) => error);
      const text = outcome instanceof Error ? outcome.message.slice(0, 2000) : outcome;
      say(`${done}, ${loss} after ${Math.round(instantMs)} ms: ${text}`);
      if (outcome instanceof Error) faults.push(`${name}, ${loss} after ${Math.round(instantMs)} ms: ${text}`);
      else if (outcome === 'Succeeded') succeeded++;
      else failed[outcome] = (failed[outcome] ?? 0) + 1;
    }
    return { kills: done, succeeded, failed, faults };
  } finally {
    await world.dispose();
  }
}

async function begin(world: MigrationCluster): Promise<Guest> {
  const guest = await world.guest('demo');
  await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
  const shell = await guest.shell(world.nodeOf(await world.vmi('demo')));
  await shell.login();
  await shell.run('echo moved with me > /tmp/mark');
  shell.close();
  return guest;
}

/** How the migration ended, in words; rejects when the guest, or a trace of the migration, is not as it must be. */
async function oneLoss(
  world: MigrationCluster,
  given: {
    readonly guest: Guest;
    readonly loss: Loss;
    readonly instantMs: number;
    readonly awayMs: number;
    readonly name: string;
  },
): Promise<string> {
  const { guest, loss, instantMs, awayMs, name } = given;
  const source = world.nodeOf(await world.vmi('demo'));
  await world.migrate('demo', name);
  await sleep(instantMs);
  const undo = await lose(loss, { world, guest, source });
  await sleep(awayMs);
  await undo();
  const { status } = await world.untilMigration(name, 'Succeeded', 'Failed');
  const node = world.nodeOf(await world.vmi('demo'));
  const shell = await guest.shell(node);
  try {
    if (!(await shell.run('cat /tmp/mark')).includes('moved with me')) throw new Error('the guest was started anew');
  } finally {
    shell.close();
  }
  if ((status?.phase === 'Succeeded') !== (node !== source)) throw new Error(`${status?.phase}, and on ${node.name}`);
  // Nothing of it is left, so that the next one finds all as it was.
  await eventually(async () => {
    const [open, pods] = [
      world.nodes.flatMap(({ proxies }) => proxies).length,
      (await world.launchers(guest.uid)).size,
    ];
    if (open > 0 || pods !== 1) throw new Error(`left of ${name}: ${open} proxies, ${pods} launchers`);
  }, patienceMs);
  if (status?.phase === 'Succeeded') return 'Succeeded';
  const why = findCondition(status?.conditions, 'migrationFailed')?.message;
  if (!why) throw new Error('it failed without a reason');
  return why;
}
