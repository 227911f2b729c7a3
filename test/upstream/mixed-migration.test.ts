import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { findCondition, labels, resources } from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { token } from '../fixtures/controller/cluster.ts';
import { eventually } from '../fixtures/eventually.ts';
import type { GuestShell } from '../fixtures/guest-shell.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { type Guest, MigrationCluster, patienceMs } from '../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../fixtures/migration-node.ts';
import { shells } from './upstream-agent.ts';
import { UpstreamAgentProgram, type UpstreamParts } from './upstream-agent-program.ts';

/** A cluster in the middle of an update: our agent on the first node, upstream's on the second. The tests are one story. */

interface Parts {
  readonly assets: string;
  readonly upstream: UpstreamParts;
}

/** What scripts/kubelet-machine.sh gives it. */
const machineAddress = '192.168.126.1';

/** So slow that something can happen meanwhile. */
const slowly = { bandwidthPerMigration: '16Mi' };

let world: MigrationCluster;
let guest: Guest;
let booted = '';
let migrations = 0;
/** It lacks the guest's kernel. */
const emptyImage = mkdtempSync(path.join(tmpdir(), 'image-'));

before(async () => {
  const parts: Parts = JSON.parse(process.env.KUBELET_PARTS ?? '{}');
  const server = await realServer(parts.assets);
  const { adminKubeconfig, handlerKubeconfig } = server;
  world = await MigrationCluster.start(
    {},
    {
      api: async () => ({
        access: await loadKubeAccess({ kubeconfig: adminKubeconfig }),
        stop: () => server.stop(),
      }),
      // Each end is looked at by itself, and the next migration asked for here.
      migrationRetries: 0,
      secondAgent: (name) => UpstreamAgentProgram.make(name, handlerKubeconfig, parts.upstream),
    },
  );
  guest = await world.guest('demo');
  const source = await place();
  const shell = await guest.shell(source);
  // On a busy machine: an emulated guest, and no test of how fast it boots.
  await shell.login(300_000);
  await shell.run('echo moved with me > /tmp/mark');
  booted = await startOf(shell);
  assert.match(booted, /^[\da-f-]{36}$/);
  shell.close();
});
after(async () => {
  await world?.dispose();
  rmdirSync(emptyImage);
});

/** With what upstream's agent waits for. */
async function realServer(assets: string): Promise<KubeApiserver> {
  const users = { [token]: { name: 'everything', groups: ['system:masters'] } };
  const server = await startKubeApiserver(assets, { users, flags: { 'advertise-address': machineAddress } });
  for (const shell of shells) server.kubectlStdin(JSON.stringify(shell), 'create', '-f', '-');
  return server;
}

const place = async (): Promise<MigrationNode> => world.nodeOf(await world.vmi('demo'));
/** A command that is typed while the guest still arrives may be shown twice. */
const startOf = async (shell: GuestShell) => {
  const shown = await shell.run('cat /proc/sys/kernel/random/boot_id');
  return /^[\da-f-]{36}$/m.exec(shown)?.[0] ?? shown;
};

const whose = ({ name }: MigrationNode) => (name === 'node1' ? 'ours' : 'upstream');

/** It runs there as it has run from the begin, and nothing of it is left on the other node. */
async function livesOn(node: MigrationNode): Promise<void> {
  await world.untilVmi('demo', `on ${node.name}`, ({ status }) => {
    return status?.nodeName === node.name && status.phase === 'Running';
  });
  const shell = await guest.shell(node);
  await eventually(async () => assert.match(await shell.run('cat /tmp/mark'), /moved with me/), patienceMs);
  assert.equal(await startOf(shell), booted);
  shell.close();
  const left = world.other(node);
  await eventually(async () => {
    assert.deepEqual([...(await world.launchers(guest.uid)).keys()], [node.name]);
    assert.deepEqual(
      world.nodes.flatMap(({ proxies }) => proxies),
      [],
    );
    const ghosts = path.join(left.program.privateDir, 'ghost-records');
    assert.deepEqual(existsSync(ghosts) ? readdirSync(ghosts) : [], []);
  }, patienceMs);
}

async function migrateable(): Promise<void> {
  await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
}

/** Its name. */
async function begun(): Promise<string> {
  await migrateable();
  const name = `move-${++migrations}`;
  await world.migrate('demo', name);
  return name;
}

async function moved(): Promise<void> {
  const source = await place();
  const name = await begun();
  const { status } = await world.untilMigration(name, 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Succeeded', `${JSON.stringify(status)}\n${world.logs()}`);
  await livesOn(world.other(source));
}

/** Under way, and so slow that it stays so for a while. */
async function inTheMiddle(): Promise<{ readonly name: string; readonly source: MigrationNode }> {
  await world.configure(slowly);
  const source = await place();
  const name = await begun();
  await world.untilMigration(name, 'Running', 'Failed');
  return { name, source };
}

test('a guest moves from agent to agent, twice there and back', async (t) => {
  for (let move = 0; move < 4; move++) {
    const from = whose(await place());
    const startMs = performance.now();
    await moved();
    t.diagnostic(`away from ${from}: ${Math.round(performance.now() - startMs)} ms`);
  }
});

/** Why our agent takes no guest, and how the cause comes and goes. `isEarly`: its launcher has no socket before the agent has said so. */
const refusals = [
  {
    cause: 'it was started without live migrations',
    words: /node node1: .*--live-migration=false/,
    isEarly: true,
    begin: () => world.nodes[0].restartAgent(['--live-migration=false']),
    end: () => world.nodes[0].restartAgent(),
  },
  {
    cause: 'the cluster wants streams without TLS',
    words: /node node1: .*disableTLS/,
    isEarly: false,
    begin: () => world.configure({ disableTLS: true }),
    end: () => world.configure({}),
  },
  {
    cause: 'its launcher cannot prepare for the guest',
    words: /node node1 could not prepare for the guest: .*vmlinuz/,
    isEarly: false,
    begin: async () => world.podChanges.set('node1', { kernelBootDir: emptyImage }),
    end: async () => world.podChanges.delete('node1'),
  },
] as const;

for (const { cause, words, isEarly, begin, end } of refusals)
  test(`our agent takes no guest of upstream’s since ${cause}: the target pod is told to go, and the next migration succeeds`, async (t) => {
    const [ours, theirs] = world.nodes;
    if ((await place()) === ours) await moved();
    await begin();
    if (isEarly) world.heldLaunchers.add(ours.name);
    const name = await begun();
    const startMs = performance.now();
    const { message } = await world.untilFailed(name);
    assert.match(message, words);
    const failedMs = performance.now();
    // Upstream's deletes no pod of a migration that has failed: nobody but our agent lets it end before its time is over.
    await world.cluster.stopController();
    world.heldLaunchers.clear();
    await livesOn(theirs);
    await world.untilVmi('demo', 'free of its target', ({ metadata }) => {
      return metadata.labels?.[labels.migrationTargetNodeName] === undefined;
    });
    const goneMs = performance.now();
    t.diagnostic(`failed after ${Math.round(failedMs - startMs)} ms, gone ${Math.round(goneMs - failedMs)} ms later`);
    await world.cluster.startController();
    await end();
    await moved();
  });

for (const turn of ['first', 'second'])
  test(`a migration is cancelled in the middle, the ${turn} direction: the guest stays, and the next one succeeds`, async () => {
    const { name, source } = await inTheMiddle();
    await world.cluster.client.delete(resources.migrations, { namespace: 'default', name });
    await livesOn(source);
    await world.configure({});
    await moved();
  });

for (const turn of ['first', 'second'])
  test(`our agent is killed in the middle, the ${turn} direction: its successor brings the migration to its end`, async () => {
    const { name, source } = await inTheMiddle();
    await world.nodes[0].restartAgent();
    const { status } = await world.untilMigration(name, 'Succeeded', 'Failed');
    assert.equal(status?.phase, 'Succeeded', `${JSON.stringify(status)}\n${world.logs()}`);
    await livesOn(world.other(source));
  });

for (const turn of ['first', 'second'])
  test(`upstream’s agent is killed in the middle, the ${turn} direction: the migration has its end, the guest lives, and the next one succeeds`, async (t) => {
    const { name, source } = await inTheMiddle();
    await world.nodes[1].restartAgent();
    const { status } = await world.untilMigration(name, 'Succeeded', 'Failed');
    t.diagnostic(`with ${whose(source)} as its source: ${status?.phase}`);
    await world.configure({});
    await livesOn(await place());
    if (status?.phase === 'Failed') await moved();
  });
