import assert from 'node:assert/strict';
import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../src/api/index.ts';
import { isProcessAlive, type ProcessId, processIdOf } from '../../src/host/index.ts';
import { LifecycleDetail, LifecycleEvent } from '../../src/libvirt/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../fixtures/migration-node.ts';

/** Slow enough that most of the memory is still to be copied when something freezes. */
const preCopy = { bandwidthPerMigration: '8Mi' };
const postCopy = { bandwidthPerMigration: '12Mi', allowPostCopy: true, completionTimeoutPerGiB: 5 };
const stallSeconds = 5;
/** From the freeze to the end of the migration, on a busy machine. Without a watch on the processes it is a minute, or never. */
const noticedMs = 45_000;

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

describe('a proxy process that freezes for good while a guest moves', { skip: whyNot() }, () => {
  let world: MigrationCluster;
  let was: string;
  before(async () => {
    was = readFileSync(setting, 'utf8');
    writeFileSync(setting, '1');
    world = await MigrationCluster.start(preCopy, { flags: ['--migration-stall-seconds', String(stallSeconds)] });
  });
  after(async () => {
    await world?.dispose();
    writeFileSync(setting, was);
  });

  /** A guest that remembers something. */
  async function marked(name: string): Promise<{ guest: Guest; source: MigrationNode; target: MigrationNode }> {
    // QEMU's own thread asks a balloon for its figures every ten seconds: should it wait for a page then, it hears no order to resume.
    const guest = await world.guest(name, { autoattachMemBalloon: false });
    const vmi = await world.untilVmi(name, 'migratable', ({ status }) => {
      return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
    });
    const source = world.nodeOf(vmi);
    const shell = await guest.shell(source);
    await shell.login();
    await shell.run('head -c 60000000 /dev/urandom > /tmp/mark; sha256sum /tmp/mark > /tmp/sum');
    shell.close();
    return { guest, source, target: world.other(source) };
  }

  async function remembers(guest: Guest, node: MigrationNode): Promise<void> {
    const shell = await guest.shell(node);
    await eventually(async () => assert.match(await shell.run('sha256sum -c /tmp/sum'), /mark: OK/), patienceMs);
    shell.close();
  }

  /** Nobody wakes it any more. */
  function freeze(guest: Guest, node: MigrationNode): ProcessId {
    const [pid = 0, ...others] = node.proxiesOf(guest.uid);
    assert.deepEqual(others, []);
    const frozen = processIdOf(pid);
    assert.ok(frozen, `${node.name} has no proxy`);
    process.kill(pid, 'SIGSTOP');
    return frozen;
  }

  async function isReplaced(frozen: ProcessId, node: MigrationNode, side: string): Promise<void> {
    await eventually(() => assert.ok(!isProcessAlive(frozen), 'it is there still'), noticedMs);
    assert.match(node.program.log(), new RegExp(`stream frozen: the ${side}'s migration proxy did not answer for 5 s`));
  }

  for (const side of ['source', 'target'] as const) {
    test(`the ${side}’s, before the switch: the migration fails in seconds, the guest goes on, and the one that tries it again brings it over`, async () => {
      await world.configure(preCopy);
      const name = `pre-${side}`;
      const { guest, source, target } = await marked(name);
      await world.migrate(name, `of-${name}`);
      await world.untilMigration(`of-${name}`, 'Running', 'Failed');
      await isUnderWay(source, guest);
      const node = side === 'source' ? source : target;
      const frozen = freeze(guest, node);
      const frozenMs = performance.now();
      const { message } = await world.untilFailed(`of-${name}`);
      assert.ok(performance.now() - frozenMs < noticedMs, `after ${performance.now() - frozenMs} ms`);
      await isReplaced(frozen, node, side);
      const says = { source: /stream frozen: the source's migration proxy did not answer for 5 s/, target: /\w/ }[side];
      assert.match(message, says, source.program.log());
      assert.equal(world.nodeOf(await world.vmi(name)), source);
      await remembers(guest, source);
      await world.configure({});
      await world.untilMigration(await world.retryOf(`of-${name}`), 'Succeeded');
      await remembers(guest, target);
    });
  }

  for (const side of ['source', 'target'] as const) {
    test(`the ${side}’s, in post-copy: the guest waits some seconds, gets the rest of its memory through new streams, and has lost nothing`, async () => {
      const { guest, source, target } = await inPostCopy(`post-${side}`);
      const node = side === 'source' ? source : target;
      const frozen = freeze(guest, node);
      await isReplaced(frozen, node, side);
      await arrives(guest, target);
    });
  }

  test('the source’s QEMU stands still in post-copy: its streams carry nothing and are closed, and when it goes on it is resumed', async () => {
    const { guest, source, target } = await inPostCopy('post-qemu');
    const [pid = 0] = (await world.launchers(guest.uid)).get(source.name)?.pids('qemu-system-x86') ?? [];
    const [carrier] = source.proxiesOf(guest.uid);
    assert.ok(carrier);
    process.kill(pid, 'SIGSTOP');
    // For HAProxy counts every five seconds.
    await eventually(() => assert.ok(!source.proxiesOf(guest.uid).includes(carrier)), noticedMs);
    process.kill(pid, 'SIGCONT');
    await arrives(guest, target);
  });

  /** It runs at the target, and most of its memory is still at the source. */
  async function inPostCopy(name: string): Promise<Awaited<ReturnType<typeof marked>>> {
    await world.configure(postCopy);
    const moved = await marked(name);
    const { guest, target } = moved;
    await world.migrate(name, `of-${name}`);
    const [event, detail] = [LifecycleEvent.RESUMED, LifecycleDetail.RESUMED.POSTCOPY];
    await eventually(async () => {
      const launcher = (await world.launchers(guest.uid)).get(target.name);
      assert.ok(launcher?.log().includes(`"event":${event},"detail":${detail}`), `not there yet\n${world.logs()}`);
    }, patienceMs);
    // In the first moments QEMU's own thread may wait for a page, and hears no order to resume: the guest would be lost.
    const arrived = await guest.shell(target);
    await eventually(async () => assert.match(await arrived.run('echo $((6 * 7))'), /42/), patienceMs);
    arrived.close();
    return moved;
  }

  async function arrives(guest: Guest, target: MigrationNode): Promise<void> {
    const { status } = await world.untilMigration(`of-${guest.name}`, 'Succeeded', 'Failed');
    assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
    assert.equal(world.nodeOf(await world.vmi(guest.name)), target);
    await remembers(guest, target);
  }

  /** Its memory is on its way: the launcher has told of the migration. */
  async function isUnderWay(source: MigrationNode, guest: Guest): Promise<void> {
    await eventually(async () => {
      const launcher = (await world.launchers(guest.uid)).get(source.name);
      assert.match(launcher?.log() ?? '', /migration under way/);
    }, patienceMs);
  }
});
