import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { findCondition, resources } from '../../src/api/index.ts';
import { stays } from '../fixtures/eventually.ts';
import { KillableApi } from '../fixtures/killable-api.ts';
import { MigrationCluster } from '../fixtures/migration-cluster.ts';
import { lose } from '../fixtures/migration-loss.ts';
import type { MigrationNode } from '../fixtures/migration-node.ts';
import { untilNoMigration, untilNothingIsLeft } from '../fixtures/migration-remains.ts';
import { limitsOf, type Stage, untilStage } from '../fixtures/migration-stage.ts';
import { NodeNetwork } from '../fixtures/node-network.ts';
import { WatchedGuest } from '../fixtures/watched-guest.ts';
import { type Cell, cells, type End } from './cells.ts';

const resumeSeconds = 30;
/** Of a guest that is lost; one that may have arrived is waited for for ten minutes. */
const givenUpMs = 120_000;
/** What a guest has of its own in memory. */
const megabytes: Readonly<Record<Stage, number>> = { early: 16, late: 16, 'post-copy': 60 };

let world: MigrationCluster;
/** Of the last test, when it went on. */
let living: WatchedGuest | undefined;
const guests: WatchedGuest[] = [];
let booted = 0;
let moves = 0;

/** A test for each cell of a stage. */
export function lossCases(stage: Stage): void {
  before(async () => {
    const network = NodeNetwork.enter();
    const surroundings = { network, api: await KillableApi.start() };
    const flags = ['--post-copy-resume-seconds', String(resumeSeconds)];
    world = await MigrationCluster.start(limitsOf[stage], { surroundings, flags });
  });
  after(async () => {
    for (const guest of guests) guest.close();
    await world?.dispose();
  });
  for (const cell of cells[stage]) {
    test(`${stage}: ${wordsOf(cell)}`, (t) => checkCell(stage, cell, t));
  }
}

const endWords: Readonly<Record<End['kind'], string>> = {
  arrives: 'the guest arrives',
  stays: 'the guest goes on where it was, and the migration has failed in words',
  ends: 'the guest is lost, and VMI and migration have failed in words',
};

function wordsOf({ loss, back, end }: Cell): string {
  const how = back === 'ended' ? ' for as long as it takes' : '';
  return `${loss} is lost${how}: ${endWords[end.kind]}`;
}

async function checkCell(stage: Stage, cell: Cell, t: TestContext): Promise<void> {
  const guest = await aGuest(stage);
  const source = world.nodeOf(await world.vmi(guest.name));
  const name = `${guest.name}-${++moves}`;
  if (stage === 'late') await guest.toil(source);
  await world.migrate(guest.name, name);
  await untilStage(stage, { world, guest, source });
  const carriers = world.nodes.flatMap((node) => node.proxiesOf(guest.uid));
  assert.equal(carriers.length, 2, 'each node has its streams');
  if (stage === 'late') await guest.rest(source);
  const lostMs = performance.now();
  const comeBack = await lose(cell.loss, { world, guest: guest.guest, source });
  if (typeof cell.back === 'number') await stays(() => guest.assertNeverTwice(), cell.back).finally(comeBack);
  const over = world.untilMigration(name, 'Succeeded', 'Failed');
  const { status } = await over.finally(() => (cell.back === 'ended' ? comeBack() : undefined));
  const { reason = '', message = '' } = findCondition(status?.conditions, 'migrationFailed') ?? {};
  const tookMs = performance.now() - lostMs;
  t.diagnostic(`${status?.phase} after ${Math.round(tookMs / 1000)} s ${reason} ${message}`);
  await checkEnd[cell.end.kind](
    { guest, source, name, phase: status?.phase ?? '', words: `${reason}: ${message}`, tookMs },
    cell,
  );
  await untilNothingIsLeft(world, guest, { carriers, launchers: cell.end.kind === 'ends' ? 0 : 1 });
  guest.assertNeverTwice();
  const all = Math.round((performance.now() - lostMs) / 1000);
  t.diagnostic(`all over after ${all} s`);
  if (cell.end.kind !== 'ends') living = guest;
}

/** The one of the last test, or another one in place of one that may be in any state. */
async function aGuest(stage: Stage): Promise<WatchedGuest> {
  const found = living;
  living = undefined;
  if (found) return found;
  const { items } = await world.cluster.client.list(resources.virtualMachineInstances, { namespace: 'default' });
  for (const { metadata } of items) await world.cluster.client.delete(resources.virtualMachineInstances, metadata);
  const guest = await WatchedGuest.boot(world, `guest-${++booted}`, megabytes[stage]);
  guests.push(guest);
  return guest;
}

interface Ended {
  readonly guest: WatchedGuest;
  readonly source: MigrationNode;
  readonly name: string;
  readonly phase: string;
  readonly words: string;
  /** From the loss on. */
  readonly tookMs: number;
}

const checkEnd: Readonly<Record<End['kind'], (ended: Ended, cell: Cell) => Promise<void>>> = {
  async arrives({ guest, source, phase, words }) {
    assert.equal(phase, 'Succeeded', words);
    const { status } = await world.vmi(guest.name);
    assert.deepEqual([status?.phase, status?.nodeName], ['Running', world.other(source).name]);
    assert.deepEqual(
      [status?.migrationState?.failed ?? false, status?.migrationState?.failureReason],
      [false, undefined],
    );
    await guest.assertLives(world.other(source));
  },
  async stays({ guest, source, name, phase, words }, { end }) {
    assert.equal(phase, 'Failed');
    assert.match(words, wanted(end));
    assert.equal((await world.vmi(guest.name)).status?.phase, 'Running');
    const node = (await retryOf(name, guest)) === 'Succeeded' ? world.other(source) : source;
    assert.equal((await world.vmi(guest.name)).status?.nodeName, node.name);
    await guest.assertLives(node);
  },
  async ends({ guest, phase, words, tookMs }, { end }) {
    assert.equal(phase, 'Failed');
    assert.match(words, wanted(end));
    assert.ok(tookMs < givenUpMs, `${tookMs} ms`);
    const { status } = await world.untilVmi(guest.name, 'given up', (vmi) => vmi.status?.phase === 'Failed');
    assert.equal(status?.migrationState?.failed, true);
    assert.ok(status.migrationState.failureReason);
  },
};

const wanted = (end: End) => (end.kind === 'arrives' ? /^$/ : end.why);

/** The phase of the migration that a controller may have made itself after this one; `none` without it. */
async function retryOf(failed: string, { name }: WatchedGuest): Promise<string> {
  const all = await untilNoMigration(world, name);
  return all.find(({ metadata }) => metadata.name.startsWith(`${failed}-retry-`))?.status?.phase ?? 'none';
}
