import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type RunStrategy,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { restartVm, startVm, stopVm } from '../../../src/standalone/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { eventually } from '../../fixtures/eventually.ts';

const signal = new AbortController().signal;

describe('a VM whose guest has ended', () => {
  let cluster: Cluster;
  before(async () => {
    cluster = new Cluster(await embeddedApi());
    await cluster.addNode();
    await cluster.startController();
  });
  after(() => cluster.stop());

  test('there must be one: nothing is said of an instance that is not there', async () => {
    for (const act of [startVm, restartVm, stopVm]) {
      await assert.rejects(act(cluster.client, refOf('nobody'), signal), {
        code: 'NOT_FOUND',
        message: 'there is no VirtualMachine default/nobody',
      });
    }
  });

  const vmOf = (name: string) => cluster.client.get<VirtualMachine>(resources.virtualMachines, refOf(name));
  const refOf = (name: string) => ({ namespace: 'default', name });

  /** Plays kubelet and agent: it is handed over to its node. */
  async function scheduled(name: string, runStrategy: RunStrategy) {
    const template = { spec: { domain: { memory: { guest: '64Mi' } } } };
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: refOf(name) };
    await cluster.client.create<VirtualMachine>(resources.virtualMachines, {
      ...head,
      spec: { runStrategy, template },
    });
    if (runStrategy === 'Manual') await startVm(cluster.client, refOf(name), signal);
    const vmi = await cluster.untilVmi(name, 'there', () => true);
    const pod = await cluster.untilPod(vmi.metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined);
    await cluster.runPod(pod);
    await cluster.untilPhase(name, 'Scheduled');
    await eventually(async () => assert.equal((await vmOf(name)).status?.stateChangeRequests, undefined));
    return vmi;
  }

  /** It runs, and then its guest ends. */
  async function end(name: string, vmi: VirtualMachineInstance, phase: 'Succeeded' | 'Failed') {
    // Never without the time of Running: it would be a start that failed.
    const stamps = (['Running', phase] as const).map((each) => ({
      phase: each,
      phaseTransitionTimestamp: '2026-01-01T00:00:00Z',
    }));
    for (const [at, { phase: next }] of stamps.entries()) {
      const status = { phase: next, phaseTransitionTimestamps: stamps.slice(0, at + 1) };
      await cluster.client.patch(resources.virtualMachineInstances, refOf(name), { status }, 'merge');
    }
    for (const { metadata } of await cluster.pods(vmi.metadata.uid ?? ''))
      await cluster.client.delete(resources.pods, metadata, { graceSeconds: 0 });
  }

  /** Gives the instance that has ended. */
  async function ended(name: string, runStrategy: RunStrategy, phase: 'Succeeded' | 'Failed') {
    const vmi = await scheduled(name, runStrategy);
    await end(name, vmi, phase);
    return vmi;
  }

  const untilAnother = (name: string, { metadata }: VirtualMachineInstance) =>
    cluster.untilVmi(name, 'another one', (vmi) => vmi.metadata.uid !== metadata.uid);

  for (const [runStrategy, phase] of [
    ['Manual', 'Succeeded'],
    ['Manual', 'Failed'],
    ['RerunOnFailure', 'Succeeded'],
  ] as const) {
    test(`${runStrategy}, ${phase}: a start takes away what is left and starts another one`, async () => {
      const name = `${runStrategy}-${phase}`.toLowerCase();
      const old = await ended(name, runStrategy, phase);
      await startVm(cluster.client, refOf(name), signal);
      const vmi = await untilAnother(name, old);
      assert.equal(vmi.spec.startStrategy, undefined);
      await eventually(async () => assert.equal((await vmOf(name)).status?.stateChangeRequests, undefined));
      assert.equal((await vmOf(name)).spec.runStrategy, runStrategy);
    });
  }

  test('Manual, started paused: the next one is, too', async () => {
    const old = await ended('paused', 'Manual', 'Succeeded');
    await startVm(cluster.client, refOf('paused'), signal, true);
    assert.equal((await untilAnother('paused', old)).spec.startStrategy, 'Paused');
  });

  test('Once: it says how to have one more run, and that is true', async () => {
    const old = await ended('once', 'Once', 'Succeeded');
    await assert.rejects(startVm(cluster.client, refOf('once'), signal), {
      code: 'UNSUPPORTED',
      message:
        /has run, and has the run strategy Once: .*\(kubectl delete vmi -n default once\), or choose another spec\.runStrategy/,
    });
    await cluster.client.delete(resources.virtualMachineInstances, refOf('once'));
    await untilAnother('once', old);
    await assert.rejects(startVm(cluster.client, refOf('once'), signal), { message: /is started already$/ });
  });

  test('a start right after a stop comes after it, whatever the strategy; a second one is one too many', async () => {
    for (const runStrategy of ['Manual', 'Always'] as const) {
      const name = `again-${runStrategy}`.toLowerCase();
      const old = await scheduled(name, runStrategy);
      // Nobody carries out what is asked for before all of it is.
      await cluster.stopController();
      await stopVm(cluster.client, refOf(name), signal);
      if (runStrategy === 'Always') await cluster.client.delete(resources.virtualMachineInstances, refOf(name));
      await startVm(cluster.client, refOf(name), signal);
      await assert.rejects(startVm(cluster.client, refOf(name), signal), { code: 'UNSUPPORTED' });
      await cluster.startController();
      await cluster.untilVmi(name, 'being ended', ({ metadata }) => metadata.deletionTimestamp !== undefined);
      await end(name, old, 'Succeeded');
      await untilAnother(name, old);
    }
  });

  test('Manual: what does not run is not stopped', async () => {
    await ended('still', 'Manual', 'Succeeded');
    await assert.rejects(stopVm(cluster.client, refOf('still'), signal), { message: 'default/still does not run' });
  });
});
