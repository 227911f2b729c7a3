import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AgentBench } from '../fixtures/agent-bench.ts';
import { type TightApi, tightApi } from '../fixtures/deployment/tight-api.ts';
import { eventually } from '../fixtures/eventually.ts';

/** The agent's program with the rights of the overlay tight-rights: they are enough for all that it does. */

let api: TightApi;
let bench: AgentBench;
let answeredBefore = 0;

before(async () => {
  api = await tightApi();
  // What was answered until here was asked by the set-up, to see the policies refuse.
  answeredBefore = api.answered().length;
  bench = await AgentBench.start(api);
});
after(async () => {
  await bench?.dispose();
  await api?.stop();
});

test('a node is served, VMIs come and go, the agent leaves and comes back, and nothing of it is refused', async () => {
  const { launcher } = await bench.play('first');
  await bench.restartAgent();
  await launcher.act({ guest: 'shutdown' });
  await bench.untilPhase('first', 'Succeeded');
  await bench.play('second');
  await bench.delete('second');
  await eventually(() =>
    assert.ok(bench.rules('second').includes('finished-clean-up'), bench.program.log().slice(-2000)),
  );
  bench.agent.kill('SIGTERM');
  await bench.exited();
  const asked = api.answered().slice(answeredBefore);
  assert.ok(asked.some(({ verb, uri }) => verb === 'update' && uri.includes('/virtualmachineinstances/first')));
  assert.ok(asked.some(({ verb, uri }) => verb === 'patch' && uri.includes('/nodes/node1')));
  assert.ok(asked.some(({ verb, uri }) => verb === 'create' && uri.includes('/events')));
  const refused = asked.filter(({ code }) => code === 401 || code === 403 || code === 422);
  assert.deepEqual(refused, [], bench.program.log().slice(-2000));
});
