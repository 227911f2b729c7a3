import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AgentApi, agentOf, VncProxy, vmPath } from '../../src/standalone/index.ts';
import { AgentStandIn } from '../fixtures/agent-stand-in.ts';
import { attack, localUser } from '../fixtures/attacker.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can become another user';

test('the port that somebody opened for his viewer shows the screen to no other user', {
  skip: needsRoot,
}, async (t) => {
  const agent = await AgentStandIn.start();
  t.after(() => agent.stop());
  const api = new AgentApi(agentOf(agent.paths));
  const path = `${vmPath('default', 'demo')}/vnc?access=take-if-free`;
  const reported: string[] = [];
  const proxyFor = async (users: number[]) => {
    const proxy = new VncProxy(0, users, {
      open: async (signal) => {
        const screen = await api.stream(path, 'plain.kubevirt.io', signal);
        // QEMU speaks first.
        agent.guest.write('RFB 003.008\n');
        return screen;
      },
      report: (line) => void reported.push(line),
    });
    t.after(() => proxy.stop());
    return proxy.start();
  };
  const mine = await proxyFor([0]);
  assert.deepEqual(await attack('viewer', localUser, { port: mine }), { seen: '' });
  assert.deepEqual(reported, [`a viewer of the user with the number ${localUser.uid} was refused`]);
  assert.equal(agent.guests.length, 0, 'the guest was not even asked');
  const shared = await proxyFor([0, localUser.uid]);
  assert.deepEqual(await attack('viewer', localUser, { port: shared }), { seen: 'RFB 003.008\n' });
});
