import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { vmRow } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let headers: Record<string, string>;

before(async () => {
  site = await WebSite.start();
  site.backend.vms.set(vmRow('demo'));
  headers = { authorization: `Bearer ${await site.session()}`, cookie: 'of=another-server', origin: site.origin };
});

after(() => site?.dispose());

const ask = (method: string, target: string) => fetch(`${site.origin}${target}`, { method, headers });
const vmi = '/v1/namespaces/default/virtualmachineinstances/demo';

test('a VM is started and stopped by the backend', async () => {
  for (const action of ['start', 'stop']) {
    assert.equal((await ask('POST', `/api/vms/default/demo/${action}`)).status, 202);
  }
  assert.deepEqual(site.backend.actions.calls, ['start default/demo', 'stop default/demo']);
});

test('what went wrong with an action is told in the words of the backend', async () => {
  site.backend.actions.failure = new Error('the Kubernetes API does not answer');
  const answer = await ask('POST', '/api/vms/default/demo/start');
  site.backend.actions.failure = undefined;
  assert.deepEqual([answer.status, await answer.json()], [502, { message: 'the Kubernetes API does not answer' }]);
});

test('what the backend has decided that it cannot do is no failure of a server', async () => {
  for (const [code, status] of [
    ['NOT_FOUND', 404],
    ['UNSUPPORTED', 409],
    ['CONFLICT', 409],
  ] as const) {
    site.backend.actions.failure = Object.assign(new Error('it runs already'), { code });
    const answer = await ask('POST', '/api/vms/default/demo/start');
    assert.deepEqual([code, answer.status, await answer.json()], [code, status, { message: 'it runs already' }]);
  }
  site.backend.actions.failure = undefined;
});

test('an unknown VM and an unknown action are 404', async () => {
  const calls = site.backend.actions.calls.length;
  for (const target of [
    '/api/vms/default/other/stop',
    '/api/vms/default/demo/delete',
    '/api/vms/default%2Fdemo/stop',
  ]) {
    assert.deepEqual([target, (await ask('POST', target)).status], [target, 404]);
  }
  assert.equal(site.backend.actions.calls.length, calls);
});

test('decisions and the state are what the agent answers; an agent that is away is 502 with the reason', async () => {
  for (const target of ['/why', '/why/default/demo', '/state']) {
    assert.deepEqual(await (await ask('GET', `/api${target}`)).json(), { target });
  }
  assert.deepEqual(await (await ask('GET', '/api/waiting/default/demo')).json(), { waiting: 'default/demo' });
  site.backend.agentProblem = new Error('it does not run');
  const [answer, waiting] = [await ask('GET', '/api/why'), await ask('GET', '/api/waiting/default/demo')];
  site.backend.agentProblem = undefined;
  assert.deepEqual(
    [answer.status, await answer.json()],
    [502, { message: 'the agent cannot be asked: it does not run' }],
  );
  assert.deepEqual(await waiting.json(), { message: 'the API cannot be asked: it does not run' });
});

test('each node’s agent tells for itself; a node that is none has none', async () => {
  const { nodes } = site.backend;
  nodes.set({ name: 'a', agent: 'ready', isCordoned: false }, { name: 'b', agent: 'away', isCordoned: false });
  for (const node of ['a', 'b']) {
    for (const target of ['/why', '/state']) {
      assert.deepEqual(await (await ask('GET', `/api/nodes/${node}${target}`)).json(), { node, target });
    }
  }
  for (const target of ['/api/nodes/c/why', '/api/nodes/a/why/default/demo', '/api/nodes/a/cordon']) {
    assert.deepEqual([target, (await ask('GET', target)).status], [target, 404]);
  }
  nodes.failure = new Error('the agent of b does not run');
  const answer = await ask('GET', '/api/nodes/b/state');
  nodes.failure = undefined;
  nodes.set();
  assert.deepEqual(
    [answer.status, await answer.json()],
    [502, { message: 'the agent cannot be asked: the agent of b does not run' }],
  );
});

test('requests to the agent go on as they are, without the secrets of the page', async () => {
  const lines = [`GET ${vmi}/vnc/screenshot?x=1`, `PUT ${vmi}/pause`, `PUT ${vmi}/unpause`, `PUT ${vmi}/reset`];
  for (const line of [...lines, `GET ${vmi}/console`]) {
    const [method = '', target = ''] = line.split(' ');
    assert.equal(await (await ask(method, target)).text(), line);
    const { headers } = site.backend.api.requests.at(-1) ?? {};
    assert.deepEqual([headers?.cookie, headers?.authorization], [undefined, undefined]);
  }
});

test('a stop of the server ends requests under way, events and streams', async () => {
  const other = await WebSite.start();
  const key = await other.session();
  const socket = connect(other.port, '127.0.0.1');
  const host = `Host: 127.0.0.1:${other.port}\r\nSec-WebSocket-Protocol: bearer.virt-handler.io.${key}\r\nOrigin: ${other.origin}`;
  socket.write(`GET ${vmi}/console HTTP/1.1\r\n${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  await once(socket, 'data');
  const events = await fetch(`${other.origin}/api/vms/events`, { headers: { authorization: `Bearer ${key}` } });
  const reader = events.body?.getReader();
  await reader?.read();
  const closed = once(socket.resume(), 'close');
  await other.dispose();
  await closed;
  await assert.rejects(async () => {
    for (;;) if ((await reader?.read())?.done !== false) throw new Error('ended');
  });
  await eventually(() => assert.equal(other.backend.vms.listeners, 0));
});
