import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { containerDisks } from '../../../src/agent/vmi/host/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { KernelMounts, recordDirectory } from '../../../src/host/index.ts';
import { hookContext } from '../../fixtures/agent/host-hooks.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { DiskPod } from '../../fixtures/disk-pod.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherArgs, launcherVmiUid as uid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

describe('a Linux guest whose disk, kernel and initrd come by side containers', () => {
  let bench: LauncherBench;
  let machine: DiskPod;
  let mounts: KernelMounts;
  let pod: LauncherSandbox;
  let agent: NotifyAgent;
  let cmd: CmdCaller;
  let serial = '';

  before(async () => {
    assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
    machine = await DiskPod.start(uid);
    mounts = new KernelMounts({ pid: machine.machine.pid });
    const disk = machine.makeImage('disk-image', {});
    mkdirSync(path.join(disk, 'disk'));
    execFileSync('qemu-img', ['create', '-q', '-f', 'raw', path.join(disk, 'disk/disk.img'), '4M']);
    const kernel = machine.makeImage('kernel-image', {});
    for (const name of ['vmlinuz', 'initramfs.gz']) cpSync(path.join(guestDir, name), path.join(kernel, name));
    await machine.startSidecar(disk, 'disk_0.sock');
    await machine.startSidecar(kernel, 'kernel-boot.sock');
    bench = await LauncherBench.create();
    pod = await bench.startPod({
      nonRoot: true,
      args: launcherArgs.filter((arg) => arg !== '--image-volume'),
      containerDisks: { machinePid: machine.machine.pid, directory: machine.disksDir },
    });
    agent = await bench.startAgent(pod);
    cmd = await bench.callerOf(pod);
  });
  after(async () => {
    await bench?.dispose();
    await mounts?.stop();
    await machine?.stop();
  });

  const vmi = () => {
    const wanted = guestVmi({
      devices: { disks: [{ name: 'image', disk: { bus: 'virtio' } }], rng: {} },
      more: { volumes: [{ name: 'image', containerDisk: { image: 'disk' } }] },
    });
    wanted.status = { ...wanted.status, activePods: { [machine.podUid]: 'node' } };
    return wanted;
  };
  const hook = () =>
    containerDisks(
      { podsDir: machine.podsDir, machinePodsDir: machine.podsDir, nodeName: 'node' },
      {
        mounts,
        records: recordDirectory(path.join(machine.dir, 'container-disk-mount-state')),
        monotonicMs: () => performance.now(),
        log: silentLogger,
      },
    );

  test('boots to a login on the serial console', async () => {
    const [launcherPid = 0] = pod.pids('virt-launcher');
    const context = { ...hookContext(vmi(), launcherPid, { imageVolume: false }), uid };
    const disks = hook();
    // Side containers may not be up yet.
    await eventually(async () => {
      const prepared = await disks.prepare(context as never);
      const mounted = ['volume image', 'the kernel', 'the initrd'];
      assert.deepEqual(prepared.kind === 'done' ? prepared.facts : prepared, { mounted });
    }, 30_000);
    assert.deepEqual(await cmd.sync(vmi()), { success: true, message: '' }, pod.log());
    await agent.waitFor(hasStatus('Running'), 5000);
    const socket = net.connect(path.join(pod.privateDir, uid, 'virt-serial0'));
    socket.on('error', (error) => (serial += `\n${error.message}`));
    socket.setEncoding('latin1').on('data', (text) => (serial += text));
    await eventually(() => assert.match(serial, /login:/), 60_000);
    socket.destroy();
  });

  test('what is mounted goes when the guest has ended, by the record alone', async () => {
    assert.equal((await cmd.call(cmd.client.shutdownVirtualMachine, vmiRequest(vmi()))).success, true);
    await agent.waitFor(hasStatus('Shutoff', 'Shutdown'), 30_000);
    assert.equal(machine.mounted().length, 3);
    const { signal } = new AbortController();
    await hook().release?.({ uid, stage: undefined, state: undefined, signal });
    assert.deepEqual([machine.mounted(), machine.names], [[], []]);
  });
});
