import assert from 'node:assert/strict';
import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { LifecycleDetail, LifecycleEvent } from '../../../src/libvirt/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../../fixtures/migration-node.ts';
import { lose } from '../../fixtures/migration-loss.ts';

/** The switch comes after a second or two, when most of the memory is still to be copied. */
const slowly = { bandwidthPerMigration: '12Mi', allowPostCopy: true, completionTimeoutPerGiB: 5 };
const resumeSeconds = 30;

/** Whether QEMU may wait for pages without being root; set for these tests, and put back. */
const setting = '/proc/sys/vm/unprivileged_userfaultfd';

function whyNot(): string | false {
  try {
    accessSync(setting, constants.W_OK);
    return false;
  } catch {
    return `${setting} cannot be set`;
  }
}

describe('a guest that runs at its target while its memory is still at the source', { skip: whyNot() }, () => {
  let world: MigrationCluster;
  let was: string;
  before(async () => {
    was = readFileSync(setting, 'utf8');
    writeFileSync(setting, '1');
    world = await MigrationCluster.start(slowly, { flags: ['--post-copy-resume-seconds', String(resumeSeconds)] });
  });
  after(async () => {
    await world?.dispose();
    writeFileSync(setting, was);
  });

  /** A guest in the midst of post-copy, under way from `source`. */
  async function inPostCopy(name: string): Promise<{ guest: Guest; source: MigrationNode }> {
    const guest = await world.guest(name);
    const vmi = await world.untilVmi(name, 'migratable', ({ status }) => {
      return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
    });
    const source = world.nodeOf(vmi);
    const shell = await guest.shell(source);
    await shell.login();
    await shell.run('head -c 60000000 /dev/urandom > /tmp/mark; sha256sum /tmp/mark > /tmp/sum');
    shell.close();
    await world.migrate(name, `of-${name}`);
    const [event, detail] = [LifecycleEvent.RESUMED, LifecycleDetail.RESUMED.POSTCOPY];
    await eventually(async () => {
      const target = (await world.launchers(guest.uid)).get(world.other(source).name);
      assert.ok(target?.log().includes(`"event":${event},"detail":${detail}`), `not there yet\n${world.logs()}`);
    }, patienceMs);
    // In the first moments QEMU's own thread may wait for a page, and hears no order to resume: the guest would be lost.
    const arrived = await guest.shell(world.other(source));
    await eventually(async () => assert.match(await arrived.run('echo $((6 * 7))'), /42/), patienceMs);
    arrived.close();
    return { guest, source };
  }

  async function nothingIsLeft({ uid }: Guest): Promise<void> {
    const proxies = () => world.nodes.flatMap((node) => node.proxies);
    await eventually(() => assert.deepEqual(proxies(), []), patienceMs);
    await eventually(async () => assert.deepEqual([...(await world.launchers(uid)).keys()], []), patienceMs);
  }

  test('its streams are lost: the guest waits, gets its memory through new ones, and nothing of it is lost', async () => {
    const { guest, source } = await inPostCopy('waits');
    await lose('target proxy', { world, guest, source });
    const { status } = await world.untilMigration('of-waits', 'Succeeded', 'Failed');
    assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
    const target = world.other(source);
    assert.equal(world.nodeOf(await world.vmi('waits')), target);
    const shell = await guest.shell(target);
    await eventually(async () => assert.match(await shell.run('sha256sum -c /tmp/sum'), /mark: OK/), patienceMs);
    shell.close();
  });

  test('the source launcher is lost, and half of the memory with it: that is known as soon as both nodes have said so', async () => {
    const { guest, source } = await inPostCopy('bereft');
    const lostMs = Date.now();
    await lose('source launcher', { world, guest, source });
    const { reason, message } = await world.untilFailed('of-bereft');
    assert.match(`${reason}: ${message}`, /VmiEnded: .*launcher on the source node ended in post-copy/);
    await world.untilVmi('bereft', 'given up', ({ status }) => status?.phase === 'Failed');
    // Not the ten minutes that a guest which may have arrived is waited for.
    assert.ok(Date.now() - lostMs < 120_000, `${Date.now() - lostMs} ms`);
    await nothingIsLeft(guest);
  });

  for (const side of ['source', 'target'] as const) {
    test(`libvirt of the ${side} is lost: the guest gets its memory, or VMI and migration fail in words`, async (t) => {
      const name = `without-${side}`;
      const { guest, source } = await inPostCopy(name);
      await lose(`${side} libvirt`, { world, guest, source });
      const { status } = await world.untilMigration(`of-${name}`, 'Succeeded', 'Failed');
      t.diagnostic(`${status?.phase}: ${status?.migrationState?.failureReason ?? ''}`);
      const isThere = status?.phase === 'Succeeded';
      const at = isThere ? world.other(source) : source;
      const check = isThere ? 'sha256sum -c /tmp/sum' : 'true';
      const shell = await guest.shell(at);
      await eventually(async () => assert.match(await shell.run(check), /mark: OK/), patienceMs);
      shell.close();
    });
  }

  test('the target launcher is lost, and half of the memory with it: VMI and migration fail in words, nothing stays', async () => {
    const { guest, source } = await inPostCopy('halved');
    await lose('target launcher', { world, guest, source });
    await world.untilVmi('halved', 'given up', ({ status }) => status?.phase === 'Failed');
    const { reason, message } = await world.untilFailed('of-halved');
    assert.ok(reason && message, `${reason}: ${message}`);
    await nothingIsLeft(guest);
  });
});
