import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { MigrationCluster } from '../../fixtures/migration-cluster.ts';
import { lose } from '../../fixtures/migration-loss.ts';
import type { MigrationNode } from '../../fixtures/migration-node.ts';
import { untilNothingIsLeft } from '../../fixtures/migration-remains.ts';
import { limitsOf, untilStage } from '../../fixtures/migration-stage.ts';
import { allowPostCopy, whyNoPostCopy } from '../../fixtures/post-copy-setting.ts';
import { WatchedGuest } from '../../fixtures/watched-guest.ts';

/** One loss that a guest outlives, and one that it does not. All of them: test/losses. */

const flags = ['--post-copy-resume-seconds', '30'];

describe('a guest that runs at its target while its memory is still at the source', { skip: whyNoPostCopy() }, () => {
  let world: MigrationCluster;
  let guest: WatchedGuest;
  let putBack: (() => void) | undefined;
  before(async () => {
    putBack = allowPostCopy();
    world = await MigrationCluster.start(limitsOf['post-copy'], { flags });
    guest = await WatchedGuest.boot(world, 'demo', 60);
  });
  after(async () => {
    guest?.close();
    await world?.dispose();
    putBack?.();
  });

  /** Under way from there. */
  async function inPostCopy(migration: string): Promise<MigrationNode> {
    const source = world.nodeOf(await world.vmi('demo'));
    await world.migrate('demo', migration);
    await untilStage('post-copy', { world, guest, source });
    return source;
  }

  test('its streams are lost: the guest waits, gets its memory through new ones, and nothing of it is lost', async () => {
    const source = await inPostCopy('waits');
    await lose('target proxy', { world, guest: guest.guest, source });
    const { status } = await world.untilMigration('waits', 'Succeeded', 'Failed');
    assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
    const target = world.other(source);
    const vmi = await world.vmi('demo');
    assert.equal(world.nodeOf(vmi), target);
    assert.equal(vmi.status?.migrationState?.failureReason, undefined);
    await guest.assertLives(target);
    await untilNothingIsLeft(world, guest, { launchers: 1 });
  });

  test('the target launcher is lost, and half of the memory with it: VMI and migration fail in words, nothing stays', async () => {
    const source = await inPostCopy('halved');
    await lose('target launcher', { world, guest: guest.guest, source });
    const vmi = await world.untilVmi('demo', 'given up', ({ status }) => status?.phase === 'Failed');
    const { status } = await world.untilMigration('halved', 'Failed', 'Succeeded');
    assert.equal(status?.phase, 'Failed');
    assert.ok(findCondition(status.conditions, 'migrationFailed')?.message);
    assert.ok(vmi.status?.migrationState?.failureReason, JSON.stringify(vmi.status?.migrationState));
    await untilNothingIsLeft(world, guest, { launchers: 0 });
  });
});
