import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { eventually } from '../../../fixtures/eventually.ts';
import type { ScriptedLauncher } from '../../../fixtures/scripted-launcher.ts';
import { RestBench, vm1 } from './rest-bench.ts';

let bench: RestBench;
beforeEach(async () => {
  bench = await RestBench.start({ unfreezeAfterMs: 3_600_000 });
});

afterEach(() => bench.dispose());

/** A guest that is being frozen for a client that has left; the returned function ends the freezing. */
async function abandonedFreeze(launcher: ScriptedLauncher): Promise<() => void> {
  let finish: () => void = () => undefined;
  launcher.on('freezeVirtualMachine', () => {
    return new Promise((resolve) => {
      finish = () => resolve({ success: true });
    });
  });
  const leaving = new AbortController();
  const body = '{"unfreezeTimeout":"0s"}';
  const asked = bench.ask('PUT', `${vm1}/freeze`, { body, signal: leaving.signal });
  await eventually(() => assert.equal(launcher.count('freezeVirtualMachine'), 1));
  leaving.abort();
  await assert.rejects(asked);
  return () => finish();
}

test('a guest whose freeze outlived its client is unfrozen by the launcher’s own call, and the VMI’s events say so', async () => {
  await bench.dispose();
  bench = await RestBench.start({ unfreezeAfterMs: 50 });
  const launcher = await bench.launcher();
  const finish = await abandonedFreeze(launcher);
  assert.equal(launcher.count('unfreezeVirtualMachine'), 0);
  finish();
  await eventually(() => assert.equal(launcher.count('unfreezeVirtualMachine'), 1));
  await eventually(() =>
    assert.deepEqual(
      bench.events.map(({ reason }) => reason),
      ['FreezeError'],
    ),
  );
  await eventually(() => assert.equal(bench.api.state.freezing, 0));
});

test('an agent that leaves unfreezes such a guest at once, and refuses late callers', async () => {
  const launcher = await bench.launcher();
  const finish = await abandonedFreeze(launcher);
  finish();
  await eventually(() => assert.equal(bench.api.state.calls, 0));
  assert.equal(launcher.count('unfreezeVirtualMachine'), 0);
  await bench.api.stop();
  assert.equal(launcher.count('unfreezeVirtualMachine'), 1);
  assert.deepEqual([(await bench.put('/pause')).status, launcher.count('pauseVirtualMachine')], [503, 0]);
});

test('an agent that leaves ends the calls of those who wait', async () => {
  const launcher = await bench.launcher();
  launcher.hang('pauseVirtualMachine');
  launcher.hang('getUsers');
  const asked = [bench.put('/pause'), bench.get('/userlist')];
  await eventually(() => assert.equal(bench.api.state.calls, 2));
  await eventually(() => assert.equal(launcher.calls.length, 2));
  await bench.api.stop();
  for (const answer of await Promise.all(asked)) assert.ok(answer.status >= 500, String(answer.status));
  assert.equal(bench.api.state.calls, 0);
});
