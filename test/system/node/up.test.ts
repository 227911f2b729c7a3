import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sleep } from '../../../src/base/index.ts';
import { findLeftovers } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('virt-node up', { skip: needsRoot }, () => {
  let node: NodeProcess;

  before(async () => {
    node = await NodeProcess.create();
  });
  after(() => node.dispose());

  test('boots the example VM, says how to reach it; Ctrl-C shuts it down and keeps the object halted; start does not boot it, the next up does', async () => {
    await node.start(['up'], 'Ctrl-C shuts');
    assert.match(node.output, /VM demo: Running[\s\S]*the guest asks for a login/);
    assert.match(node.output, new RegExp(`export KUBECONFIG=${node.paths.kubeconfig}`));
    assert.ok(await node.qemuPid('demo'));
    assert.equal(await node.end('SIGINT'), 0, node.output);
    assert.match(node.output, /VM demo is halted/);
    assert.equal(await node.qemuPid('demo'), undefined);
    await node.start();
    const strategy = ['get', 'vm', 'demo', '-o', 'jsonpath={.spec.runStrategy} {.status.printableStatus}'];
    await eventually(async () => assert.equal(await node.kubectl(...strategy), 'Halted Stopped'));
    // The VM is stopped as soon as its guest is; the guest's object goes soon after.
    await eventually(async () => assert.equal(await node.vmi('demo'), undefined, '`start` boots no example'));
    assert.equal(await node.end('SIGTERM'), 0);
    await node.start(['up'], 'Ctrl-C shuts');
    assert.match(node.output, /VM demo: Running/);
    assert.equal((await node.cli(['stop'])).code, 0);
  });

  test('with --once it deletes the VM, finds nothing left and exits 0', async () => {
    await node.start(['up', '--once'], 'stopped');
    assert.match(node.output, /nothing is left behind/);
    assert.equal(await node.ended(), 0);
    assert.deepEqual(await findLeftovers(node.paths, new Set()), []);
  });

  test('a second Ctrl-C ends everything now, and the next up recovers from that', async () => {
    await node.start(['up'], 'Ctrl-C shuts');
    const forced = node.ended();
    process.kill(node.pid, 'SIGINT');
    await sleep(1_200);
    process.kill(node.pid, 'SIGINT');
    assert.equal(await forced, 130);
    await eventually(async () => assert.equal(await node.qemuPid('demo'), undefined));
    await node.start(['up', '--once'], 'stopped');
    assert.match(node.output, /the guest asks for a login[\s\S]*nothing is left behind/);
    assert.equal(await node.ended(), 0);
  });

  test('a failure is explained, with the ends of the logs, and the exit code is 1', async () => {
    await assert.rejects(node.start(['up', '--once', '--node-name', 'Not A Name'], 'stopped'), /ended with 1/);
    assert.match(node.output, /Not A Name/);
  });
});
