import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drain } from '../../../src/agent/leaving.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { key, uid } from '../../fixtures/agent/builders.ts';
import { FakeProxies } from '../../fixtures/agent/fake-migration-proxies.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

const migration = { key, uid, migrationUid: 'm1', launcherPid: 1, roles: [0] } as const;

function bench(gracefulMs: number, leave: () => Promise<void> = async () => undefined) {
  const clock = new FakeClock();
  const migrationProxies = new FakeProxies();
  const calls: string[] = [];
  const heartbeat = {
    leave: async () => {
      calls.push(`mark, ${migrationProxies.unavailable === undefined ? 'migrations taken' : 'migrations refused'}`);
      await leave();
    },
  };
  let end: string | undefined;
  const begin = () =>
    void drain({ gracefulMs }, { heartbeat, migrationProxies, clock, log: silentLogger }).then(({ openMigrations }) => {
      end = `left with ${openMigrations}`;
    });
  return { clock, migrationProxies, calls, begin, end: () => end };
}

test('without a migration the agent leaves as soon as the node is marked', async () => {
  const { clock, migrationProxies, calls, begin, end } = bench(300_000);
  begin();
  await settle();
  assert.equal(end(), 'left with 0');
  assert.deepEqual(calls, ['mark, migrations refused']);
  assert.match(migrationProxies.unavailable ?? '', /leaving/);
  assert.equal(clock.timers, 0);
});

test('a running migration is waited for, and the agent leaves when it has ended', async () => {
  const { clock, migrationProxies, begin, end } = bench(300_000);
  await migrationProxies.openTarget(migration);
  begin();
  await clock.pass(60_000);
  assert.equal(end(), undefined);
  await migrationProxies.closeTarget(uid);
  await clock.pass(1_000);
  assert.equal(end(), 'left with 0');
  assert.equal(clock.timers, 0);
});

test('a migration that does not end is waited for as long as asked, and no longer', async () => {
  const { clock, migrationProxies, begin, end } = bench(300_000);
  await migrationProxies.openSource({ key, uid, migrationUid: 'm1', launcherPid: 1, address: '10.0.0.2', ports: {} });
  begin();
  await clock.pass(299_000);
  assert.equal(end(), undefined);
  await clock.pass(1_001);
  assert.equal(end(), 'left with 1');
});

test('with nothing to wait for allowed, an open migration keeps nobody', async () => {
  const { migrationProxies, begin, end } = bench(0);
  await migrationProxies.openTarget(migration);
  begin();
  await settle();
  assert.equal(end(), 'left with 1');
});

test('a node that cannot be marked keeps no agent, and its migrations are still waited for', async () => {
  const { clock, migrationProxies, begin, end } = bench(300_000, async () => {
    throw new Error('the API server is away');
  });
  await migrationProxies.openTarget(migration);
  begin();
  await clock.pass(5_000);
  assert.equal(end(), undefined);
  await migrationProxies.closeTarget(uid);
  await clock.pass(1_000);
  assert.equal(end(), 'left with 0');
});

test('streams that outlive the agent are not waited for, and no new ones are begun', async () => {
  const { clock, migrationProxies, begin, end } = bench(300_000);
  migrationProxies.outliveAgent = true;
  await migrationProxies.openTarget(migration);
  begin();
  await settle();
  assert.equal(end(), 'left with 1');
  assert.match(migrationProxies.unavailable ?? '', /leaving/);
  assert.equal(clock.timers, 0);
});
