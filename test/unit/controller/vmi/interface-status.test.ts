import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Network, VmiInterfaceStatus } from '../../../../src/api/index.ts';
import { interfaceStatus } from '../../../../src/controller/vmi/interface-status.ts';
import { buildPod, buildVmi } from '../builders.ts';

const statusKey = 'k8s.v1.cni.cncf.io/network-status';
const link = 'pod16477688c0e';
const main: Network = { name: 'default', pod: {} };
const blue: Network = { name: 'blue', multus: { networkName: 'test1' } };
const mainEntry = { name: 'default', podInterfaceName: 'eth0' };

interface Row {
  readonly what: string;
  readonly networks?: readonly Network[];
  readonly before?: readonly VmiInterfaceStatus[];
  /** Links that Multus reports; a text: all that stands there. */
  readonly links?: readonly object[] | string;
  readonly expected: readonly VmiInterfaceStatus[] | undefined;
}

const eth0 = { interface: 'eth0', default: true };
const inDomain = { name: 'blue', mac: '02::1', infoSource: 'domain, guest-agent' };

const rows: readonly Row[] = [
  { what: 'without networks there is nothing to report', networks: [], expected: undefined },
  { what: 'the pod network has its link, also where no Multus is', expected: [mainEntry] },
  {
    what: 'Multus may call the link of the main network otherwise',
    links: [{ interface: 'ovn0', default: true }],
    expected: [{ name: 'default', podInterfaceName: 'ovn0' }],
  },
  {
    what: 'a further network is reported as soon as its link is there',
    networks: [main, blue],
    links: [eth0, { interface: link }],
    expected: [mainEntry, { name: 'blue', infoSource: 'multus-status', podInterfaceName: link }],
  },
  { what: 'and not before', networks: [main, blue], links: [eth0], expected: [mainEntry] },
  {
    what: 'what the agent has written stays, and so does what the guest has beyond',
    networks: [blue, main],
    before: [{ mac: '02::9', infoSource: 'guest-agent' }, { ...mainEntry, ipAddress: '10.0.0.1' }, inDomain],
    links: [eth0, { interface: link }],
    expected: [
      { ...mainEntry, ipAddress: '10.0.0.1' },
      { ...inDomain, infoSource: 'domain, guest-agent, multus-status', podInterfaceName: link },
      { mac: '02::9', infoSource: 'guest-agent' },
    ],
  },
  {
    what: 'a link that is gone is not reported any more; its entry is the agent’s to remove',
    networks: [main, blue],
    before: [mainEntry, { name: 'blue', infoSource: 'multus-status', podInterfaceName: link }],
    links: [eth0],
    expected: [mainEntry, { name: 'blue', podInterfaceName: link }],
  },
  {
    what: 'the links of an old pod are numbered',
    networks: [main, blue],
    links: [eth0, { interface: 'net1' }],
    expected: [mainEntry, { name: 'blue', infoSource: 'multus-status', podInterfaceName: 'net1' }],
  },
];

function reported({ networks = [main], before, links }: Omit<Row, 'what' | 'expected'>) {
  const text = typeof links === 'object' ? JSON.stringify(links) : links;
  const pod = buildPod({ phase: 'Running' }, text === undefined ? {} : { annotations: { [statusKey]: text } });
  const status = { phase: 'Running' as const, ...(before && { interfaces: [...before] }) };
  return interfaceStatus(buildVmi({ networks: [...networks] }, status), pod);
}

for (const { expected, ...row } of rows) {
  test(row.what, () => {
    const after = reported(row);
    assert.deepEqual(after, expected);
    assert.deepEqual(reported({ ...row, ...(after && { before: after }) }), expected, 'a second time');
  });
}

test('another order of the same entries is no difference: the agent has its own', () => {
  const before = [{ name: 'blue', infoSource: 'domain, multus-status', podInterfaceName: link }, mainEntry];
  const after = reported({ networks: [main, blue], before, links: [eth0, { interface: link }] });
  assert.deepEqual(after, before);
});

test('a report of Multus that cannot be read changes nothing', () => {
  const before = [{ name: 'blue', infoSource: 'domain, multus-status' }];
  assert.deepEqual(reported({ networks: [main, blue], before, links: '[{' }), before);
});
