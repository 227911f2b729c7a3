import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KubeObject, keyOf, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { TscLabels, type TscLabelsDeps } from '../../../../src/controller/tsc/tsc-labels.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVmi } from '../builders.ts';

/** More than changes are waited for. */
const passMs = 1_000;

function guest(name: string, tscFrequency?: number): VirtualMachineInstance {
  const vmi = buildVmi({}, { ...(tscFrequency !== undefined && { topologyHints: { tscFrequency } }) });
  return { ...vmi, metadata: { ...vmi.metadata, name } };
}

test('nodes are looked through when a guest has a frequency that is news, or is gone, and for no other event of guests', async () => {
  const clock = new FakeClock();
  const vmis = new Map<string, VirtualMachineInstance>();
  let [passes, changed] = [0, (_key: string): void => undefined];
  const labels = { 'cpu-timer.node.kubevirt.io/tsc-frequency': '2000', 'kubevirt.io/schedulable': 'true' };
  const node: KubeObject = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', uid: 'node1', labels } };
  const deps: Pick<TscLabelsDeps, 'client' | 'nodes' | 'vmis'> = {
    client: { patch: async <T>() => node as T },
    nodes: { list: () => [node], addHandlers: () => () => undefined },
    vmis: {
      get: (key) => vmis.get(key),
      list: () => {
        passes++;
        return [...vmis.values()];
      },
      onChange: (listener) => {
        changed = listener;
        return () => undefined;
      },
    },
  };
  const config = () => ({ minimumTscFrequency: undefined });
  const part = new TscLabels({ ...deps, config, clock, log: silentLogger, random: () => 0 });
  await part.start();
  const passesAfter = async (vmi: VirtualMachineInstance, isThere = true) => {
    if (isThere) vmis.set(keyOf(vmi), vmi);
    else vmis.delete(keyOf(vmi));
    changed(keyOf(vmi));
    const before = passes;
    await clock.pass(passMs);
    return passes - before;
  };
  await clock.pass(passMs);
  assert.equal(passes, 1, 'at the start');
  assert.equal(await passesAfter(guest('plain')), 0, 'it has none');
  assert.equal(await passesAfter(guest('same', 2000)), 0, 'the lowest of the cluster');
  assert.equal(await passesAfter(guest('other', 1000)), 1, 'news');
  assert.equal(await passesAfter(guest('other', 1000)), 0, 'no news any more');
  assert.equal(await passesAfter(guest('other', 1000), false), 1, 'it may have been the last');
  await part.stop();
});
