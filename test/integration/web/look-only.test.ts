import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { rawUpgrade } from '../../fixtures/raw-http.ts';
import { vmRow } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let viewToken: string;
let key: string;

const vmi = '/v1/namespaces/default/virtualmachineinstances/demo';
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
const ask = (method: string, target: string, secret: string) =>
  fetch(`${site.origin}${target}`, { method, headers: bearer(secret) });
const upgrade = (target: string, secret = key) =>
  rawUpgrade(site.port, target, [`Host: 127.0.0.1:${site.port}`, `Authorization: Bearer ${secret}`]);

before(async () => {
  site = await WebSite.start();
  site.backend.vms.set(vmRow('demo'));
  viewToken = new URL(site.server.viewUrl).hash.slice('#token='.length);
  const made = await ask('POST', '/api/session', viewToken);
  assert.equal(made.status, 201);
  key = ((await made.json()) as { key: string }).key;
});

after(() => site?.dispose());

test('its address differs in the token alone, and is of this start', async () => {
  assert.equal(new URL(site.server.viewUrl).host, new URL(site.server.url).host);
  assert.notEqual(viewToken, site.token);
});

test('who looks sees the list, decisions and pictures, and is told that there is nothing to do', async () => {
  for (const secret of [viewToken, key]) {
    const list = (await (await ask('GET', '/api/vms', secret)).json()) as { actions: boolean; lookOnly: boolean };
    assert.deepEqual([list.actions, list.lookOnly], [false, true]);
    for (const target of ['/api/why', '/api/state', `${vmi}/vnc/screenshot`, `${vmi}/guestosinfo`]) {
      assert.equal((await ask('GET', target, secret)).status, 200, target);
    }
  }
  const mine = (await (await ask('GET', '/api/vms', site.token)).json()) as { actions: boolean; lookOnly?: boolean };
  assert.deepEqual([mine.actions, mine.lookOnly], [true, undefined]);
});

test('the events of the list say it, too', async () => {
  const answer = await ask('GET', '/api/vms/events', key);
  const reader = answer.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  assert.match(Buffer.from(value ?? []).toString(), /"actions":false,"lookOnly":true/);
});

test('who looks does nothing: no method but reading reaches a route, one that does not exist yet neither', async () => {
  const before = site.backend.api.requests.length;
  const tried: [string, string][] = [
    ['POST', '/api/vms/default/demo/start'],
    ['POST', '/api/vms/default/demo/stop'],
    ['POST', '/api/nodes/one/empty'],
    ['PUT', `${vmi}/pause`],
    ['PUT', `${vmi}/reset`],
    ['POST', '/api/of-tomorrow'],
    ['DELETE', '/api/of-tomorrow'],
    ['PATCH', '/api/of-tomorrow'],
    ['OPTIONS', '/api/vms'],
  ];
  for (const [method, target] of tried) {
    for (const secret of [viewToken, key]) {
      const answer = await ask(method, target, secret);
      assert.deepEqual([method, target, answer.status], [method, target, 403]);
    }
  }
  assert.deepEqual(site.backend.api.requests.slice(before), []);
  assert.deepEqual(site.backend.actions.calls, []);
  assert.equal((await ask('POST', '/api/vms/default/demo/start', site.token)).status, 202);
});

test('a session for looking makes no session, and none for acting can be made of it', async () => {
  assert.equal((await ask('POST', '/api/session', key)).status, 403);
  const [until = '', mac] = key.replace('look', '').split('.');
  for (const forged of [`${until}.${mac}`, `act${until}.${mac}`, `look${Number(until) + 1}.${mac}`]) {
    assert.equal((await ask('GET', '/api/vms', forged)).status, 401, forged);
  }
});

test('of streams only those that look on are opened, and the agent is told that they stay so', async () => {
  for (const kind of ['console', 'vnc']) {
    for (const query of [
      ...['', '?access=take', '?access=take-if-free', '?access=', '?access=VIEW', '?preserveSession=true'],
      ...['?access=view&access=take', '?access=take&access=view', '?a=view', '?access%3dview'],
    ]) {
      const answer = await upgrade(`${vmi}/${kind}${query}`);
      assert.deepEqual([kind, query, answer.status], [kind, query, 403]);
    }
    const before = site.backend.api.requests.length;
    assert.equal((await upgrade(`${vmi}/${kind}?access=view&line=a&from=3`)).status, 101);
    assert.deepEqual(
      site.backend.api.requests.slice(before).map(({ line }) => line),
      [`UPGRADE ${vmi}/${kind}?access=view-only&line=a&from=3`],
    );
    assert.equal((await upgrade(`${vmi}/${kind}?access=take`, site.token)).status, 101);
  }
});
