import { findCondition } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { KillableApi } from '../test/fixtures/killable-api.ts';
import { MigrationCluster } from '../test/fixtures/migration-cluster.ts';
import { type Loss, lose } from '../test/fixtures/migration-loss.ts';
import type { MigrationNode } from '../test/fixtures/migration-node.ts';
import { untilNoMigration, untilNothingIsLeft } from '../test/fixtures/migration-remains.ts';
import { limitsOf, untilStage } from '../test/fixtures/migration-stage.ts';
import { NodeNetwork } from '../test/fixtures/node-network.ts';
import { allowPostCopy } from '../test/fixtures/post-copy-setting.ts';
import { WatchedGuest } from '../test/fixtures/watched-guest.ts';
import { randomOf } from './random.ts';

export interface KillsOptions {
  /** Migrations, each with one loss. */
  readonly kills: number;
  readonly losses: readonly Loss[];
  /** The loss comes after the switch to post-copy instead of at any instant. */
  readonly inPostCopy: boolean;
  readonly seed: number;
  readonly say: (text: string) => void;
}

/** Of one kind of loss. */
interface LossResult {
  readonly kills: number;
  /** The guest answers with what was in its memory. */
  readonly alive: number;
  /** How the migration ended, in words → times. */
  readonly ended: Readonly<Record<string, number>>;
}

const none: LossResult = { kills: 0, alive: 0, ended: {} };

export interface KillsResult {
  readonly losses: Readonly<Record<string, LossResult>>;
  /** What must not be. */
  readonly faults: readonly string[];
}

/** About as long as an undisturbed migration takes, from its creation on. */
const spanMs = 6_000;
const preCopy = { bandwidthPerMigration: '24Mi' };
/** After the switch, and after the guest has answered at the target. */
const postCopySpanMs = 3_000;
const resumeSeconds = 30;

/** How long something is away at most. */
const awaySpanMs: Partial<Record<Loss, number>> = { 'network (reset)': 5_000, 'network (dropped)': 40_000 };
const usualAwayMs = 1_000;

/** One guest that moves to and fro between two whole agents; each time something is lost at a random instant. */
export async function migrationKills(options: KillsOptions): Promise<KillsResult> {
  const { kills, losses, inPostCopy, seed, say } = options;
  const random = randomOf(seed);
  const putBack = inPostCopy ? allowPostCopy() : () => undefined;
  const surroundings = { network: NodeNetwork.enter(), api: await KillableApi.start() };
  const flags = ['--post-copy-resume-seconds', String(resumeSeconds)];
  // Each loss is looked at by itself: what tries it again would be in the way of the next one.
  const clusterOptions = { surroundings, flags, migrationRetries: 0 } as const;
  const world = await MigrationCluster.start(inPostCopy ? limitsOf['post-copy'] : preCopy, clusterOptions);
  const results: Record<string, LossResult> = {};
  const faults: string[] = [];
  const guests = new Set<WatchedGuest>();
  let guest: WatchedGuest | undefined;
  try {
    for (let done = 1; done <= kills && faults.length === 0; done++) {
      const loss = losses[Math.floor(random() * losses.length)] ?? 'source agent';
      const instantMs = random() * (inPostCopy ? postCopySpanMs : spanMs);
      const awayMs = random() * (awaySpanMs[loss] ?? usualAwayMs);
      guest ??= await WatchedGuest.boot(world, `guest-${done}`, inPostCopy ? 60 : 8);
      guests.add(guest);
      const given = { guest, loss, instantMs, awayMs, inPostCopy, name: `kill-${done}` };
      const outcome = await oneLoss(world, given).catch((error: Error) => error);
      const what = `${done}, ${loss} after ${Math.round(instantMs)} ms, away for ${Math.round(awayMs)} ms`;
      if (outcome instanceof Error) {
        faults.push(`${what}: ${outcome.message.slice(0, 2000)}`);
        continue;
      }
      say(`${what}: ${outcome.isAlive ? 'alive' : 'lost'}, ${outcome.words}`);
      results[loss] = counted(results[loss], outcome);
      if (!outcome.isAlive) guest = undefined;
    }
    return { losses: results, faults };
  } finally {
    for (const each of guests) each.close();
    await world.dispose();
    putBack();
  }
}

interface Outcome {
  readonly isAlive: boolean;
  readonly words: string;
}

function counted({ kills, alive, ended }: LossResult = none, { isAlive, words }: Outcome): LossResult {
  return {
    kills: kills + 1,
    alive: alive + (isAlive ? 1 : 0),
    ended: { ...ended, [words]: (ended[words] ?? 0) + 1 },
  };
}

interface Given {
  readonly guest: WatchedGuest;
  readonly loss: Loss;
  readonly instantMs: number;
  readonly awayMs: number;
  readonly inPostCopy: boolean;
  readonly name: string;
}

/** How the migration ended; rejects when the guest, or a trace of the migration, is not as it must be. */
async function oneLoss(world: MigrationCluster, given: Given): Promise<Outcome> {
  const { guest, loss, instantMs, awayMs, inPostCopy, name } = given;
  const source = world.nodeOf(await world.vmi(guest.name));
  await world.migrate(guest.name, name);
  if (inPostCopy) await untilStage('post-copy', { world, guest, source });
  await sleep(instantMs);
  const undo = await lose(loss, { world, guest: guest.guest, source });
  await sleep(awayMs);
  await undo();
  const { status } = await world.untilMigration(name, 'Succeeded', 'Failed');
  const words = status?.phase === 'Succeeded' ? 'Succeeded' : wordsOf(status?.conditions);
  if (!words) throw new Error('it failed without a reason');
  await untilNoMigration(world, guest.name);
  const vmi = await world.vmi(guest.name);
  const isAlive = vmi.status?.phase === 'Running';
  if (!isAlive && !mayBeLost(given)) throw new Error(`the guest is lost: ${words}`);
  if (isAlive) await checkLiving(world, guest, source, status?.phase === 'Succeeded');
  await untilNothingIsLeft(world, guest, { launchers: isAlive ? 1 : 0 });
  return { isAlive, words };
}

const wordsOf = (conditions: Parameters<typeof findCondition>[0]) =>
  findCondition(conditions, 'migrationFailed')?.message;

/** QEMU ends with the pod of its launcher; in post-copy half of a guest is no guest. */
const mayBeLost = ({ loss, inPostCopy }: Given) => inPostCopy || loss === 'source launcher';

async function checkLiving(world: MigrationCluster, guest: WatchedGuest, source: MigrationNode, hasMoved: boolean) {
  const node = world.nodeOf(await world.vmi(guest.name));
  if (hasMoved && node === source) throw new Error(`succeeded, and is on ${node.name} still`);
  await guest.assertLives(node);
}
