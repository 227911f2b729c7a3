import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { listenerUid, portOwner } from '../../../src/node/supervisor/port-owner.ts';

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:24A4 0100007F:B892 01 00000000:00000000 00:00000000 00000000     7        0 11 1 00000000e84ce198
   1: 00000000:24A4 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 12 1 00000000e84ce198
   2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 13 1 00000000e84ce198
`;

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
