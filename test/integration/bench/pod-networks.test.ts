import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { withoutNetwork } from '../../../bench/pod-networks.ts';
import { fakePod, withoutPods } from '../../fixtures/pod-namespace.ts';
import { disk, masqueraded, podNet, setUpBy, vmiWith } from '../../fixtures/pod-network.ts';

suite('VMIs of a burst that run without their network', { skip: withoutPods }, () => {
  test('a pod that the agent has set up is told from one that it has not', async (t) => {
    const [ready, bare] = [await fakePod(t), await fakePod(t)];
    await setUpBy(disk(t), ready, vmiWith([masqueraded], [podNet]));
    const pidOf = (name: string) => (name === 'ready' ? ready : bare).pid;
    assert.deepEqual(await withoutNetwork(['ready', 'bare'], pidOf), ['bare']);
  });

  const breaks = [
    ['its tap device', 'ip link delete tap0'],
    ['its bridge up', 'ip link set k6t-eth0 down'],
    ["the gateway's address", 'ip address flush dev k6t-eth0'],
    ['the rules that lead to the guest', 'nft flush chain ip nat KUBEVIRT_PREINBOUND; nft flush chain ip nat output'],
  ] as const;
  for (const [what, script] of breaks) {
    test(`a pod lacks ${what}`, async (t) => {
      const pod = await fakePod(t);
      await setUpBy(disk(t), pod, vmiWith([masqueraded], [podNet]));
      pod.run('sh', '-ec', script);
      assert.deepEqual(await withoutNetwork(['vm'], () => pod.pid), ['vm']);
    });
  }

  test('a launcher that has ended', async () => {
    assert.deepEqual(await withoutNetwork(['vm'], () => 0), ['vm']);
  });
});
