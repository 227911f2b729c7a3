import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { agentOf } from '../../../src/standalone/index.ts';
import { AgentConsole } from '../../fixtures/agent-console.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';
import type { StreamClient } from '../../fixtures/stream-client.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'obeys';

describe('lifecycle routes of the agent on a real QEMU', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let agent: AgentConsole;
  let console: StreamClient;
  let qemu: number | undefined;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    agent = new AgentConsole(agentOf(node.paths));
    await node.apply(demoVmi(name));
    await node.vmiUntil(name, (vmi) => vmi?.status?.phase === 'Running');
    qemu = await node.qemuPid(name);
    console = await agent.stream(name, 'console');
    await login();
  });
  after(() => node.dispose());

  /** At the prompt of a shell in which `$mark` is set. */
  async function login(): Promise<void> {
    const from = console.shown.length;
    const knock = setInterval(() => console.type('\r'), 500);
    await console.until(/login: $/, 60_000, from).finally(() => clearInterval(knock));
    console.type('root\r');
    await console.until(/# $/, 30_000, from);
    console.type('mark=of-this-boot\r');
  }

  async function put(route: string, body?: string): Promise<void> {
    const answer = await agent.call('PUT', name, route, body);
    assert.deepEqual([answer.status, answer.body.toString()], [202, '']);
  }

  async function untilEvent(reason: string): Promise<void> {
    await eventually(async () =>
      assert.match(
        await node.kubectl('get', 'events', '-o', 'custom-columns=:.type,:.reason'),
        new RegExp(`Normal +${reason}`),
      ),
    );
  }

  const isPaused = async () => findCondition((await node.vmi(name))?.status?.conditions, 'Paused')?.status === 'True';

  test('pause: the guest does not answer any more, its VMI says Paused; unpause: it does what was typed meanwhile', async () => {
    await put('pause');
    await eventually(async () => assert.ok(await isPaused()));
    const from = console.shown.length;
    console.type('echo "<$mark>"\r');
    await stays(() => assert.equal(console.shown.slice(from), ''), 1_500);
    await put('unpause');
    await console.until(/^<of-this-boot>\r?$/m, 30_000, from);
    await eventually(async () => assert.ok(!(await isPaused())));
    await untilEvent('Paused');
    await untilEvent('Unpaused');
  });

  test('pause and unpause that are there already are fine', async () => {
    await put('unpause');
    await put('pause');
    await put('pause');
    await put('unpause');
    await eventually(async () => assert.ok(!(await isPaused())));
  });

  /** Until the guest has booted once more, in the same QEMU and on the same session. */
  async function untilBootedAgain(): Promise<void> {
    await login();
    assert.equal(console.closed, undefined);
    assert.equal(await node.qemuPid(name), qemu);
    assert.equal((await node.vmi(name))?.status?.phase, 'Running');
  }

  test('reset boots the guest anew at once; the console goes on', async () => {
    await put('reset');
    await untilBootedAgain();
    await untilEvent('Reset');
  });

  test('softreboot asks the guest, by its power button here, and boots it anew; the console goes on', async () => {
    const from = console.shown.length;
    await put('softreboot');
    await console.until(/demo guest: shutting down/, 30_000, from);
    await untilBootedAgain();
    await untilEvent('SoftRebooted');
  });

  for (const route of ['guestosinfo', 'userlist', 'filesystemlist']) {
    test(`${route} without a guest agent is empty, as upstream's`, async () => {
      const { status, contentType, body } = await agent.call('GET', name, route);
      assert.equal(status, 200, body.toString());
      assert.match(contentType, /^application\/json/);
      assert.equal(typeof JSON.parse(body.toString()), 'object');
    });
  }

  test('freeze without a guest agent says in words that there is none', async () => {
    const { status, contentType, body } = await agent.call('PUT', name, 'freeze', '{"unfreezeTimeout":"5m0s"}');
    assert.equal(status, 400);
    assert.match(contentType, /^text\/plain/);
    assert.match(body.toString(), /guest agent/i);
  });

  test('of a VMI that is not there each route is 404', async () => {
    for (const route of ['pause', 'unpause', 'reset', 'softreboot', 'freeze', 'unfreeze']) {
      const { status, body } = await agent.call('PUT', 'nobody', route);
      assert.deepEqual([route, status], [route, 404]);
      assert.match(body.toString(), /VMI default\/nobody does not exist/);
    }
  });
});
