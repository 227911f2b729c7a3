import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { stopped } from '../../fixtures/agent-process.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** The real virt-handler is asked to leave, at good and at bad moments. */

let bench: AgentBench;

before(async () => {
  bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
});

after(() => bench?.dispose());

async function schedulable(): Promise<string | undefined> {
  const { body } = await bench.api.admin.get('/api/v1/nodes/node1');
  return body.metadata.labels?.['kubevirt.io/schedulable'];
}

const untilSchedulable = (value: string) => eventually(async () => assert.equal(await schedulable(), value));

async function timed(child: ChildProcess, signal: NodeJS.Signals) {
  const beganMs = performance.now();
  const [code, killedBy] = await stopped(child, signal);
  return { code, killedBy, tookMs: performance.now() - beganMs };
}

test('fault 6: SIGTERM leaves the node unschedulable in every one of 20 stops, and ends with 0', async () => {
  for (let stop = 0; stop < 20; stop++) {
    // At different moments of its life: at once, while the first beat is under way, and after it.
    if (stop % 3 === 2) await untilSchedulable('true');
    const { code, killedBy } = await timed(bench.agent, 'SIGTERM');
    assert.deepEqual([stop, code, killedBy, await schedulable()], [stop, 0, null, 'false']);
    await bench.startAgent();
  }
});

test('a stop touches no VM, and its events are written', async () => {
  const { launcher } = await bench.play('stays');
  const before = await bench.read('stays');
  await stopped(bench.agent, 'SIGTERM');
  const calls = await launcher.calls();
  assert.ok(!calls.some((call) => /shutdown|kill|delete/i.test(call)), calls.join());
  assert.deepEqual((await bench.read('stays')).status?.phase, before.status?.phase);
  assert.ok((await bench.reasons('stays')).includes('Started'));
  await bench.startAgent();
});

test('a node is not schedulable from the start of its agent until it serves', async () => {
  await untilSchedulable('true');
  await bench.killAgent();
  assert.equal(await schedulable(), 'true', 'a killed agent cannot say so');
  const endless = bench.proxy.failAll({ kind: 'list', resource: 'virtualmachineinstances' }, { kind: 'silence' });
  bench.spawnAgent();
  await untilSchedulable('false');
  endless();
  await stopped(bench.agent, 'SIGKILL');
  await bench.startAgent();
  await untilSchedulable('true');
});

test('SIGTERM during start-up ends at once, with 0', async () => {
  await stopped(bench.agent, 'SIGTERM');
  const endless = bench.proxy.failAll({ kind: 'list', resource: 'virtualmachineinstances' }, { kind: 'silence' });
  const asked = bench.proxy.count({ kind: 'list', resource: 'virtualmachineinstances' });
  const agent = bench.spawnAgent();
  await eventually(() => assert.ok(bench.proxy.count({ kind: 'list', resource: 'virtualmachineinstances' }) > asked));
  const { code, tookMs } = await timed(agent, 'SIGTERM');
  endless();
  assert.equal(code, 0);
  assert.ok(tookMs < 3_000, `${tookMs} ms`);
  assert.equal(await schedulable(), 'false');
  await bench.startAgent();
});

test('SIGTERM while the API server is away ends within ten seconds, with 0', async () => {
  await untilSchedulable('true');
  await bench.proxy.down();
  const { code, tookMs } = await timed(bench.agent, 'SIGTERM');
  await bench.proxy.up();
  assert.equal(code, 0);
  assert.ok(tookMs < 10_000, `${tookMs} ms`);
  assert.match(bench.program.log(), /could not be marked unschedulable/);
  await bench.startAgent();
});

test('SIGTERM while the API server takes requests and answers none ends within fifteen seconds', async () => {
  await untilSchedulable('true');
  const endless = bench.proxy.failAll({ kind: 'patch' }, { kind: 'silence' });
  const { code, tookMs } = await timed(bench.agent, 'SIGTERM');
  endless();
  assert.equal(code, 0);
  assert.ok(tookMs < 15_000, `${tookMs} ms`);
  await bench.startAgent();
});

test('a mark that is refused at first is tried until it is taken', async () => {
  await untilSchedulable('true');
  bench.proxy.fail({ kind: 'patch', resource: 'nodes' }, { kind: 'status', code: 503 }, { kind: 'reset' });
  const { code } = await timed(bench.agent, 'SIGTERM');
  assert.deepEqual([code, await schedulable()], [0, 'false']);
  await bench.startAgent();
});

test('a second SIGTERM ends the agent at once, with 1', async () => {
  await untilSchedulable('true');
  const endless = bench.proxy.failAll({ kind: 'patch' }, { kind: 'silence' });
  const { agent } = bench;
  const exited = once(agent, 'exit');
  const leaving = bench.program.log().split('"msg":"leaving').length;
  agent.kill('SIGTERM');
  await eventually(() => assert.ok(bench.program.log().split('"msg":"leaving').length > leaving));
  const beganMs = performance.now();
  agent.kill('SIGTERM');
  assert.deepEqual(await exited, [1, null]);
  assert.ok(performance.now() - beganMs < 1_000);
  endless();
  await bench.startAgent();
});

test('SIGTERM while a launcher hangs in the middle of a start ends within ten seconds and leaves the VM alone', async () => {
  const launcher = await bench.launcher('hung');
  await launcher.hang('syncVirtualMachine');
  await bench.create('hung');
  await eventually(async () => assert.ok((await launcher.calls()).includes('syncVirtualMachine')));
  const { code, tookMs } = await timed(bench.agent, 'SIGTERM');
  assert.equal(code, 0);
  assert.ok(tookMs < 10_000, `${tookMs} ms`);
  assert.equal(await bench.phase('hung'), 'Scheduled');
  assert.ok(!existsSync(path.join(bench.program.privateDir, 'virt-handler.sock')));
});
