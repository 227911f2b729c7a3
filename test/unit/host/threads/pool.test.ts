import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ThreadPool } from '../../../../src/host/threads/index.ts';

/** Answers at once, or only when the gate is open, as a call that the kernel comes back from later. */
const program = `const { parentPort, workerData } = require('node:worker_threads');
parentPort.on('message', ({ order }) => {
  if (!order) Atomics.wait(workerData.gate, 0, 0);
  parentPort.postMessage(true);
});`;

const call = (owner: string, isQuick: boolean, about = owner) => ({ owner, about, make: () => isQuick });

test('calls of one owner that come at once hold no more threads than those that come one by one', async () => {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const pool = new ThreadPool<boolean, boolean>({
    ...{ does: 'waits', program, data: { gate }, deadlineMs: 60_000, patienceMs: 20 },
    ...{ maxThreads: 4, maxHeldPerOwner: 2 },
  });
  const silent = Promise.all(Array.from({ length: 8 }, (_, at) => pool.call(call('silent', false, `volume ${at}`))));
  const others = await Promise.all(['a', 'b', 'c'].map((owner) => pool.call(call(owner, true))));
  assert.deepEqual(others, [true, true, true]);
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
  assert.deepEqual(await silent, Array(8).fill(true));
  await pool.stop();
});

test('an owner whose calls are quick waits for none of its own', async () => {
  const pool = new ThreadPool<boolean, boolean>({ does: 'waits', program, maxHeldPerOwner: 1 });
  const all = await Promise.all(Array.from({ length: 50 }, () => pool.call(call('busy', true))));
  assert.equal(all.length, 50);
  await pool.stop();
});

test('threads that end at once refuse each call, and keep none waiting', async () => {
  const pool = new ThreadPool<boolean, boolean>({ does: 'waits', program: 'process.exit(3)', deadlineMs: 30_000 });
  const ends = await Promise.allSettled(['a', 'b', 'c'].map((owner) => pool.call(call(owner, true))));
  for (const end of ends) assert.equal(end.status === 'rejected' && end.reason.code, 'THREAD_ENDED');
  await pool.stop();
});
