import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { kubectlIsOlderThan } from '../../fixtures/kubectl.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('what happens inside', { skip: needsRoot }, () => {
  let node: NodeProcess;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    const often = { periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 2 };
    await node.apply(demoVmi('well', { readinessProbe: { guestAgentPing: {}, ...often, initialDelaySeconds: 300 } }));
    await node.apply(demoVmi('unwell', { livenessProbe: { guestAgentPing: {}, ...often } }));
    await node.vmiUntil('well', (vmi) => vmi?.status?.phase === 'Running');
  });
  after(() => node.dispose());

  async function podOf(name: string): Promise<string> {
    const uid = (await node.vmi(name))?.metadata.uid;
    const found = await node.kubectl('get', 'pods', '-l', `kubevirt.io/created-by=${uid}`, '-o', 'name');
    return found.replace('pod/', '');
  }

  test('kubectl exec runs in the launcher’s pod: libvirt shows the guest, virt-probe asks it', {
    skip: kubectlIsOlderThan(31),
  }, async () => {
    const exec = async (...words: string[]) =>
      node.kubectl('exec', await podOf('well'), '-c', 'compute', '--', ...words);
    assert.match(await exec('virsh', 'list'), /default_well\s+running/);
    await assert.rejects(exec('virsh', 'dominfo', 'default_nobody'), /failed to get domain/);
  });

  test('a VM runs and is not ready before its readiness probe has said so', async () => {
    const { conditions = [] } = (await node.vmi('well'))?.status ?? {};
    const ready = conditions.find(({ type }) => type === 'Ready');
    assert.deepEqual([ready?.status, ready?.reason], ['False', 'ContainersNotReady']);
  });

  test('a guest whose agent does not answer its liveness probe is shut down, and both are events', async () => {
    await node.vmiUntil('unwell', (vmi) => ['Succeeded', 'Failed'].includes(vmi?.status?.phase ?? ''), 90_000);
    const pod = await podOf('unwell');
    const events = () => node.kubectl('get', 'events', '--field-selector', `involvedObject.name=${pod}`);
    await eventually(async () => assert.match(await events(), /Unhealthy.*the guest agent does not answer/), 10_000);
    assert.match(await events(), /Killing.*Container compute failed liveness probe/);
  });
});
