import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { eventually } from '../../fixtures/eventually.ts';

test('the program virt-handler ends a guest whose VMI and record vanished while it was away, and no other', async (t) => {
  const bench = await AgentBench.start(embeddedLoopApi);
  t.after(() => bench.dispose());
  const [forgotten, known] = await Promise.all([bench.play('forgotten'), bench.play('known')]);
  await bench.killAgent();
  await bench.delete('forgotten');
  rmSync(path.join(bench.program.privateDir, 'ghost-records'), { recursive: true });
  await bench.startAgent();
  await eventually(async () => assert.equal((await forgotten.launcher.report()).domain, 'none'), 20_000);
  const { rpcs, kills, harm } = await forgotten.launcher.report();
  assert.deepEqual({ kills, harm }, { kills: 0, harm: [] });
  assert.deepEqual(rpcs.filter((rpc) => /^(shutdown|kill|delete)/.test(rpc)).sort(), [
    'deleteVirtualMachine',
    'shutdownVirtualMachine',
  ]);
  assert.equal(await bench.phase('known'), 'Running');
  assert.deepEqual((await known.launcher.report()).harm, []);
  assert.match(bench.program.log(), /an orphaned launcher runs here: its VMI is no more/);
});
