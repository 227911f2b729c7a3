import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findLeftBehind, identifyProcess, isAlive, untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, launcherPid, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const programs = ['virt-handler', 'virt-controller', 'apiserver'] as const;

describe('kill -9 on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(demoVmi('stays'));
    await running('stays');
  });
  after(() => node.dispose());

  async function running(name: string) {
    const vmi = await node.vmiUntil(name, (found) => found?.status?.phase === 'Running');
    assert.ok(vmi);
    return vmi;
  }

  async function login(name: string): Promise<void> {
    await running(name);
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
  }

  /** A VM can be made and deleted: API, controller, pod runner, agent and launcher all do their part. */
  async function everythingWorks(name: string): Promise<void> {
    await eventually(
      () => node.apply(demoVmi(name, { terminationGracePeriodSeconds: 2 })).then(() => undefined),
      20_000,
    );
    await running(name);
    await node.kubectl('delete', 'vmi', name);
    assert.equal(await node.qemuPid(name), undefined);
  }

  for (const order of [programs, [...programs].reverse()]) {
    test(`of ${order.join(', ')} leaves the VM running, and everything works afterwards`, async () => {
      const qemu = await node.qemuPid('stays');
      for (const program of order) process.kill(await node.pidOf(program), 'SIGKILL');
      await everythingWorks(`new-${order[0]}`);
      assert.equal(await node.qemuPid('stays'), qemu);
      assert.equal((await node.vmi('stays'))?.status?.phase, 'Running');
      await login('stays');
    });
  }

  test('of the supervisor with all its programs still there: a new start takes over', async () => {
    const qemu = await node.qemuPid('stays');
    const before = await Promise.all(programs.map(async (program) => identifyProcess(await node.pidOf(program))));
    await node.end('SIGKILL');
    await node.start();
    const alive = await Promise.all(before.map((identity) => identity && isAlive(identity)));
    assert.deepEqual(alive, [false, false, false]);
    await everythingWorks('new-supervisor');
    assert.equal(await node.qemuPid('stays'), qemu);
    await login('stays');
  });

  test('of a VM that ended while nobody was there: the next start reports it', async () => {
    await node.apply(demoVmi('gone-meanwhile'));
    const vmi = await running('gone-meanwhile');
    await node.end('SIGKILL');
    for (const program of programs) process.kill(await node.pidOf(program), 'SIGKILL');
    const pid = await launcherPid(vmi.metadata.uid ?? '');
    assert.ok(pid);
    process.kill(pid, 'SIGKILL');
    await eventually(async () => assert.equal(await node.qemuPid('gone-meanwhile'), undefined));
    await node.start();
    await node.vmiUntil('gone-meanwhile', (found) => found?.status?.phase === 'Failed');
    await node.kubectl('delete', 'vmi', 'gone-meanwhile');
  });

  test('of a launcher makes its VMI Failed and is cleaned up; the other VM goes on', async () => {
    const qemu = await node.qemuPid('stays');
    await node.apply(demoVmi('victim'));
    const vmi = await running('victim');
    const pid = await launcherPid(vmi.metadata.uid ?? '');
    assert.ok(pid);
    process.kill(pid, 'SIGKILL');
    await node.vmiUntil('victim', (found) => found?.status?.phase === 'Failed', 20_000);
    await eventually(async () => assert.equal(await node.qemuPid('victim'), undefined));
    await node.kubectl('delete', 'vmi', 'victim');
    assert.equal(await node.qemuPid('stays'), qemu);
    assert.equal((await node.vmi('stays'))?.status?.phase, 'Running');
  });

  test('not at all: SIGTERM to `start` leaves the VM to the next start; `stop` shuts it down first', async () => {
    const qemu = await node.qemuPid('stays');
    assert.equal(await node.end('SIGTERM'), 0);
    assert.equal(await node.qemuPid('stays'), qemu);
    await node.start();
    assert.equal((await running('stays')).status?.phase, 'Running');
    const stopped = await node.cli(['stop']);
    assert.equal(stopped.code, 0, stopped.stderr);
    assert.equal(await node.qemuPid('stays'), undefined);
    await node.start();
    await node.vmiUntil('stays', (vmi) => vmi?.status?.phase === 'Succeeded');
  });

  test('of the supervisor, and of all programs: `stop --keep-vms` ends what is left but VMs, `stop` ends those, and nobody else is hit', async () => {
    const left = async () => {
      const { programs: living, pods, ofMachine } = await findLeftBehind(node.paths);
      return [...living, ...ofMachine, ...(pods > 0 ? ['pods'] : [])];
    };
    await node.apply(demoVmi('left', { terminationGracePeriodSeconds: 60 }));
    await login('left');
    const qemu = await node.qemuPid('left');
    const before = await left();
    await node.end('SIGKILL');
    const kept = await node.cli(['stop', '--keep-vms']);
    assert.deepEqual([kept.code, kept.stderr], [0, '']);
    assert.match(kept.stdout, /virt-node does not run; ending what it left: apiserver, virt-controller, virt-handler/);
    assert.equal(await node.qemuPid('left'), qemu);
    assert.deepEqual(
      await left(),
      before.filter((name) => !name.startsWith('virt-') && name !== 'apiserver'),
    );
    // A process that has got the pid of one that was killed.
    const stranger = spawn('sleep', ['1000'], { stdio: 'ignore' });
    await node.start();
    const killed = [node.pid, ...(await Promise.all(programs.map((name) => node.pidOf(name))))];
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    await node.end('SIGKILL');
    const record = path.join(node.paths.runDir, 'virt-handler.pid');
    const [, ...rest] = (await readFile(record, 'utf8')).split(' ');
    await writeFile(record, [stranger.pid, ...rest].join(' '));
    const startedMs = performance.now();
    const ended = await node.cli(['stop']);
    assert.ok(
      performance.now() - startedMs < 45_000,
      'its guest is shut down, not killed when its grace period is over',
    );
    assert.deepEqual([ended.code, ended.stderr], [0, '']);
    assert.match(ended.stdout, /ending what it left: .*virtual machine[\s\S]*\nended\n$/);
    assert.deepEqual(await left(), []);
    assert.equal(await node.qemuPid('left'), undefined);
    assert.deepEqual([stranger.exitCode, stranger.signalCode], [null, null]);
    stranger.kill('SIGKILL');
    const again = await node.cli(['stop']);
    assert.deepEqual([again.code, again.stdout], [3, '']);
    assert.match(again.stderr, /no node runs on/);
  });
});
