import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { eachTestHasRestBench, type RestBench, upgradeText, vm1 } from './rest-bench.ts';

let bench: RestBench;
eachTestHasRestBench((made) => {
  bench = made;
});

for (const sub of ['/console', '/pause', '/nothing']) {
  test(`an upgrade to ${sub} behind a request without an answer yet ends its connection and not the agent`, async () => {
    (await bench.launcher()).hang('getGuestInfo');
    const socket = bench.socket();
    socket.resume();
    socket.write(`GET ${vm1}/guestosinfo HTTP/1.1\r\nHost: agent\r\n\r\n${upgradeText(vm1 + sub)}`);
    await once(socket, 'close');
    assert.equal((await bench.get('/nothing')).status, 404);
  });
}
