import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { aware, plain } from './client.ts';
import { startBench } from './console-bench.ts';
import { heldBytes } from './memory.ts';
import { clientFrame, RawClient, upgradeText } from './raw.ts';

const cycles = 10_000;
const atOnce = 50;

/** What is open, without the handles of the test itself. */
function handles(): Record<string, number> {
  const counts: Record<string, number> = { descriptors: readdirSync('/proc/self/fd').length };
  for (const kind of process.getActiveResourcesInfo()) {
    if (/Timeout|Immediate|TickObject|CloseReq/.test(kind)) continue;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

const endings: readonly ((client: RawClient) => void)[] = [
  (client) => client.socket.end(clientFrame(8, Buffer.from([3, 232]))),
  (client) => client.socket.resetAndDestroy(),
  (client) => client.socket.end(),
  (client) => client.socket.destroy(),
];

test('ten thousand sessions that come and go in every way leave no handle, no timer and no memory', async (t) => {
  // Node.js' own timers are not counted: they are those of the library and of HTTP.
  const { port, guest, server, attach } = await startBench(t, { options: { lingerMs: 0 } });
  guest.onConnection = (socket) => {
    socket.resume();
    socket.write('RFB 003.008\n');
  };
  const warm = await attach('', { uid: 'warm' }).opened();
  warm.stop();
  const run = async (from: number, to: number) => {
    for (let at = from; at < to; at += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, (_, offset) => cycle(at + offset)));
    }
    await eventually(() => assert.deepEqual(server.sessions(), []));
    await eventually(() => assert.ok(guest.connections.every(({ destroyed }) => destroyed)));
    guest.connections.length = 0;
  };
  const cycle = async (at: number) => {
    const kind = ['console', 'vnc', 'usbredir'][at % 3];
    const access = ['take', 'view', 'take-if-free'][(at >> 2) % 3];
    const client = await RawClient.connect(port);
    // Some meet others at the same VMI.
    const request = `GET /${kind}/${at % 50}?access=${access} HTTP/1.1`;
    client.socket.write(upgradeText({ 'Sec-WebSocket-Protocol': at % 2 ? plain : aware }, request));
    await once(client.socket, 'data');
    const closed = once(client.socket, 'close');
    endings[at % endings.length]?.(client);
    await closed;
  };
  await run(0, 1000);
  const before = { handles: handles(), held: heldBytes() };
  await run(1000, cycles);
  await eventually(() => assert.deepEqual(handles(), before.handles));
  const grown = heldBytes() - before.held;
  assert.ok(grown < 5_000_000, `the process has grown by ${grown} bytes`);
});
