import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Interface } from '../../../../src/api/index.ts';
import { publishedPorts } from '../../../../src/launcher/user-network/index.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

const vmiWith = (ports: Interface['ports'], more: Partial<Interface> = {}) =>
  launcherVmi({
    spec: {
      domain: { devices: { interfaces: [{ name: 'default', masquerade: {}, ...(ports && { ports }), ...more }] } },
    },
  });
const shown = (ports: Interface['ports']) =>
  publishedPorts(vmiWith(ports)).forwards.map(({ protocol, port, guestPort }) => `${protocol} ${port} ${guestPort}`);

test('each port has a number above those of the machine’s own programs, the same each time', () => {
  assert.deepEqual(shown([{ port: 22 }, { port: 8080 }, { port: 9999 }, { port: 10_000 }, { port: 65_535 }]), [
    'tcp 20022 22',
    'tcp 28080 8080',
    'tcp 29999 9999',
    'tcp 10000 10000',
    'tcp 65535 65535',
  ]);
  assert.deepEqual(publishedPorts(vmiWith([{ port: 22 }])), publishedPorts(vmiWith([{ port: 22 }])));
});

test('of two ports that would have the same number the second one has the next, also at the end of the range', () => {
  assert.deepEqual(shown([{ port: 22 }, { port: 20_022 }, { port: 20_023 }]), [
    'tcp 20022 22',
    'tcp 20023 20022',
    'tcp 20024 20023',
  ]);
});

test('TCP and UDP are apart, and a port that is listed twice is one', () => {
  const ports = [{ port: 53 }, { port: 53, protocol: 'UDP' }, { port: 53, protocol: 'TCP', name: 'again' }];
  assert.deepEqual(shown(ports), ['tcp 20053 53', 'udp 20053 53']);
});

test('what cannot be published is told, and the rest is published', () => {
  const ports = [{ port: 22 }, { port: 0 }, { port: 65_536 }, { port: 1.5 }, { port: 5, protocol: 'SCTP' }];
  const { forwards, problems } = publishedPorts(vmiWith(ports));
  assert.equal(forwards.length, 1);
  assert.equal(problems.length, 4);
  assert.match(problems[3] ?? '', /port 5 SCTP of interface default: TCP and UDP from 1 to 65535 are published/);
});

test('VMs have loopback addresses of their own; none is 127.0.0.1', () => {
  const vmi = vmiWith([{ port: 22 }]);
  const addresses = Array.from({ length: 500 }, (_, at) => {
    const found = publishedPorts({ ...vmi, metadata: { ...vmi.metadata, uid: `uid-${at}` } });
    return found.forwards[0]?.address ?? '';
  });
  assert.ok(new Set(addresses).size > 495, `${new Set(addresses).size}`);
  for (const address of addresses) assert.match(address, /^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.\d{1,3}\.\d{1,3}$/);
});

test('an interface that is being unplugged publishes nothing, nor does a VMI without ports', () => {
  assert.deepEqual(publishedPorts(vmiWith([{ port: 22 }], { state: 'absent' })).forwards, []);
  assert.deepEqual(publishedPorts(launcherVmi()), { forwards: [], problems: [] });
});
