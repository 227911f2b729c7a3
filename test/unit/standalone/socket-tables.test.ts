import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import {
  clientUid,
  listenerUid,
  listeningPorts,
  peerOwner,
  portOwner,
  takenPorts,
} from '../../../src/standalone/socket-tables.ts';

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:24A4 0100007F:B892 01 00000000:00000000 00:00000000 00000000     7        0 11 1 00000000e84ce198
   1: 00000000:24A4 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 12 1 00000000e84ce198
   3: 0100007F:B892 0100007F:24A4 01 00000000:00000000 00:00000000 00000000  1000        0 14 1 00000000e84ce198
   4: 0100007F:B893 0100007F:24A4 06 00000000:00000000 00:00000000 00000000     0        0 0 1 00000000e84ce198
   2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 13 1 00000000e84ce198
`;

const table6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0000000000000000FFFF00000100007F:B900 0000000000000000FFFF00000100007F:24A4 01 00000000:00000000 00:00000000 00000000  1001        0 21 1 00000000e84ce198
   1: 00000000000000000000000001000000:46A0 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 22 1 00000000e84ce198
   2: 00000000000000000000000001000000:B901 00000000000000000000000001000000:24A4 01 00000000:00000000 00:00000000 00000000  1003        0 23 1 00000000e84ce198
`;
/** The same words of a machine with the other byte order, as the kernel prints them there. */
const bigEndian = (tables: string) =>
  tables.replace(/\b(?:[\dA-F]{8}){1,4}(?=:[\dA-F]{4} )/g, (address) =>
    address.replace(/(..)(..)(..)(..)/g, '$4$3$2$1'),
  );

test('of all that have to do with a port, the user who listens on it is named', () => {
  assert.equal(listenerUid(table, 9380), 65_534);
  assert.equal(listenerUid(table, 80), 0);
  assert.equal(listenerUid(table, 47_250), undefined, 'a client');
  for (const text of ['', 'nonsense', table.slice(0, 150)]) assert.equal(listenerUid(text, 9380), undefined);
});

test('the machine is asked for the user of a port that is taken', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  assert.equal(await portOwner(port), process.getuid?.());
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await portOwner(port), undefined);
});

test('of both ends of a connection, the user of the client is named', () => {
  assert.equal(clientUid(table, { localPort: 9380, remotePort: 47_250 }), 1000);
  assert.equal(clientUid(table, { localPort: 9380, remotePort: 47_251 }), undefined, 'it has been closed');
  assert.equal(clientUid(table, { localPort: 47_250, remotePort: 9380 }), 7, 'seen from the other end');
  assert.equal(clientUid(table, {}), undefined);
});

test('a client whose socket is for both families is in the other table', () => {
  const tables = table + table6;
  assert.equal(clientUid(tables, { localPort: 9380, remotePort: 0xb900 }, 'LE'), 1001);
  assert.equal(clientUid(tables, { localPort: 9380, remotePort: 0xb901 }, 'LE'), undefined, 'not to 127.0.0.1');
  assert.equal(listenerUid(tables, 18_080, 'LE'), 1002);
});

test('who listens at another address of the machine is not in the way', () => {
  const elsewhere = table.replaceAll('0100007F:0050', '0500000A:0050');
  assert.equal(listenerUid(elsewhere, 80, 'LE'), undefined);
});

test('addresses are read in the byte order of the machine', () => {
  const tables = bigEndian(table + table6);
  assert.ok(tables.includes('7F000001:B892') && tables.includes('00000000000000000000FFFF7F000001:B900'));
  assert.equal(clientUid(tables, { localPort: 9380, remotePort: 47_250 }, 'BE'), 1000);
  assert.equal(clientUid(tables, { localPort: 9380, remotePort: 0xb900 }, 'BE'), 1001);
  assert.deepEqual(
    [80, 9380, 18_080].map((port) => listenerUid(tables, port, 'BE')),
    [0, 65_534, 1002],
  );
});

for (const host of ['127.0.0.1', '::ffff:127.0.0.1']) {
  test(`the machine is asked for the user of a client that goes to ${host}`, async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, host);
    const [socket] = (await once(server, 'connection')) as [Socket];
    assert.equal(await peerOwner(socket), process.getuid?.());
    client.destroy();
    socket.destroy();
    server.close();
  });
}

test('ports that programs of the machine have on the loopback addresses', () => {
  const row = (local: string, state: string) => `   0: ${local} 00000000:0000 ${state} 0:0 0:0 0 0 0 1`;
  const tcp = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid',
    ...[row('0100007F:7580', '0A'), row('00000000:7581', '0A'), row('0500007F:7586', '0A')],
    ...[row('0100007F:7582', '01'), row('0200000A:7583', '0A'), row('7F00:7587', '0A')],
    row('00000000000000000000000000000000:7584', '0A'),
    row('0000000000000000FFFF00000100007F:7585', '0A'),
  ].join('\n');
  const reached = [30_080, 30_081, 30_086, 30_084, 30_085];
  assert.deepEqual([...listeningPorts('tcp', tcp, '127.0.0.0/8', 'LE')], reached);
  assert.deepEqual([...listeningPorts('tcp', bigEndian(tcp), '127.0.0.0/8', 'BE')], reached);
  const inTheWay = reached.filter((port) => port !== 30_086);
  assert.deepEqual([...listeningPorts('tcp', tcp, '127.0.0.1', 'LE')], inTheWay);
  assert.deepEqual([...listeningPorts('udp', row('00000000:7586', '07'), '127.0.0.0/8', 'LE')], [30_086]);
});

test('the machine is asked for its ports', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  assert.ok((await takenPorts('127.0.0.1')).tcp.has(port));
  await new Promise((resolve) => server.close(resolve));
  assert.ok(!(await takenPorts('127.0.0.1')).tcp.has(port));
});
