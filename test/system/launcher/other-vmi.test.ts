import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { MigrationRelay } from '../../fixtures/migration-relay.ts';

const ok = { success: true, message: '' };
const patienceMs = 60_000;
const mebibyte = 2 ** 20;
const there = { namespace: 'there', name: 'copy', uid: '0c7ad33b-0f1f-4c34-9a2e-2b3b5d9a8f10' };

const guest = guestVmi({
  devices: {
    disks: [
      { name: 'claim', disk: { bus: 'virtio' } },
      { name: 'scratch', disk: { bus: 'virtio' } },
      { name: 'seed', cdrom: { bus: 'sata' } },
    ],
  } as never,
  more: {
    volumes: [
      { name: 'claim', persistentVolumeClaim: { claimName: 'data' } },
      { name: 'scratch', emptyDisk: { capacity: '16Mi' } },
      { name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } },
    ] as never,
  },
});

const options = {
  Bandwidth: '0',
  ProgressTimeout: 150,
  CompletionTimeoutPerGiB: 150,
  MaxDowntimeMs: 250,
  UnsafeMigration: false,
  AllowAutoConverge: false,
  AllowPostCopy: false,
  ParallelMigrationThreads: null,
  AllowWorkloadDisruption: false,
  StallDetectorOptions: null,
  Compression: null,
};

/** As upstream's controllers write it on each side. */
const claims = [
  { volumeName: 'claim', sourcePVCInfo: { claimName: 'data' }, destinationPVCInfo: { claimName: 'data' } },
];
const ends = {
  sourceState: { migrationUID: 'sent', virtualMachineInstanceUID: launcherVmiUid },
  targetState: {
    migrationUID: 'received',
    virtualMachineInstanceUID: there.uid,
    domainNamespace: there.namespace,
    domainName: there.name,
  },
};

function side(vmi: VirtualMachineInstance, migrationUid: string): VirtualMachineInstance {
  const status = { migrationMethod: 'BlockMigration', migrationTransport: 'Unix', migratedVolumes: claims } as const;
  return { ...vmi, status: { phase: 'Running', ...status, migrationState: { migrationUid, ...ends } } };
}

let bench: LauncherBench;
before(async () => {
  bench = await LauncherBench.create();
});
after(() => bench?.dispose());

async function podOf(claimBytes: number, args?: readonly string[]) {
  const pod = await bench.startPod({ kernelBootDir: guestDir, ...(args && { args }) });
  const claim = path.join(pod.privateDir, 'vmi-disks', 'claim');
  mkdirSync(claim, { recursive: true });
  writeFileSync(path.join(claim, 'disk.img'), Buffer.alloc(claimBytes));
  return { pod, claim, agent: await bench.startAgent(pod), cmd: await bench.callerOf(pod) };
}

const sectors = async (shell: GuestShell) => /^\d+$/m.exec(await shell.run('cat /sys/block/vda/size'))?.[0];

test('a guest moves to another VMI with its memory, and with its claim, whose place there is larger', async () => {
  const home = await podOf(16 * mebibyte);
  assert.deepEqual(await home.cmd.sync(guest), ok, home.pod.log());
  const shell = new GuestShell(path.join(home.pod.privateDir, launcherVmiUid, 'virt-serial0'));
  await shell.login();
  await shell.run('echo moved with me > /tmp/mark; echo "written here" > /dev/vda; sync');
  assert.equal(await sectors(shell), String((16 * mebibyte) / 512));
  const identity = ['--name=copy', '--namespace=there', `--uid=${there.uid}`];
  const target = await podOf(24 * mebibyte, [
    ...identity,
    ...['--qemu-timeout=60s', '--grace-period-seconds=4', '--allow-emulation', '--image-volume'],
  ]);
  const waiting = side({ ...guest, metadata: there }, 'received');
  const prepared = await target.cmd.call(target.cmd.client.syncMigrationTarget, vmiRequest(waiting), patienceMs);
  assert.deepEqual(prepared, ok, target.pod.log());
  // By the name of the VMI that the guest leaves, as the agents' proxies have it.
  const relay = await MigrationRelay.open(launcherVmiUid, home.pod, target.pod);
  const request = { ...vmiRequest(side(guest, 'sent')), options: Buffer.from(JSON.stringify(options)) };
  assert.deepEqual(await home.cmd.call(home.cmd.client.migrateVirtualMachine, request, patienceMs), ok);
  const left = await home.agent.waitFor(
    ({ domain }) => Boolean(domain.Spec.Metadata.KubeVirt.Migration?.EndTimestamp),
    patienceMs,
  );
  assert.equal(left.domain.Spec.Metadata.KubeVirt.Migration?.FailureReason, '', home.pod.log());
  const arrived = await target.agent.waitFor(
    ({ domain }) => Boolean(domain.Spec.Metadata.KubeVirt.Migration?.EndTimestamp),
    patienceMs,
  );
  const { Spec, ObjectMeta, Status } = arrived.domain;
  assert.deepEqual([ObjectMeta.namespace, ObjectMeta.name, Status.Status], ['there', 'copy', 'Running']);
  assert.deepEqual([Spec.Metadata.KubeVirt.UID, Spec.Metadata.KubeVirt.Migration?.UID], [there.uid, 'sent']);
  const moved = new GuestShell(path.join(target.pod.privateDir, there.uid, 'virt-serial0'));
  await eventually(async () => assert.match(await moved.run('cat /tmp/mark'), /moved with me/), patienceMs);
  const disk = await moved.run('echo 3 > /proc/sys/vm/drop_caches; head -c 12 /dev/vda');
  assert.match(disk, /written here/);
  assert.equal(await sectors(moved), String((16 * mebibyte) / 512));
  assert.equal(statSync(path.join(target.claim, 'disk.img')).size, 24 * mebibyte);
  relay.close();
  moved.close();
  shell.close();
});
