import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { podNetwork } from '../../../../../../src/agent/vmi/host/index.ts';
import type { PodLink } from '../../../../../../src/agent/vmi/host/network/pod-links.ts';
import type { OpenPodNamespace } from '../../../../../../src/agent/vmi/host/network/pod-namespace.ts';
import type { Interface, VirtualMachineInstance } from '../../../../../../src/api/index.ts';
import { uid, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { memoryFiles } from '../../../../../fixtures/agent/host-hooks.ts';
import { disk, masqueraded, podNet, vmiWith } from '../../../../../fixtures/pod-network.ts';
import { release, requestOf, workOf } from '../work/bench.ts';

/** What a start costs on disk, and that the files of a network go without a checkpoint that names them. */

const skip = process.getuid?.() === 0 ? false : 'only root gives files to the user qemu';
const addresses = [{ ip: '10.244.7.5', prefix: 24 }];
const eth0: PodLink = {
  index: 2,
  name: 'eth0',
  kind: 'veth',
  mac: '0a:58:0a:f4:07:05',
  mtu: 1440,
  isUp: true,
  addresses,
};
const routes = [{ destination: 'default', gateway: '10.244.7.1', link: 'eth0' }];

const open: OpenPodNamespace = async () => ({
  isOfMachine: false,
  linkNames: () => ['lo', 'eth0'],
  setting: () => '',
  read: async () => ({ links: [eth0], routes }),
  change: async () => undefined,
  set: () => undefined,
  load: async () => undefined,
  close: () => undefined,
});

const bridged: Interface = { name: 'default', bridge: {} };
const cases: readonly (readonly [string, VirtualMachineInstance, readonly string[], readonly string[]])[] = [
  ['no network', vmiOf('Scheduled'), [], []],
  ['a network behind masquerading', vmiWith([masqueraded], [podNet]), [], ['default']],
  // Its launcher, which is none here, has no directory for the DHCP server's file: what is saved before that is kept.
  ['a network on a bridge', vmiWith([bridged], [podNet]), [uid], []],
];

for (const [what, vmi, checkpoints, caches] of cases) {
  test(`a start with ${what} keeps a checkpoint only for what nothing else remembers`, { skip }, async (t) => {
    const { privateDir } = disk(t);
    const files = memoryFiles();
    const work = workOf([podNetwork({ privateDir, podIp: '10.0.0.1', procDir: privateDir }, open)], files);
    await work.run(requestOf({ vmi, purpose: 'start', process: { pid: 1, startTime: '1' } }));
    const all = path.join(privateDir, 'network-info-cache');
    const cacheOf = (name: string) => (existsSync(path.join(all, name)) ? readdirSync(path.join(all, name)) : []);
    assert.deepEqual([...files.files.keys()], checkpoints);
    assert.deepEqual(cacheOf(uid), caches);
    assert.equal((await release(work)).kind, 'done');
    assert.deepEqual([[...files.files.keys()], existsSync(path.join(all, uid))], [[], false]);
  });
}
