import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { AgentApi, agentOf, VncProxy, vmPath } from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { eventually } from '../../fixtures/eventually.ts';

describe('a local port for a VNC viewer', () => {
  let agent: AgentStandIn;
  let proxy: VncProxy;
  let port: number;
  let reported: string[];

  beforeEach(async () => {
    agent = await AgentStandIn.start();
    reported = [];
    const api = new AgentApi(agentOf(agent.paths));
    const path = `${vmPath('default', 'demo')}/vnc?access=take-if-free`;
    proxy = new VncProxy(0, [process.getuid?.() ?? 0], {
      open: (signal) => api.stream(path, 'plain.kubevirt.io', signal),
      report: (line) => void reported.push(line),
    });
    port = await proxy.start();
  });
  afterEach(async () => {
    await proxy.stop();
    await agent.stop();
  });

  /** QEMU speaks first. */
  async function viewer(): Promise<Socket> {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    const before = agent.guests.length;
    await eventually(() => assert.equal(agent.guests.length, before + 1));
    const hello = once(socket, 'data');
    agent.guest.write('RFB 003.008\n');
    assert.equal(String((await hello)[0]), 'RFB 003.008\n');
    return socket;
  }

  test('one viewer after the other sees the screen; a second one at the same time is refused', async () => {
    const first = await viewer();
    const version = once(agent.guest, 'data');
    first.write('RFB 003.008\n');
    assert.equal(String((await version)[0]), 'RFB 003.008\n');
    const second = connect(port, '127.0.0.1');
    await once(second, 'close');
    first.end();
    await eventually(() => assert.match(reported.join('\n'), /refused[\s\S]*another one may connect/));
    (await viewer()).destroy();
    await eventually(() => assert.equal(reported.at(-1), 'the viewer is gone; another one may connect'));
    assert.doesNotMatch(reported.join('\n'), /code 1/);
  });

  test('a viewer is told why it has no screen, and the port stays', async () => {
    await agent.kill();
    const refused = connect(port, '127.0.0.1');
    await once(refused, 'close');
    await eventually(() => assert.match(reported.join('\n'), /no screen: virt-handler does not answer/));
    await agent.serve();
    const seen = await viewer();
    const gone = once(seen, 'close');
    agent.streams.endAll(agent.uid, 'the virtual machine has ended');
    await gone;
    await eventually(() => assert.match(reported.join('\n'), /the virtual machine has ended/));
  });

  test('a port that is taken is refused with what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const taken = typeof address === 'object' && address ? address.port : 0;
    const open = () => Promise.reject(new Error('nobody connects'));
    const second = new VncProxy(taken, [], { open, report: () => undefined });
    await assert.rejects(second.start(), {
      code: 'PORT_TAKEN',
      message: `port ${taken} is taken: choose another --port`,
    });
    await second.stop();
    other.close();
  });
});
