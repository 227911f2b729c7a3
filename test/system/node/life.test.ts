import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { sleep } from '../../../src/base/index.ts';
import { findLeftovers, podNamespaceOf, untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('a VM on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
  });
  after(() => node.dispose());

  async function login(name: string): Promise<void> {
    await node.vmiUntil(name, (found) => found?.status?.phase === 'Running');
    await untilLogin(await node.serial(name), AbortSignal.timeout(60_000));
  }

  test('kubectl get vmi -w shows Pending, Scheduling, Scheduled, Running within 10 s, and the guest asks for a login', async () => {
    const watch = spawn('kubectl', ['get', 'vmi', '-w', '--no-headers'], {
      env: { ...process.env, KUBECONFIG: node.paths.kubeconfig },
    });
    const phases = new Set<string>();
    // Whole lines: kubectl writes some of them in two pieces.
    createInterface(watch.stdout).on('line', (line) => phases.add(line.split(/\s+/)[2] ?? ''));
    const startMs = performance.now();
    await node.apply(demoVmi('life'));
    await node.vmiUntil('life', (vmi) => vmi?.status?.phase === 'Running', 10_000);
    const tookMs = performance.now() - startMs;
    await login('life');
    watch.kill();
    assert.deepEqual([...phases], ['Pending', 'Scheduling', 'Scheduled', 'Running']);
    assert.ok(tookMs < 10_000, `Running after ${tookMs} ms`);
  });

  test('a Running VMI is Ready, and so is its pod', async () => {
    const vmi = await node.vmiUntil(
      'life',
      (found) => findCondition(found?.status?.conditions, 'Ready')?.status === 'True',
    );
    assert.equal(vmi?.status?.nodeName, (await node.kubectl('get', 'nodes', '-o', 'name')).replace('node/', ''));
    const pods = await node.kubectl('get', 'pods', '-l', 'kubevirt.io=virt-launcher', '--no-headers');
    assert.match(pods, /^virt-launcher-life-\S+\s+1\/1\s+Running/);
    assert.match(await node.kubectl('logs', pods.split(/\s+/)[0] ?? ''), /"msg":"domain started"/);
  });

  test('the agent did all that with the rights of a stock cluster: nothing was forbidden', async () => {
    for (const program of ['virt-handler', 'virt-controller', 'virt-node']) {
      const log = await readFile(path.join(node.paths.logDir, `${program}.log`), 'utf8');
      assert.doesNotMatch(log, /is forbidden: User/, program);
    }
    const asHandler = ['--as', 'system:serviceaccount:kubevirt:kubevirt-handler'];
    await assert.rejects(node.kubectl('get', 'vmi', 'life', ...asHandler), /cannot get resource/);
    assert.equal(await node.kubectl('auth', 'can-i', 'update', 'vmi', ...asHandler), 'yes');
  });

  test('virt-node console answers piped input and ends when the guest is silent', async () => {
    const { code, stdout, stderr } = await node.cli(['console', 'life'], 'root\n');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /root/);
    const uname = await node.cli(['console', 'life'], '\nuname -s; hostname\n');
    assert.match(uname.stdout, /Linux/);
    const left = await node.cli(['console', 'life'], 'echo before\n\x1decho after\n');
    assert.doesNotMatch(left.stdout, /after/);
  });

  test('virt-node console says why there is none', async () => {
    const missing = await node.cli(['console', 'nobody']);
    assert.equal(missing.code, 4);
    assert.match(missing.stderr, /there is no VM nobody in namespace default/);
    const elsewhere = await node.cli(['console', 'life', '-n', 'other']);
    assert.match(elsewhere.stderr, /there is no VM life in namespace other, but in default: -n default/);
  });

  test('virt-node status tells what runs; a second node on the directory is refused', async () => {
    const status = await node.cli(['status']);
    assert.equal(status.code, 0);
    assert.match(status.stdout, /virt-handler +running/);
    assert.match(status.stdout, /default\/life Running/);
    const second = await node.cli(['start']);
    assert.equal(second.code, 6);
    assert.match(second.stderr, /a node runs already/);
  });

  test('kubectl delete ends it by the power button within grace and 5 s, and nothing is left', async () => {
    const pid = await node.qemuPid('life');
    assert.ok(pid);
    const namespace = await podNamespaceOf(pid);
    const startMs = performance.now();
    await node.kubectl('delete', 'vmi', 'life');
    assert.ok(performance.now() - startMs < 15_000, `took ${performance.now() - startMs} ms`);
    await eventually(async () => {
      assert.deepEqual(await findLeftovers(node.paths, new Set(namespace ? [namespace] : [])), []);
    });
    assert.equal(await node.qemuPid('life'), undefined);
  });

  test('what is deleted while it starts is gone at once, whatever its grace period is', async () => {
    const took: string[] = [];
    for (const afterMs of [0, 100, 200, 300, 400, 500, 700]) {
      const name = `soon-${afterMs}`;
      await node.apply(demoVmi(name, { terminationGracePeriodSeconds: 60 }));
      await sleep(afterMs);
      const startedMs = performance.now();
      await node.kubectl('delete', 'vmi', name);
      took.push(`${afterMs}: ${Math.round(performance.now() - startedMs)}`);
    }
    assert.ok(
      took.every((line) => Number(line.split(': ')[1]) < 10_000),
      took.join(', '),
    );
  });

  test('a guest that powers itself off is Succeeded', async () => {
    await node.apply(demoVmi('poweroff'));
    await login('poweroff');
    await node.cli(['console', 'poweroff'], 'root\n');
    await node.cli(['console', 'poweroff'], '\npoweroff\n');
    await node.vmiUntil('poweroff', (vmi) => vmi?.status?.phase === 'Succeeded', 15_000);
    await node.kubectl('delete', 'vmi', 'poweroff');
  });

  test('a guest that does not listen to its power button is killed when its grace period is over', async () => {
    // Nothing to boot from: firmware without an operating system.
    const deaf = demoVmi('deaf', { terminationGracePeriodSeconds: 2 });
    deaf.spec.domain.firmware = {};
    deaf.spec.domain.devices = { ...deaf.spec.domain.devices, disks: [{ name: 'empty', disk: { bus: 'virtio' } }] };
    deaf.spec.volumes = [{ name: 'empty', emptyDisk: { capacity: '16Mi' } }];
    await node.apply(deaf);
    await node.vmiUntil('deaf', (vmi) => vmi?.status?.phase === 'Running', 10_000);
    const startMs = performance.now();
    await node.kubectl('delete', 'vmi', 'deaf');
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs > 1_500 && tookMs < 7_000, `took ${tookMs} ms`);
    assert.equal(await node.qemuPid('deaf'), undefined);
  });
});
