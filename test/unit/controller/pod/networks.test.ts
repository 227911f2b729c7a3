import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Interface, Network, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { PodRenderError } from '../../../../src/controller/pod/errors.ts';
import { podNetworkStatus } from '../../../../src/controller/pod/network-status.ts';
import { changedNetworks, networkAnnotations } from '../../../../src/controller/pod/networks.ts';
import { renderLauncherPod } from '../../../../src/controller/pod/render.ts';
import { buildConfig, buildPod, buildVmi } from '../builders.ts';

const networksKey = 'k8s.v1.cni.cncf.io/networks';
const statusKey = 'k8s.v1.cni.cncf.io/network-status';

const binding = {
  plain: {},
  mine: { networkAttachmentDefinition: 'mine' },
  far: { networkAttachmentDefinition: 'ns1/far' },
};
const { networkBindings } = buildConfig({ network: { binding } });

const pod: Network = { name: 'default', pod: {} };
const multus = (name: string, networkName: string, more: { default?: boolean } = {}): Network => ({
  name,
  multus: { networkName, ...more },
});

type Status = NonNullable<VirtualMachineInstance['status']>['interfaces'];

function vmiOf(interfaces: Interface[], networks: Network[], reported: Status = []): VirtualMachineInstance {
  return buildVmi({ domain: { devices: { interfaces } }, networks }, { phase: 'Running', interfaces: reported });
}

interface Row {
  readonly what: string;
  readonly interfaces: Interface[];
  readonly networks: Network[];
  readonly expected: Record<string, string>;
}

/** As upstream's v1.9.0 writes them, member by member: `pkg/network/multus/annotation_test.go` has the first names of links. */
const rows: readonly Row[] = [
  { what: 'the pod network alone', interfaces: [{ name: 'default' }], networks: [pod], expected: {} },
  {
    what: 'networks of the own and of another namespace, in the order of the interfaces',
    interfaces: [{ name: 'default' }, { name: 'red', macAddress: '02:00:00:00:00:01' }, { name: 'blue' }],
    networks: [pod, multus('blue', 'test1'), multus('red', 'other-namespace/test1')],
    expected: {
      [networksKey]:
        '[{"name":"test1","namespace":"other-namespace","mac":"02:00:00:00:00:01","interface":"podb1f51a511f1"},{"name":"test1","namespace":"default","interface":"pod16477688c0e"}]',
    },
  },
  {
    what: 'another main network',
    interfaces: [{ name: 'default' }],
    networks: [multus('default', 'ns1/main.net', { default: true })],
    expected: { 'v1.multus-cni.io/default-network': 'ns1/main.net' },
  },
  {
    what: 'binding plug-ins with a network of theirs',
    interfaces: [
      { name: 'default', binding: { name: 'mine' } },
      { name: 'blue', binding: { name: 'far' } },
    ],
    networks: [pod, multus('blue', 'test1')],
    expected: {
      [networksKey]:
        '[{"name":"mine","namespace":"default","cni-args":{"logicNetworkName":"default"}},{"name":"test1","namespace":"default","interface":"pod16477688c0e"},{"name":"far","namespace":"ns1","cni-args":{"logicNetworkName":"blue"}}]',
    },
  },
  {
    what: 'a binding plug-in without a network of its own',
    interfaces: [{ name: 'default', binding: { name: 'plain' } }],
    networks: [pod],
    expected: {},
  },
  {
    what: 'an interface that is absent',
    interfaces: [{ name: 'default' }, { name: 'blue', state: 'absent' }],
    networks: [pod, multus('blue', 'test1')],
    expected: {},
  },
];

for (const { what, interfaces, networks, expected } of rows) {
  test(`Multus is asked for: ${what}`, () => {
    assert.deepEqual(networkAnnotations(vmiOf(interfaces, networks), networkBindings), expected);
  });
}

test('what the VMI asks for wins over an annotation that was copied from it', () => {
  const vmi = vmiOf([{ name: 'blue' }], [multus('blue', 'test1')]);
  vmi.spec.domain.memory = { guest: '64Mi' };
  vmi.metadata.annotations = { [networksKey]: 'kube-system/secret' };
  const { annotations } = renderLauncherPod(vmi, buildConfig(), 'salt').metadata;
  assert.match(annotations?.[networksKey] ?? '', /^\[\{"name":"test1"/);
});

const hostile = [
  '',
  'a/b/c',
  '/a',
  'a/',
  'blue@eth0',
  'blue,red',
  '[{"name":"x"}]',
  'A',
  'a_b',
  'a..b',
  'ns.1/a',
  ' a',
  'a\n',
];
const tooLong = ['a'.repeat(254), `${'n'.repeat(64)}/a`];

for (const networkName of [...hostile, ...tooLong]) {
  test(`no annotation is made of the network name ${JSON.stringify(networkName.slice(0, 20))}`, () => {
    const isRefused = (error: unknown) =>
      error instanceof PodRenderError && error.code === 'BAD_NETWORK' && error.message.includes('NAMESPACE/NAME');
    for (const more of [{}, { default: true }]) {
      const vmi = vmiOf([{ name: 'blue' }], [multus('blue', networkName, more)]);
      assert.throws(() => networkAnnotations(vmi, networkBindings), isRefused);
    }
    const own = buildConfig({ network: { binding: { own: { networkAttachmentDefinition: networkName || '/' } } } });
    const bound = vmiOf([{ name: 'default', binding: { name: 'own' } }], [pod]);
    assert.throws(() => networkAnnotations(bound, own.networkBindings), isRefused);
  });
}

test('two main networks and a binding plug-in that nobody registered are refused', () => {
  const two = vmiOf([{ name: 'default' }, { name: 'blue' }], [pod, multus('blue', 'test1', { default: true })]);
  assert.throws(() => networkAnnotations(two, networkBindings), /networks default and blue would both be the main/);
  for (const name of ['lost', 'constructor', '__proto__']) {
    const lost = vmiOf([{ name: 'default', binding: { name } }], [pod]);
    assert.throws(() => networkAnnotations(lost, networkBindings), { code: 'BAD_NETWORK' });
  }
});

const both: Network[] = [pod, multus('blue', 'test1'), multus('red', 'test2')];
const bothLinks = 'pod16477688c0e,podb1f51a511f1'.split(',');
const selection = (name: string, link = '') => `{"name":"${name}","namespace":"default","interface":"${link}"}`;
const podWith = (annotations: Record<string, string>) => buildPod({ phase: 'Running' }, { annotations });
const blueOnly = `[${selection('test1', bothLinks[0])}]`;

test('a network that is plugged in is asked for beside those that are there', () => {
  const vmi = vmiOf([{ name: 'default' }, { name: 'blue' }, { name: 'red' }], both, [
    { name: 'default' },
    { name: 'blue' },
  ]);
  const wanted = { [networksKey]: `[${selection('test1', bothLinks[0])},${selection('test2', bothLinks[1])}]` };
  assert.deepEqual(changedNetworks(vmi, podWith({ [networksKey]: blueOnly }), networkBindings), wanted);
  assert.deepEqual(changedNetworks(vmi, podWith(wanted), networkBindings), {}, 'and then it is as it shall be');
});

test('a network that is unplugged is not asked for any more, the last one neither', () => {
  const reported = [{ name: 'default' }, { name: 'blue' }];
  const vmi = vmiOf([{ name: 'default' }, { name: 'blue', state: 'absent' }], both, reported);
  assert.deepEqual(changedNetworks(vmi, podWith({ [networksKey]: blueOnly }), networkBindings), { [networksKey]: '' });
  assert.deepEqual(changedNetworks(vmi, podWith({}), networkBindings), {});
});

test('while all interfaces are reported the annotation stays, whoever wrote it', () => {
  const vmi = vmiOf([{ name: 'default' }], [pod], [{ name: 'default' }]);
  assert.deepEqual(changedNetworks(vmi, podWith({ [networksKey]: 'kube-system/mine' }), networkBindings), {});
});

test('a device that is passed through is not asked for in a pod that runs', () => {
  const vmi = vmiOf([{ name: 'default' }, { name: 'blue', sriov: {} }], both, [{ name: 'default' }]);
  assert.deepEqual(changedNetworks(vmi, podWith({}), networkBindings), {});
});

test('in an old pod, whose links are numbered, a new one is numbered, too', () => {
  const vmi = vmiOf([{ name: 'default' }, { name: 'blue' }, { name: 'red' }], both, [
    { name: 'default' },
    { name: 'blue' },
  ]);
  const status = JSON.stringify([{ interface: 'eth0', default: true }, { interface: 'net1' }]);
  const changed = changedNetworks(vmi, podWith({ [statusKey]: status }), networkBindings);
  assert.deepEqual(changed, { [networksKey]: `[${selection('test1', 'net1')},${selection('test2', 'net2')}]` });
});

test('what Multus reports is read as far as it is of links; what cannot be read is not taken for nothing', () => {
  const read = (text: string) => podNetworkStatus(podWith({ [statusKey]: text }));
  const links = [
    { interface: 'eth0', default: true },
    { interface: 'net1', default: 'yes' },
    { interface: '../x' },
    {},
    1,
    null,
  ];
  assert.deepEqual(read(JSON.stringify(links)), [
    { link: 'eth0', isMain: true },
    { link: 'net1', isMain: false },
  ]);
  assert.deepEqual(podNetworkStatus(buildPod()), []);
  for (const text of ['{', '{}', '"x"', 'null', '7']) assert.equal(read(text), undefined, text);
  fc.assert(fc.property(fc.json(), (text) => void read(text)));
});
