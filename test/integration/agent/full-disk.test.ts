import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { AgentProgram } from '../../fixtures/agent-process.ts';
import { controllerToken, type EmbeddedApi, startEmbeddedApi, userToken } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type LauncherProgram, launcherProgram } from '../../fixtures/launcher-process.ts';
import { scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'a file system of its own needs root';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const handler = { token: userToken, user: 'system:serviceaccount:kubevirt:kubevirt-handler' };
const controller = { token: controllerToken, user: 'system:serviceaccount:kubevirt:kubevirt-controller' };

describe('the program virt-handler on a full disk', { skip: needsRoot }, () => {
  const program = new AgentProgram();
  const ballast = path.join(program.privateDir, 'ballast');
  let api: EmbeddedApi;
  let launchers: LauncherProgram;

  before(async () => {
    [api, launchers] = await Promise.all([
      startEmbeddedApi({ tokens: [handler, controller] }),
      launcherProgram(),
      program.build(),
    ]);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', program.privateDir]);
    await api.client.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    program.start(api.kubeconfig);
  });
  after(async () => {
    // The agent first: it works on the file system.
    await program.stopAll();
    execFileSync('umount', [program.privateDir]);
    await program.dispose();
    await launchers.dispose();
    await api.stop();
  });

  const read = async (name: string): Promise<VirtualMachineInstance> => (await api.client.get(`${vmis}/${name}`)).body;
  const problemOf = async (name: string) => findCondition((await read(name)).status?.conditions, 'Synchronized');

  /** A VMI whose launcher shows a running guest as soon as it is asked. */
  async function boot(name: string): Promise<void> {
    const launcher = await launchers.start(socketFileOf(program.podsDir, `pod-${name}`), { ownRun: true });
    const { status, body } = await api.controller.post(vmis, {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name, labels: { 'kubevirt.io/nodeName': 'node1' } },
      spec: { domain: { memory: { guest: '64Mi' }, devices: {} } },
      status: { phase: 'Scheduled', nodeName: 'node1', activePods: { [`pod-${name}`]: 'node1' } },
    });
    assert.equal(status, 201);
    const domain = scriptedDomain(`default/${name}`, body.metadata.uid, 'Running');
    await launcher.setDomain(domain);
    await eventually(async () => {
      await launcher.sendEvent('/run/kubevirt/domain-notify-pipe.sock', 'MODIFIED', domain);
      assert.equal((await read(name)).status?.phase, 'Running');
    });
  }

  async function warnings(name: string): Promise<string[]> {
    const { body } = await api.client.get('/api/v1/namespaces/default/events');
    const events: { involvedObject: { name: string }; type: string; reason: string; message: string }[] = body.items;
    return events
      .filter(
        ({ type, reason, involvedObject }) =>
          type === 'Warning' && reason === 'SyncFailed' && involvedObject.name === name,
      )
      .map(({ message }) => message);
  }

  test('a VMI whose record cannot be saved runs, and a condition and an event say what to free; both end with the cause', async () => {
    await boot('before');
    assert.throws(() => writeFileSync(ballast, Buffer.alloc(2 ** 20)), { code: 'ENOSPC' });
    await boot('full');
    const advice = /free some space in .*ghost-records/;
    await eventually(async () => {
      const condition = await problemOf('full');
      assert.equal(condition?.status, 'False');
      assert.match(condition?.message ?? '', advice);
    });
    await eventually(async () => assert.match((await warnings('full')).join(), advice));
    assert.equal((await read('full')).status?.phase, 'Running');
    assert.equal(await problemOf('before'), undefined, 'the other VM has its record');
    assert.deepEqual(await warnings('before'), []);
    rmSync(ballast);
    await eventually(async () => assert.equal(await problemOf('full'), undefined), 40_000);
    assert.equal((await read('full')).status?.phase, 'Running');
  });
});
