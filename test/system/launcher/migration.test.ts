import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { MigrationRelay } from '../../fixtures/migration-relay.ts';
import type { NotifyAgent, SeenEvent } from '../../fixtures/notify-agent.ts';

const ok = { success: true, message: '' };
const patienceMs = 60_000;

const volumes = [
  { name: 'root', containerDisk: { image: 'example/root' } },
  { name: 'scratch', emptyDisk: { capacity: '16Mi' } },
  { name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } },
];

/** All that only its node has: memory, a layer above an image, a disk of its own, a generated CD. */
const guest = guestVmi({
  devices: {
    disks: [
      { name: 'root', disk: { bus: 'virtio' } },
      { name: 'scratch', disk: { bus: 'virtio' } },
      { name: 'seed', cdrom: { bus: 'sata' } },
    ],
  } as never,
  more: { volumes: volumes as never },
});

const setting = '/proc/sys/vm/unprivileged_userfaultfd';
/** Where the kernel lets no ordinary user wait for pages, the target refuses it, and the guest migrates without it. */
const canPostCopy = !existsSync(setting) || Number(readFileSync(setting, 'utf8')) === 1;

/** Beside the fields that say how, as an agent sends them. */
const options = {
  Bandwidth: '0',
  ProgressTimeout: 150,
  CompletionTimeoutPerGiB: 150,
  MaxDowntimeMs: 250,
  UnsafeMigration: false,
  AllowAutoConverge: false,
  AllowPostCopy: true,
  ParallelMigrationThreads: 8,
  AllowWorkloadDisruption: false,
  StallDetectorOptions: null,
  Compression: null,
};

let bench: LauncherBench;
let home: Target;
let shell: GuestShell;

interface Target {
  readonly pod: LauncherSandbox;
  readonly cmd: CmdCaller;
  readonly agent: NotifyAgent;
}

function migrating(migrationUid: string): VirtualMachineInstance {
  return {
    ...guest,
    status: { phase: 'Running', migrationMethod: 'BlockMigration', migrationState: { migrationUid } },
  };
}

/** With the guest's image mounted, as on every node. */
async function podOf(): Promise<Target> {
  const pod = await bench.startPod({ kernelBootDir: guestDir });
  const image = path.join(pod.imageVolumeDir, 'disk_0', 'disk');
  mkdirSync(image, { recursive: true });
  writeFileSync(path.join(image, 'root.img'), Buffer.alloc(2 ** 20, 'of the image '));
  return { pod, agent: await bench.startAgent(pod), cmd: await bench.callerOf(pod) };
}

const migration = ({ domain }: SeenEvent) => domain.Spec.Metadata.KubeVirt.Migration;

/** What the home launcher says of this migration when it is over. */
async function endOf(uid: string) {
  const event = await home.agent.waitFor(
    (seen) => migration(seen)?.UID === uid && Boolean(migration(seen)?.EndTimestamp),
    patienceMs,
  );
  return migration(event);
}

async function migrate(uid: string, to: Target, how: Partial<typeof options> = {}): Promise<MigrationRelay> {
  const prepared = await to.cmd.call(to.cmd.client.syncMigrationTarget, vmiRequest(migrating(uid)), patienceMs);
  assert.deepEqual(prepared, ok, to.pod.log());
  const relay = await MigrationRelay.open(launcherVmiUid, home.pod, to.pod);
  const request = { ...vmiRequest(migrating(uid)), options: Buffer.from(JSON.stringify({ ...options, ...how })) };
  assert.deepEqual(await home.cmd.call(home.cmd.client.migrateVirtualMachine, request, patienceMs), ok, home.pod.log());
  return relay;
}

const beats = ({ shown }: GuestShell) => [...shown.matchAll(/beat-(\d+)\r?\n/gm)].map(([, count]) => Number(count));
const slowly = { Bandwidth: '1Mi', AllowPostCopy: false };
const untilDataMoves = (to: Target) => to.agent.waitFor(hasStatus('Paused', 'Migration'), patienceMs);

before(async () => {
  bench = await LauncherBench.create();
  home = await podOf();
  const { pod, cmd } = home;
  assert.deepEqual(await cmd.call(cmd.client.syncVirtualMachine, vmiRequest(guest), patienceMs), ok, pod.log());
  shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
  await shell.login();
});
after(() => bench?.dispose());

test('a migration that is cancelled leaves the guest where it runs, and says so', async () => {
  const to = await podOf();
  const relay = await migrate('cancelled', to, slowly);
  await untilDataMoves(to);
  const again = await home.cmd.call(home.cmd.client.pauseVirtualMachine, vmiRequest(guest));
  assert.match(again.message, /not while the guest is being migrated/);
  assert.deepEqual(
    await home.cmd.call(home.cmd.client.cancelVirtualMachineMigration, vmiRequest(migrating('cancelled'))),
    ok,
  );
  const end = await endOf('cancelled');
  assert.deepEqual(
    [end?.Failed, end?.AbortStatus, end?.FailureReason],
    [true, 'Succeeded', 'Live migration has been aborted'],
  );
  assert.match(await shell.run('echo still here'), /still here/);
  // The launcher that has waited for the guest reports that it is gone, and ends.
  assert.equal(await to.pod.exited, 0);
  relay.close();
});

test('a target that dies ends the migration, and the guest runs on', async () => {
  const to = await podOf();
  const relay = await migrate('bereft', to, slowly);
  await untilDataMoves(to);
  await to.pod.close();
  relay.close();
  const end = await endOf('bereft');
  assert.deepEqual([end?.Failed, end?.AbortStatus], [true, '']);
  assert.match(await shell.run('echo still here'), /still here/);
});

test('a guest moves with its memory, its disks and its heartbeat, and its launcher says that it has left', async () => {
  const to = await podOf();
  // With the sockets and the log of its serial console; libvirt makes no directory for a guest that arrives.
  rmSync(path.join(to.pod.privateDir, launcherVmiUid), { recursive: true });
  await shell.run(
    'for disk in vda vdb; do echo "written here" > /dev/$disk; done; sync; (i=0; while :; do i=$((i+1)); echo beat-$i; sleep 0.2; done) & true',
  );
  const relay = await migrate('moved', to);
  const end = await endOf('moved');
  assert.deepEqual([end?.Failed, end?.FailureReason, end?.AbortStatus], [false, '', ''], home.pod.log());
  await home.agent.waitFor(hasStatus('Shutoff', 'Migrated'), patienceMs);
  const arrived = await to.agent.waitFor((seen) => Boolean(migration(seen)?.EndTimestamp), patienceMs);
  assert.equal(arrived.domain.Status.Status, 'Running');
  const lastHere = beats(shell).at(-1) ?? 0;
  const there = new GuestShell(path.join(to.pod.privateDir, launcherVmiUid, 'virt-serial0'));
  await eventually(() => assert.ok(beats(there).length > 3), patienceMs);
  assert.ok(lastHere > 0 && (beats(there)[0] ?? 0) > lastHere);
  const disks = await there.run(
    'for disk in vda vdb; do echo 3 > /proc/sys/vm/drop_caches; head -c 26 /dev/$disk | tr -d "\\0"; echo; done',
  );
  assert.match(disks, /written here\n?\s*of the image[\s\S]*written here/);
  const adjusted = home.agent.k8sEvents.filter(({ reason }) => reason === 'MigrationAdjusted');
  const isRefused = /Postcopy is not supported/;
  assert.deepEqual(
    adjusted.map(({ message }) => isRefused.test(message)),
    canPostCopy ? [] : [true],
  );
  assert.deepEqual(await home.cmd.call(home.cmd.client.deleteVirtualMachine, vmiRequest(guest)), ok);
  assert.equal(await home.pod.exited, 0);
  assert.deepEqual(await to.cmd.sync(migrating('moved')), ok);
  there.close();
  shell.close();
  relay.close();
});
