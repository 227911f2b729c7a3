import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, launcherPid, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const libvirtd = '/usr/sbin/libvirtd';

/** Each of these ends in a condition and an event on its VMI, and in nothing on the other VM of the node. */
describe('what fails under a VM says what to do', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let bystander: { readonly qemu: number | undefined; readonly transitions: unknown };

  before(async () => {
    node = await NodeProcess.create();
    // In mounts of its own: what the tests do to libvirtd is seen by the pods of this node alone.
    await node.start(['start'], 'the node is up', ['unshare', '--mount', '--propagation', 'slave']);
    await node.apply(demoVmi('faults-bystander'));
    await running('faults-bystander');
    bystander = { qemu: await node.qemuPid('faults-bystander'), transitions: await transitions() };
  });
  after(async () => {
    const found = { qemu: await node.qemuPid('faults-bystander'), transitions: await transitions() };
    const problem = problemOf(await node.vmi('faults-bystander'));
    await node.dispose();
    assert.deepEqual(found, bystander);
    assert.equal(problem, '', 'another VM was affected');
  });

  const running = (name: string) => node.vmiUntil(name, (vmi) => vmi?.status?.phase === 'Running');
  const transitions = async () => (await node.vmi('faults-bystander'))?.status?.phaseTransitionTimestamps;

  function problemOf(vmi: VirtualMachineInstance | undefined): string {
    const condition = findCondition(vmi?.status?.conditions, 'Synchronized');
    return condition?.status === 'False' ? `${condition.reason}: ${condition.message}` : '';
  }

  /** Waits for the condition, and for a warning about the same with the same words. */
  async function problem(name: string, says: RegExp): Promise<void> {
    const vmi = await node.vmiUntil(name, (found) => problemOf(found) !== '', 40_000);
    assert.match(problemOf(vmi), says);
    await eventually(async () => {
      const about = ['--field-selector', `involvedObject.name=${name},type=Warning`];
      assert.match(await node.kubectl('get', 'events', ...about, '-o', 'jsonpath={.items[*].message}'), says);
    });
  }

  /** Covers libvirtd for the pods that start from now on. The node's own root: it may be another than its mount namespace's. */
  async function withLibvirtd(file: string, work: () => Promise<void>): Promise<void> {
    const inNode = ['-t', String(node.pid), '--mount', '--root'];
    execFileSync('nsenter', [...inNode, 'mount', '--bind', file, libvirtd]);
    try {
      await work();
    } finally {
      execFileSync('nsenter', [...inNode, 'umount', libvirtd]);
    }
  }

  test('no libvirtd on the node: the VMI fails at once with what to install', async () => {
    await withLibvirtd('/dev/null', async () => {
      await node.apply(demoVmi('no-daemon'));
      await problem('no-daemon', /install libvirt-daemon-system/);
    });
    const failed = await node.vmi('no-daemon');
    assert.equal(failed?.status?.phase, 'Failed');
    assert.match(problemOf(failed), /neither virtqemud nor libvirtd is in .*: install libvirt-daemon-system/);
    await node.kubectl('delete', 'vmi', 'no-daemon');
  });

  test('a libvirtd that cannot start: the VMI fails with its last words', async () => {
    const broken = path.join(node.paths.stateDir, 'broken-libvirtd');
    writeFileSync(broken, '#!/bin/sh\necho "error while loading shared libraries: libvirt.so.0" >&2\nexit 127\n', {
      mode: 0o755,
    });
    await withLibvirtd(broken, async () => {
      await node.apply(demoVmi('broken-daemon'));
      await problem('broken-daemon', /libvirtd ended with code 127: error while loading shared libraries/);
    });
    await node.vmiUntil('broken-daemon', (found) => found?.status?.phase === 'Failed');
    await node.kubectl('delete', 'vmi', 'broken-daemon');
  });

  test('libvirtd killed for good before the start: told, and the VM runs when there is one again', async () => {
    const agent = await node.pidOf('virt-handler');
    process.kill(agent, 'SIGSTOP');
    let inPod: string[];
    try {
      await node.apply(demoVmi('killed-daemon'));
      await eventually(async () => assert.ok(existsSync(await readySocket('killed-daemon'))));
      const launcher = (await launcherPid((await node.vmi('killed-daemon'))?.metadata.uid ?? '')) ?? 0;
      // With the pod's /proc, which mount and umount look into.
      inPod = ['-t', String(launcher), '--mount', '--pid', '--root'];
      execFileSync('nsenter', [...inPod, 'mount', '--bind', '/dev/null', libvirtd]);
      process.kill(daemonOf(launcher), 'SIGKILL');
    } finally {
      process.kill(agent, 'SIGCONT');
    }
    await problem('killed-daemon', /libvirt/i);
    execFileSync('nsenter', [...inPod, 'umount', libvirtd]);
    const healed = await node.vmiUntil('killed-daemon', (found) => found?.status?.phase === 'Running', 60_000);
    assert.equal(problemOf(healed), '');
    await node.kubectl('delete', 'vmi', 'killed-daemon');
  });

  /** Path of the launcher's command socket. */
  async function readySocket(name: string): Promise<string> {
    const [pod = 'none'] = Object.keys((await node.vmi(name))?.status?.activePods ?? {});
    return path.join(node.paths.podsDir, pod, 'volumes/kubernetes.io~empty-dir/sockets/launcher-sock');
  }

  /** Pid of the libvirtd that is a child of a launcher. */
  function daemonOf(launcher: number): number {
    const children = readFileSync(`/proc/${launcher}/task/${launcher}/children`, 'utf8').trim().split(' ').map(Number);
    const found = children.find((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'libvirtd');
    return found ?? assert.fail(`launcher ${launcher} has no libvirtd`);
  }

  test('a launcher that is killed: the VMI fails, and condition and event name the way on', async () => {
    await node.apply(demoVmi('killed-launcher'));
    const vmi = await running('killed-launcher');
    process.kill((await launcherPid(vmi?.metadata.uid ?? '')) ?? 0, 'SIGKILL');
    await problem('killed-launcher', /the launcher of the guest ended.*kubectl logs.*create it again/);
    assert.equal((await node.vmi('killed-launcher'))?.status?.phase, 'Failed');
    await node.kubectl('delete', 'vmi', 'killed-launcher');
  });

  test('a cloud-init secret without the key that is read: the launcher names keys and secret', async () => {
    await node.kubectl('create', 'secret', 'generic', 'wrong-keys', '--from-literal=user-stuff=#!/bin/sh');
    const vmi = demoVmi('wrong-keys');
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'init', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'init', cloudInitNoCloud: { secretRef: { name: 'wrong-keys' } } }];
    await node.apply(vmi);
    await problem(
      'wrong-keys',
      /init\]\.cloudInitNoCloud\.secretRef: the secret has no key userdata or userData.*add one/,
    );
    await node.kubectl('delete', 'vmi', 'wrong-keys');
  });

  test('garbage on the serial console is the guest’s to read: VM and console go on', async () => {
    await running('faults-bystander');
    const serial = await node.serial('faults-bystander');
    await new Promise<void>((resolve) => serial.end(randomBytes(64 * 1024), () => resolve()));
    serial.destroy();
    const again = await node.serial('faults-bystander');
    // Ctrl-Q: among the random bytes may have been Ctrl-S, which a terminal obeys.
    const knock = setInterval(() => again.write('\x11\r'), 200);
    try {
      await once(again, 'data', { signal: AbortSignal.timeout(30_000) });
    } finally {
      clearInterval(knock);
      again.destroy();
    }
    assert.equal((await node.vmi('faults-bystander'))?.status?.phase, 'Running');
  });
});
