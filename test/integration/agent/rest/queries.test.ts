import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommandRpc } from '../../../../src/launcher-client/index.ts';
import { eachTestHasRestBench, type RestBench } from './rest-bench.ts';

let bench: RestBench;
eachTestHasRestBench((made) => {
  bench = made;
});

const ok = { success: true, message: '' };

test('guest OS info comes as indented JSON, with everything that the launcher told', async () => {
  const launcher = await bench.launcher();
  const info = { guestAgentVersion: '8.2', os: { id: 'debian' }, fsInfo: { disks: [] }, later: 1 };
  launcher.on('getGuestInfo', () => ({ response: ok, guestInfoResponse: JSON.stringify(info) }));
  const answer = await bench.get('/guestosinfo');
  assert.deepEqual([answer.status, answer.headers['content-type']], [200, 'application/json']);
  assert.deepEqual(JSON.parse(answer.body), info);
  assert.match(answer.body, /^\{\n "guestAgentVersion": "8.2",\n/);
});

test('a guest without agent has an empty object, with the parts that upstream always writes', async () => {
  const launcher = await bench.launcher();
  launcher.on('getGuestInfo', () => ({ response: ok, guestInfoResponse: '' }));
  assert.deepEqual(JSON.parse((await bench.get('/guestosinfo')).body), { os: {}, fsInfo: { disks: null } });
});

for (const [route, rpc, field] of [
  ['/userlist', 'getUsers', 'guestUserListResponse'],
  ['/filesystemlist', 'getFilesystems', 'guestFilesystemsResponse'],
] as const) {
  test(`GET ${route} wraps the launcher's list, and null stays null`, async () => {
    const launcher = await bench.launcher();
    const cases: [json: string, items: unknown][] = [
      ['[{"userName":"a","loginTime":1.5}]', [{ userName: 'a', loginTime: 1.5 }]],
      ['[]', []],
      ['null', null],
      ['', null],
    ];
    for (const [json, items] of cases) {
      launcher.on(rpc, () => ({ response: ok, [field]: json }));
      const answer = await bench.get(route);
      assert.deepEqual([answer.status, JSON.parse(answer.body)], [200, { metadata: {}, items }], json);
    }
  });
}

test('SEV routes hand on what the launcher measured', async () => {
  const launcher = await bench.launcher();
  launcher.on('getSevInfo', () => ({ response: ok, sevInfo: Buffer.from('{"pdh":"p","certChain":"c"}') }));
  launcher.on('getLaunchMeasurement', () => ({ response: ok, launchMeasurement: Buffer.from('{"measurement":"m"}') }));
  assert.deepEqual(JSON.parse((await bench.get('/sev/fetchcertchain')).body), { pdh: 'p', certChain: 'c' });
  assert.deepEqual(JSON.parse((await bench.get('/sev/querylaunchmeasurement')).body), { measurement: 'm' });
});

test('a screenshot is the launcher’s bytes and type', async () => {
  const launcher = await bench.launcher();
  const data = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 10]);
  launcher.on('getScreenshot', () => ({ response: ok, mime: 'image/png', data }));
  const answer = await bench.get('/vnc/screenshot');
  assert.deepEqual([answer.status, answer.headers['content-type']], [200, 'image/png']);
  assert.deepEqual(answer.bytes, data);
});

test('a page that calls itself a picture is handed on as bytes', async () => {
  const launcher = await bench.launcher();
  for (const mime of ['text/html', 'image/svg+xml', 'image/png\r\nX-Evil: 1', '']) {
    launcher.on('getScreenshot', () => ({ response: ok, mime, data: Buffer.from('<script>') }));
    const { headers } = await bench.get('/vnc/screenshot');
    const reported = [headers['content-type'], headers['x-content-type-options'], headers['x-evil']];
    assert.deepEqual(reported, ['application/octet-stream', 'nosniff', undefined], mime);
  }
});

test('a screenshot that failed is 500 with the launcher’s words, not an empty picture', async () => {
  const launcher = await bench.launcher();
  launcher.fail('getScreenshot', 'no screen');
  const failed = await bench.get('/vnc/screenshot');
  assert.equal(failed.status, 500);
  assert.match(failed.body, /no screen/);
  launcher.on('getScreenshot', () => ({ response: ok, mime: '', data: Buffer.alloc(0) }));
  assert.equal((await bench.get('/vnc/screenshot')).status, 500);
});

const lies: readonly [route: string, rpc: CommandRpc, field: string, json: string][] = [
  ['/guestosinfo', 'getGuestInfo', 'guestInfoResponse', '{"torn'],
  ['/guestosinfo', 'getGuestInfo', 'guestInfoResponse', '[]'],
  ['/guestosinfo', 'getGuestInfo', 'guestInfoResponse', '['.repeat(500_000) + ']'.repeat(500_000)],
  ['/userlist', 'getUsers', 'guestUserListResponse', '{}'],
  ['/userlist', 'getUsers', 'guestUserListResponse', '['.repeat(500_000) + ']'.repeat(500_000)],
  ['/filesystemlist', 'getFilesystems', 'guestFilesystemsResponse', '"x"'],
];

for (const [route, rpc, field, json] of lies) {
  test(`GET ${route}: a launcher that answers ${json.slice(0, 20)} is told as 500, and the agent serves on`, async () => {
    const launcher = await bench.launcher();
    launcher.on(rpc, () => ({ response: ok, [field]: json }));
    const answer = await bench.get(route);
    assert.equal(answer.status, 500);
    assert.ok(answer.body.length > 0 && answer.body.length < 1000, answer.body.slice(0, 200));
    assert.equal((await bench.put('/pause')).status, 202);
  });
}

test('an old launcher that does not know a call is 500 in its words', async () => {
  const launcher = await bench.launcher();
  launcher.on('getSevInfo', () => Promise.reject({ code: 12, details: 'unknown method GetSEVInfo' }));
  const answer = await bench.get('/sev/fetchcertchain');
  assert.equal(answer.status, 500);
  assert.match(answer.body, /Unimplemented.*GetSEVInfo/);
});
