import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { LibvirtClient } from '../../../src/libvirt/index.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

const vmi = guestVmi({
  devices: {
    disks: [
      { name: 'image', disk: { bus: 'virtio' } },
      { name: 'empty', disk: { bus: 'sata' } },
      { name: 'ci', disk: { bus: 'virtio' } },
    ],
    interfaces: [{ name: 'default', masquerade: {} }],
    rng: {},
  },
  more: {
    networks: [{ name: 'default', pod: {} }],
    volumes: [
      { name: 'image', containerDisk: { image: 'virt-node/disk' } },
      { name: 'empty', emptyDisk: { capacity: '8Mi' } },
      { name: 'ci', cloudInitNoCloud: { userData: '#cloud-config\n' } },
    ],
  },
});

/** Of the daemons of all pods. */
const machines: string[] = [];

for (const nonRoot of [false, true]) {
  describe(`a Linux guest under a ${nonRoot ? 'non-root' : 'root'} launcher`, () => {
    let bench: LauncherBench;
    let pod: LauncherSandbox;
    let agent: NotifyAgent;
    let cmd: CmdCaller;
    let serial = '';

    before(async () => {
      assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
      bench = await LauncherBench.create();
      pod = await bench.startPod({ nonRoot, kernelBootDir: guestDir });
      agent = await bench.startAgent(pod);
      const imageDir = path.join(pod.imageVolumeDir, 'disk_0/disk');
      mkdirSync(imageDir, { recursive: true });
      execFileSync('qemu-img', ['create', '-q', '-f', 'raw', path.join(imageDir, 'disk.img'), '4M']);
      cmd = await bench.callerOf(pod);
    });
    after(() => bench?.dispose());

    test('boots with all its disks to a login on the serial console', async () => {
      assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
      await agent.waitFor(hasStatus('Running'), 5000);
      const socket = net.connect(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
      socket.on('error', (error) => (serial += `\n${error.message}`));
      socket.setEncoding('latin1').on('data', (text) => (serial += text));
      await eventually(() => assert.match(serial, /login:/), 60_000);
      socket.destroy();
      const { domain } = await agent.waitFor(hasStatus('Running'), 1);
      const volumes = domain.Spec.Devices.Disks?.map(({ Alias }) => Alias?.Name).sort();
      assert.deepEqual(volumes, ['ci', 'empty', 'image']);
      assert.ok(domain.Spec.Devices.Interfaces?.[0]?.MAC?.MAC);
    });

    test('statistics carry the names of volumes and interfaces', async () => {
      const stats = JSON.parse((await cmd.call(cmd.client.getDomainStats, {})).domainStats);
      const aliases = stats.Block.map(({ Alias }: { Alias: string }) => Alias);
      assert.deepEqual(aliases.sort(), ['ci', 'empty', 'image']);
    });

    test('has a daemon at the socket that agents dial for migrations, on a machine of its own', async () => {
      const [pid] = pod.pids('/usr/sbin/libvirtd');
      const socketPath = `/proc/${pid}/root/run/libvirt/virtqemud-sock`;
      const client = await LibvirtClient.connect({ socketPath, uri: nonRoot ? 'qemu:///session' : 'qemu:///system' });
      const capabilities = await client.getCapabilities();
      await client.close();
      const machine = /<uuid>([^<]+)<\/uuid>/.exec(capabilities)?.[1] ?? '';
      const conf = readFileSync(`/proc/${pid}/root/run/libvirt/virt-launcher-daemon.conf`, 'utf8');
      assert.ok(conf.includes(`host_uuid = "${machine}"`), `${machine} is not in\n${conf}`);
      assert.ok(!machines.includes(machine));
      machines.push(machine);
    });

    test('powers off when it is asked to, and that is what the agent is told', async () => {
      assert.equal((await cmd.call(cmd.client.shutdownVirtualMachine, vmiRequest(vmi))).success, true);
      await agent.waitFor(hasStatus('Shutoff', 'Shutdown'), 30_000);
      await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi));
      await agent.waitFor(({ domain }) => domain.ObjectMeta.deletionTimestamp !== undefined, 5000);
      assert.equal(await pod.exited, 0, pod.log());
    });
  });
}
