import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { AgentApi, AgentProxy, agentOf, arrivalByApi, ConsoleStream, vmPath } from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi } from '../../fixtures/node-process.ts';
import { serveProxy } from '../../fixtures/proxy-server.ts';
import { StreamClient, UpgradeRefused } from '../../fixtures/stream-client.ts';

const demo = { namespace: 'default', name: 'demo', access: 'take-if-free', replay: true } as const;

describe('streams of a VM that moves to another node', () => {
  let source: AgentStandIn;
  let target: AgentStandIn;
  /** What the API says, and the clients that wait for it. */
  let node: string;
  let isMoving: boolean;
  let waiting: (() => void)[];
  let asked: number;

  beforeEach(async () => {
    source = await AgentStandIn.start();
    target = await AgentStandIn.startBeside(source);
    node = source.node;
    isMoving = false;
    waiting = [];
    asked = 0;
  });
  afterEach(async () => {
    await target.stop();
    await source.stop();
  });

  const find = () =>
    agentOf(
      source.paths,
      async () => node,
      async () => {
        asked++;
        if (isMoving) await new Promise<void>((resolve) => waiting.push(resolve));
      },
    );

  /** As QEMU does it: it is over at the source before the API says that it goes on at the target. */
  function leave(): void {
    isMoving = true;
    source.movedTo = target.node;
    source.hasVmi = false;
    for (const guest of source.guests) guest.end();
  }

  function arrive(): void {
    isMoving = false;
    target.hasVmi = true;
    node = target.node;
    for (const resolve of waiting.splice(0)) resolve();
  }

  test('virt-node console goes on at the new node: what was shown stays, and what was typed in between arrives', async () => {
    const reported: string[] = [];
    const deps = { agent: new AgentApi(find()), report: (line: string) => void reported.push(line) };
    const stream = await ConsoleStream.open(demo, deps, AbortSignal.timeout(60_000));
    let seen = '';
    stream.on('data', (chunk: Buffer) => {
      seen += chunk;
    });
    source.guest.write('before ');
    await eventually(() => assert.equal(seen, 'before '));
    leave();
    await eventually(() => assert.equal(waiting.length, 1));
    stream.write('typed');
    arrive();
    await eventually(() => assert.equal(target.guests.length, 1));
    let typed = '';
    target.guest.on('data', (chunk) => {
      typed += chunk;
    });
    target.guest.write('after');
    await eventually(() => assert.deepEqual([seen, typed], ['before after', 'typed']));
    assert.equal(stream.role, 'writer');
    assert.equal(asked, 1, 'nobody asked again and again');
    assert.deepEqual(reported, [
      'the virtual machine goes on at node node-2; the console follows',
      'connected at its new node',
    ]);
    stream.destroy();
    await once(stream, 'close');
  });

  test('a refusal of a VM that does not move is passed on as it is, and is asked for once', async () => {
    source.hasVmi = false;
    const opening = ConsoleStream.open(
      demo,
      { agent: new AgentApi(find()), report: () => undefined },
      AbortSignal.timeout(60_000),
    );
    await assert.rejects(opening, /VMI is unknown/);
    assert.equal(source.calls.length, 1);
  });

  describe('through the proxy of page and API', () => {
    let address: string;
    let stop: () => Promise<void>;

    beforeEach(async () => {
      const proxy = new AgentProxy({ find: find(), log: silentLogger });
      const server = await serveProxy(proxy);
      address = `ws://127.0.0.1:${server.port}${vmPath('default', 'demo')}`;
      stop = server.stop;
    });
    afterEach(() => stop());

    for (const route of ['console', 'vnc?access=take-if-free']) {
      test(`${route}: the close says where it goes on, and who comes again is led there once it has arrived`, async () => {
        const first = await StreamClient.open(`${address}/${route}`, ['plain.kubevirt.io']);
        leave();
        const closed = { code: 4004, reason: 'the virtual machine goes on at node node-2' };
        await eventually(() => assert.deepEqual(first.closed, closed));
        const again = StreamClient.open(`${address}/${route}`, ['plain.kubevirt.io']);
        await eventually(() => assert.equal(waiting.length, 1));
        arrive();
        const second = await again;
        await eventually(() => assert.equal(target.guests.length, 1));
        second.socket.terminate();
      });
    }

    test('a guest that does not arrive: the refusal of its node counts after all', async () => {
      leave();
      const refused = StreamClient.open(`${address}/console`, ['plain.kubevirt.io']);
      await eventually(() => assert.equal(waiting.length, 1));
      isMoving = false;
      for (const resolve of waiting.splice(0)) resolve();
      await assert.rejects(refused, UpgradeRefused);
      assert.equal(target.calls.length, 0);
    });
  });
});

describe('waiting for a VM on its way', () => {
  const signal = AbortSignal.timeout(60_000);

  test('ends by a watch of the API: with the arrival, a failure, the end of the VM; one that does not move is not waited for', async (t) => {
    const api = await startEmbeddedApi();
    t.after(() => api.stop());
    const address = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
    const vmi = demoVmi('demo');
    const created = await api.controller.post(address, vmi);
    assert.equal(created.status, 201, JSON.stringify(created.body));
    const wait = () => arrivalByApi(api)({ namespace: 'default', name: 'demo' }, signal);
    const put = async (status: object) => {
      const answer = await api.controller.patch(`${address}/demo`, 'merge', { status });
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
    };
    const moves = { sourceNode: 'a', targetNode: 'b', startTimestamp: '2026-01-02T03:04:05Z' };
    await wait();
    for (const end of [{ nodeName: 'b' }, { migrationState: { ...moves, failed: true } }, { phase: 'Failed' }]) {
      await put({ phase: 'Running', nodeName: 'a', migrationState: { ...moves, failed: null } });
      let isOver = false;
      const waiting = wait().then(() => {
        isOver = true;
      });
      await put({ guestOSInfo: { name: 'still on its way' } });
      assert.equal(isOver, false);
      await put(end);
      await waiting;
    }
    await api.controller.delete(`${address}/demo`);
    await arrivalByApi(api)({ namespace: 'default', name: 'nobody' }, signal);
  });
});
