import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, suite, test } from 'node:test';
import { embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { AgentProgram } from '../../fixtures/agent-process.ts';
import { loopCases } from '../../fixtures/loop-cases.ts';

suite('the program virt-handler on the embedded API', () => loopCases(embeddedLoopApi));

suite('the command line of virt-handler', () => {
  const program = new AgentProgram();
  before(() => program.build());
  after(() => program.dispose());

  test('an unknown flag prints the usage and exits with 2; so do names that differ and a missing address', async () => {
    const wrong = [
      ['--no-such-flag'],
      ['--pod-ip-address', '127.0.0.1', '--hostname-override', 'node2'],
      ['--hostname-override', 'node1'],
    ];
    for (const args of wrong) {
      const [code] = await once(program.spawn(args), 'exit');
      assert.equal(code, 2, args.join(' '));
    }
    for (const text of [
      /unknown flag: --no-such-flag/,
      /Usage of virt-handler/,
      /must name this node/,
      /--pod-ip-address is missing/,
    ]) {
      assert.match(program.log(), text);
    }
  });
});
