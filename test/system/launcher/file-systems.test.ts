import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { virtiofsSockets } from '../../../src/agent/vmi/host/index.ts';
import { hookContext } from '../../fixtures/agent/host-hooks.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { kernelArgs } from '../../fixtures/guest-kernel.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

const guestDir = '.cache/guest';
/** Of Debian's qemu-system-common; its options are others than those of the side containers' program. */
const daemon = '/usr/lib/qemu/virtiofsd';
const missing = existsSync(daemon) ? false : `${daemon} is not installed`;

const vmi = launcherVmi({
  spec: {
    domain: {
      resources: { requests: { memory: '192Mi' } },
      features: { acpi: { enabled: true } },
      firmware: {
        uuid: '0b0a2f6f-4b3a-4b0e-9a57-2c1d3e4f5a6d',
        kernelBoot: {
          container: { image: 'virt-node/guest', kernelPath: '/vmlinuz', initrdPath: '/initramfs.gz' },
          kernelArgs,
        },
      },
      devices: { disks: [], filesystems: [{ name: 'share', virtiofs: {} }], rng: {} },
    },
    volumes: [{ name: 'share', configMap: { name: 'conf' } }],
  },
});

describe('a Linux guest with a file system of its pod', { skip: missing }, () => {
  let bench: LauncherBench;
  let pod: LauncherSandbox;
  let agent: NotifyAgent;
  let cmd: CmdCaller;
  let shared: string;
  let serving: ChildProcess | undefined;

  before(async () => {
    assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
    shared = mkdtempSync(path.join(tmpdir(), 'shared-'));
    writeFileSync(path.join(shared, 'from-the-pod'), 'hello guest\n');
    bench = await LauncherBench.create();
    pod = await bench.startPod({ nonRoot: true, kernelBootDir: guestDir });
    agent = await bench.startAgent(pod);
    cmd = await bench.callerOf(pod);
    mkdirSync(path.join(pod.shareDir, 'virtiofs-containers'));
  });
  after(async () => {
    if (serving && serving.exitCode === null) {
      serving.kill('SIGKILL');
      await once(serving, 'exit');
    }
    await bench?.dispose();
    rmSync(shared, { recursive: true, force: true });
  });

  const prepare = () => {
    const [launcherPid = 0] = pod.pids('virt-launcher');
    return virtiofsSockets().prepare(hookContext(vmi, launcherPid));
  };

  test('the agent waits for the socket, and gives it to QEMU', async () => {
    assert.equal((await prepare()).kind, 'wait');
    const socket = path.join(pod.shareDir, 'virtiofs-containers/share.sock');
    serving = spawn(daemon, [`--socket-path=${socket}`, '-o', `source=${shared}`, '-o', 'sandbox=chroot'], {
      stdio: 'ignore',
    });
    await eventually(async () => assert.equal((await prepare()).kind, 'done'));
  });

  test('the guest reads what the pod has, and the pod what the guest writes', async () => {
    assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
    await agent.waitFor(hasStatus('Running'), 10_000);
    const shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
    try {
      await shell.login();
      assert.match(await shell.run('mount -t virtiofs share /mnt && cat /mnt/from-the-pod'), /hello guest/);
      await shell.run('echo hello pod > /mnt/from-the-guest; sync');
    } finally {
      shell.close();
    }
    assert.equal(readFileSync(path.join(shared, 'from-the-guest'), 'utf8'), 'hello pod\n');
  });

  test('it ends as others do', async () => {
    assert.equal((await cmd.call(cmd.client.shutdownVirtualMachine, vmiRequest(vmi))).success, true);
    await agent.waitFor(hasStatus('Shutoff', 'Shutdown'), 30_000);
  });
});
