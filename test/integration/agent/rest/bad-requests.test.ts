import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { eventually } from '../../../fixtures/eventually.ts';
import type { ScriptedLauncher } from '../../../fixtures/scripted-launcher.ts';
import { eachTestHasRestBench, type RestBench, upgradeText, vm1 } from './rest-bench.ts';

let bench: RestBench;
let asked: string[];
eachTestHasRestBench((made) => {
  bench = made;
  asked = [];
  const { get } = bench.vmis;
  bench.vmis.get = (key) => {
    asked.push(key);
    return get.call(bench.vmis, key);
  };
});

const launched = async (): Promise<ScriptedLauncher> => bench.launcher();
const base = '/v1/namespaces/default/virtualmachineinstances';

for (const target of [
  '/',
  '/v1',
  '/healthz',
  base,
  vm1,
  `${vm1}/`,
  `${vm1}/pause/`,
  `${vm1}/pause/now`,
  `${vm1}//pause`,
  `//v1${vm1.slice(3)}/pause`,
  `${vm1}/Pause`,
  vm1.replace('/v1', '/V1').concat('/pause'),
  `${vm1}/vnc/screenshot/../pause`,
  '/v1/namespaces//virtualmachineinstances/vm1/pause',
  '/v1/namespaces/default/virtualmachineinstances//pause',
  `${vm1}/constructor`,
]) {
  test(`${target} is no route: 404 in words`, async () => {
    const answer = await bench.ask('PUT', target);
    assert.equal(answer.status, 404, answer.body);
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    assert.ok(answer.body.length > 0);
  });
}

for (const name of [
  '..',
  '.',
  '..%2f..%2fetc',
  '%2e%2e',
  'vm1%2f..%2fvm1',
  'vm1%00',
  '%00',
  'VM1',
  'vm_1',
  'vm1%0d%0aX-Evil:%201',
  '%ff',
  `${'a'.repeat(254)}`,
  '-vm1',
  '__proto__',
  '%E2%80%AEvm1',
]) {
  test(`the name ${name.slice(0, 40)} is 404 or 400, is looked up nowhere, and the answer has no control characters`, async () => {
    for (const target of [`${base}/${name}/pause`, `/v1/namespaces/${name}/virtualmachineinstances/vm1/pause`]) {
      const answer = await bench.ask('PUT', target);
      assert.ok([400, 404].includes(answer.status), `${answer.status} ${answer.body}`);
      assert.match(answer.body, /^[^\p{Cc}\p{Cf}]+$/u);
      assert.equal(answer.headers['x-evil'], undefined);
    }
    assert.deepEqual(asked, []);
  });
}

test('a wrong method is 405 and names the right one, HEAD and OPTIONS too', async () => {
  const wrong: [method: string, sub: string, allow: string][] = [
    ['GET', '/pause', 'PUT'],
    ['POST', '/pause', 'PUT'],
    ['DELETE', '/freeze', 'PUT'],
    ['OPTIONS', '/pause', 'PUT'],
    ['PUT', '/console', 'GET'],
    ['POST', '/vnc', 'GET'],
    ['PUT', '/vnc/screenshot', 'GET'],
    ['OPTIONS', '/console', 'GET'],
    ['PATCH', '/guestosinfo', 'GET'],
    ['HEAD', '/pause', 'PUT'],
    ['HEAD', '/guestosinfo', 'GET'],
  ];
  const launcher = await launched();
  for (const [method, sub, allow] of wrong) {
    const answer = await bench.ask(method, `${vm1}${sub}`);
    assert.deepEqual([method, sub, answer.status, answer.headers.allow], [method, sub, 405, allow]);
  }
  assert.deepEqual(launcher.calls, []);
});

const large = Buffer.alloc(1024 * 1024 + 1, 0x20);
const bodies: readonly [what: string, status: number, body: Buffer | string][] = [
  ['torn JSON', 400, '{"backupName":"b'],
  ['a list', 400, '[1]'],
  ['a number', 400, '7'],
  ['torn YAML', 400, 'a: [1,\nb: "'],
  ['a wrong type', 400, '{"backupName":7}'],
  ['a wrong type deep inside', 400, '{"skipQuiesce":"yes"}'],
  ['no UTF-8', 400, Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
  ['nesting without end', 400, `{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
  ['a member __proto__', 400, '{"__proto__":{"backupName":"x"}}'],
  ['YAML aliases that multiply', 400, bomb()],
  ['a YAML list of itself', 400, 'a: &a [*a, *a, *a, *a]'],
  ['YAML that nests with every two bytes', 400, '- '.repeat(16_000)],
  ['YAML that nests with every byte', 400, '['.repeat(32_000)],
  ['YAML keys that nest', 400, '? '.repeat(16_000)],
  [
    'YAML that is indented ever deeper',
    400,
    Array.from({ length: 200 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n'),
  ],
  ['more YAML than 32 KiB', 413, '- '.repeat(500_000)],
  ['two documents', 400, 'a: 1\n---\nb: 2\n'],
  ['a tag that makes objects', 400, '!!js/function "x"'],
  ['more than 1 MiB', 413, large],
];

function bomb(): string {
  const levels = Array.from({ length: 9 }, (_, level) => {
    const refs = Array.from({ length: 9 }, () => (level === 0 ? '"lol"' : `*a${level - 1}`)).join(',');
    return `a${level}: &a${level} [${refs}]`;
  });
  return `${levels.join('\n')}\n`;
}

for (const [what, status, body] of bodies) {
  test(`a body that is ${what} is ${status} and reaches no launcher`, async () => {
    const launcher = await launched();
    for (const route of ['/backup', '/redefine-checkpoint', '/sev/injectlaunchsecret']) {
      if (what.startsWith('a wrong type') && route !== '/backup') continue;
      const answer = await bench.put(route, body);
      assert.equal(answer.status, status, `${route}: ${answer.body}`);
      assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    }
    assert.deepEqual(launcher.calls, []);
  });
}

test('what could not be read of a secret is not told again', async () => {
  const answer = await bench.put('/sev/injectlaunchsecret', '{"secret":"hunter2-hunter2",}');
  assert.equal(answer.status, 400);
  assert.doesNotMatch(answer.body, /hunter/);
});

test('a compressed body is refused: 415', async () => {
  const headers = { 'content-encoding': 'gzip' };
  const answer = await bench.ask('PUT', `${vm1}/backup`, { body: gzipSync('{}'), headers });
  assert.equal(answer.status, 415);
});

test('any Content-Type and Accept will do', async () => {
  await launched();
  const headers = { 'content-type': 'nonsense', accept: 'image/tiff' };
  const answer = await bench.ask('PUT', `${vm1}/freeze`, { body: '{"unfreezeTimeout":"5s"}', headers });
  assert.equal(answer.status, 202);
});

test('a request with 10,000 bytes of headers is served', async () => {
  await launched();
  const headers = { 'x-long': 'a'.repeat(10_000) };
  assert.equal((await bench.ask('PUT', `${vm1}/pause`, { headers })).status, 202);
});

test('a body that is announced and does not come keeps nothing but its connection', async () => {
  const launcher = await launched();
  const socket = bench.socket();
  socket.write(`PUT ${vm1}/backup HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"backupName":`);
  await once(socket, 'connect');
  assert.equal((await bench.put('/pause')).status, 202);
  socket.destroy();
  assert.equal((await bench.put('/unpause')).status, 202);
  assert.deepEqual(
    launcher.calls.map(({ rpc }) => rpc),
    ['pauseVirtualMachine', 'unpauseVirtualMachine'],
  );
  await eventually(() => assert.equal(bench.api.state.calls, 0));
});

test('an upgrade where there is no stream is refused in words, and nothing is called', async () => {
  const launcher = await launched();
  const cases: [sub: string, method: string, status: number][] = [
    ['/guestosinfo', 'GET', 400],
    ['/pause', 'PUT', 400],
    ['/backup', 'PUT', 400],
    ['/nothing', 'GET', 404],
    ['/console', 'POST', 405],
    ['/%ff', 'GET', 404],
  ];
  for (const [sub, method, status] of cases) {
    const text = await bench.upgrade(sub, method);
    assert.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), `${method} ${sub}: ${text}`);
    assert.match(text, /\r\nContent-Type: text\/plain; charset=utf-8\r\n/i);
    assert.match(text, /\r\nConnection: close\r\n/i);
  }
  const withBody = `${upgradeText(`${vm1}/backup`, 'PUT').slice(0, -2)}Content-Length: 2\r\n\r\n{}`;
  assert.match(await bench.raw(withBody), /^HTTP\/1\.1 400 /);
  assert.deepEqual(launcher.calls, []);
});

test('a plain request for a stream is 426 and says what it is', async () => {
  for (const sub of ['/console', '/vnc', '/vnc?preserveSession=true']) {
    const answer = await bench.get(sub);
    assert.deepEqual([answer.status, answer.headers.upgrade], [426, 'websocket'], sub);
    assert.match(answer.body, /websocket/);
  }
});

test('a client that is cut off during an upgrade ends nothing but itself', async () => {
  for (let round = 0; round < 20; round++) {
    const socket = bench.socket();
    socket.write(upgradeText(`${vm1}/nothing`));
    await once(socket, 'connect');
    socket.resetAndDestroy();
  }
  await launched();
  assert.equal((await bench.put('/pause')).status, 202);
});
