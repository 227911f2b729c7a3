import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommandRpc } from '../../../../src/launcher-client/index.ts';
import { uid } from '../../../fixtures/agent/builders.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { eachTestHasRestBench, type RestBench, vm1 } from './rest-bench.ts';

let bench: RestBench;
eachTestHasRestBench((made) => {
  bench = made;
});

const orders: readonly [route: string, rpc: CommandRpc, event: string | undefined][] = [
  ['/pause', 'pauseVirtualMachine', 'Paused'],
  ['/unpause', 'unpauseVirtualMachine', 'Unpaused'],
  ['/reset', 'resetVirtualMachine', 'Reset'],
  ['/softreboot', 'softRebootVirtualMachine', 'SoftRebooted'],
  ['/unfreeze', 'unfreezeVirtualMachine', undefined],
];

for (const [route, rpc, event] of orders) {
  test(`PUT ${route} calls the launcher with the whole VMI and answers 202 without a body`, async () => {
    const launcher = await bench.launcher();
    const answer = await bench.put(route, 'what stands here is ignored');
    assert.deepEqual([answer.status, answer.body], [202, '']);
    const { request } = launcher.calls[0] as { request: { vmi: { vmiJson: Buffer } } };
    assert.deepEqual(JSON.parse(request.vmi.vmiJson.toString()), bench.vmis.get('default/vm1'));
    assert.equal(launcher.count(rpc), 1);
    const reported = bench.events.map(({ type, reason, uid: of }) => [type, reason, of]);
    assert.deepEqual(reported, event === undefined ? [] : [['Normal', event, uid]]);
  });
}

test('PUT /freeze gives the launcher its limit in whole seconds, from JSON and from YAML', async () => {
  const launcher = await bench.launcher();
  const bodies: [body: string, seconds: number][] = [
    ['{"unfreezeTimeout":"5m0s"}', 300],
    ['{"unfreezeTimeout":"1.9s"}', 1],
    ['unfreezeTimeout: 1h2m\n', 3720],
    ['{"UnfreezeTimeout":"0s"}', 0],
  ];
  for (const [body, seconds] of bodies) {
    assert.equal((await bench.put('/freeze', body)).status, 202, body);
    const { request } = launcher.calls.at(-1) as { request: { unfreezeTimeoutSeconds: number } };
    assert.equal(request.unfreezeTimeoutSeconds, seconds, body);
  }
});

for (const body of [
  undefined,
  '',
  '{}',
  '{"unfreezeTimeout":null}',
  '{"unfreezeTimeout":5}',
  '{"unfreezeTimeout":"-5s"}',
  '{"unfre',
]) {
  test(`PUT /freeze with the body ${JSON.stringify(body)} answers 400 and freezes nothing`, async () => {
    const launcher = await bench.launcher();
    const answer = await bench.put('/freeze', body);
    assert.equal(answer.status, 400, answer.body);
    assert.deepEqual([launcher.calls, bench.events], [[], []]);
  });
}

const refusals: readonly [route: string, rpc: CommandRpc, status: number, text: string, event?: string][] = [
  ['/pause', 'pauseVirtualMachine', 500, 'server error. command Pause failed: "not \\"now\\""'],
  ['/reset', 'resetVirtualMachine', 500, 'server error. command Reset failed: "not \\"now\\""'],
  ['/freeze', 'freezeVirtualMachine', 400, 'server error. command Freeze failed: "not \\"now\\""', 'FreezeError'],
  ['/unfreeze', 'unfreezeVirtualMachine', 400, 'server error. command Unfreeze failed: "not \\"now\\""'],
  ['/backup', 'backupVirtualMachine', 400, 'server error. command Backup failed: "not \\"now\\""', 'BackupError'],
  [
    '/sev/injectlaunchsecret',
    'injectLaunchSecret',
    500,
    'server error. command InjectLaunchSecret failed: "not \\"now\\""',
  ],
  ['/redefine-checkpoint', 'redefineCheckpoint', 503, 'RedefineCheckpoint failed: not "now"'],
];

for (const [route, rpc, status, text, event] of refusals) {
  test(`PUT ${route} answers ${status} with the launcher's words when it refuses`, async () => {
    const launcher = await bench.launcher();
    launcher.fail(rpc, 'not "now"');
    const answer = await bench.put(route, '{"unfreezeTimeout":"5s"}');
    assert.deepEqual([answer.status, answer.body], [status, text]);
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    const reported = bench.events.map(({ type, reason, message }) => [type, reason, message]);
    assert.deepEqual(reported, event === undefined ? [] : [['Warning', event, text]]);
  });
}

test('a corrupt checkpoint is told by status 422 and its standard reason, which callers search for', async () => {
  const launcher = await bench.launcher();
  launcher.on('redefineCheckpoint', () => ({
    response: { success: false, message: 'no bitmap' },
    checkpointInvalid: true,
  }));
  const answer = await bench.put('/redefine-checkpoint', '{"name":"c1"}');
  assert.deepEqual([answer.status, answer.reason], [422, 'Unprocessable Entity']);
  assert.equal(answer.body, 'RedefineCheckpoint failed: no bitmap');
});

test('a checkpoint that is redefined answers 200; its names reach the launcher in their proper case', async () => {
  const launcher = await bench.launcher();
  const body = 'Name: c1\nvolumes:\n- volumename: root\n  diskTarget: vda\n  later: 7\ncreationTime: null\n';
  const answer = await bench.put('/redefine-checkpoint', body);
  assert.deepEqual([answer.status, answer.body], [200, '']);
  const { request } = launcher.calls[0] as { request: { checkpoint: Buffer } };
  assert.deepEqual(JSON.parse(request.checkpoint.toString()), {
    name: 'c1',
    volumes: [{ volumeName: 'root', diskTarget: 'vda', later: 7 }],
  });
});

test('a checkpoint call that breaks answers 503: it may be tried again', async () => {
  const launcher = await bench.launcher();
  launcher.on('redefineCheckpoint', () => Promise.reject({ code: 13, details: 'broken' }));
  const answer = await bench.put('/redefine-checkpoint', '{}');
  assert.equal(answer.status, 503);
  assert.match(answer.body, /^RedefineCheckpoint call failed: .*broken/);
});

for (const [route, rpc] of [
  ['/backup', 'backupVirtualMachine'],
  ['/redefine-checkpoint', 'redefineCheckpoint'],
  ['/sev/injectlaunchsecret', 'injectLaunchSecret'],
] as const) {
  test(`PUT ${route} takes an empty body for an empty object`, async () => {
    const launcher = await bench.launcher();
    const { status } = await bench.put(route);
    assert.ok(status === 200 || status === 202, String(status));
    const { request } = launcher.calls[0] as { request: { options?: Buffer; checkpoint?: Buffer } };
    assert.deepEqual([launcher.calls[0]?.rpc, String(request.options ?? request.checkpoint)], [rpc, '{}']);
  });
}

test('backup options reach the launcher whole', async () => {
  const launcher = await bench.launcher();
  const options = {
    backupName: 'b',
    cmd: 'Start',
    mode: 'Push',
    skipQuiesce: true,
    targetPath: '/x',
    incremental: 'c1',
  };
  assert.equal((await bench.put('/backup', JSON.stringify({ ...options, caCert: null }))).status, 202);
  const { request } = launcher.calls[0] as { request: { options: Buffer } };
  assert.deepEqual(JSON.parse(request.options.toString()), options);
});

test('two pauses at once both reach the launcher and are both answered', async () => {
  const launcher = await bench.launcher();
  const answers = await Promise.all([bench.put('/pause'), bench.put('/pause')]);
  assert.deepEqual([...answers.map(({ status }) => status), launcher.count('pauseVirtualMachine')], [202, 202, 2]);
});

test('fault 13: an unknown VMI is 404 on every route, told in words, and nothing is dropped', async () => {
  const missing = '/v1/namespaces/default/virtualmachineinstances/vm2';
  const gets = [
    'guestosinfo',
    'userlist',
    'filesystemlist',
    'vnc/screenshot',
    'sev/fetchcertchain',
    'sev/querylaunchmeasurement',
  ];
  const streams = ['console', 'vnc', 'vnc?preserveSession=true', 'usbredir', 'vsock?port=1', 'portforward/22'];
  const puts = [
    'pause',
    'unpause',
    'freeze',
    'unfreeze',
    'reset',
    'softreboot',
    'backup',
    'redefine-checkpoint',
    'sev/injectlaunchsecret',
  ];
  const asked: [string, string][] = [
    ...[...gets, ...streams].map((sub): [string, string] => ['GET', sub]),
    ...puts.map((sub): [string, string] => ['PUT', sub]),
  ];
  for (const [method, sub] of asked) {
    const answer = await bench.ask(method, `${missing}/${sub}`);
    assert.deepEqual([sub, answer.status, answer.body], [sub, 404, 'VMI default/vm2 does not exist']);
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
  }
  for (const sub of streams) {
    const text = await bench.raw(
      `GET ${missing}/${sub} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    );
    assert.match(text, /^HTTP\/1\.1 404 Not Found\r\n/, sub);
    assert.match(text, /\r\n\r\nVMI default\/vm2 does not exist$/, sub);
  }
});

test('a VMI of another node is as unknown, also while it is migrating here', async () => {
  const known = bench.vmis.get('default/vm1');
  assert.ok(known);
  const labels = { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': 'node1' };
  bench.add({ ...known, metadata: { ...known.metadata, labels } });
  const launcher = await bench.launcher();
  assert.equal((await bench.put('/pause')).status, 404);
  assert.deepEqual(launcher.calls, []);
});

test('before the VMIs are listed a missing one may be there yet: 503, and when to ask again', async () => {
  bench.synced = false;
  const answer = await bench.ask('PUT', vm1.replace('vm1', 'vm2').concat('/pause'));
  assert.deepEqual([answer.status, answer.headers['retry-after']], [503, '1']);
});

test('without a launcher the answer is 500 and says what is missing', async () => {
  const answer = await bench.put('/pause');
  assert.deepEqual([answer.status, answer.body], [500, `No command socket found for vmi ${uid}`]);
});

test('for a VMI that has ended no new connection to a launcher is made', async () => {
  const known = bench.vmis.get('default/vm1');
  assert.ok(known);
  bench.add({ ...known, status: { ...known.status, phase: 'Succeeded' } });
  await bench.launcher();
  const answer = await bench.put('/pause');
  assert.equal(answer.status, 500);
  assert.match(answer.body, /has ended/);
  assert.equal(bench.clients.size, 0);
});

test('a launcher that dies during a call: 500 at once, and the next one in its place is called', async () => {
  const launcher = await bench.launcher();
  launcher.hang('pauseVirtualMachine');
  const asked = bench.put('/pause');
  await eventually(() => assert.equal(launcher.count('pauseVirtualMachine'), 1));
  await launcher.stop();
  const answer = await asked;
  assert.equal(answer.status, 500, answer.body);
  assert.deepEqual(bench.events, []);
});

test('a client that leaves while its query hangs ends the call', async () => {
  const launcher = await bench.launcher();
  launcher.hang('getGuestInfo');
  const leaving = new AbortController();
  const asked = bench.get('/guestosinfo', { signal: leaving.signal });
  await eventually(() => assert.equal(launcher.count('getGuestInfo'), 1));
  assert.equal(bench.api.state.calls, 1);
  leaving.abort();
  await assert.rejects(asked);
  await eventually(() => assert.equal(bench.api.state.calls, 0));
});

test('a client that leaves while its order is carried out changes nothing about it: its event is told', async () => {
  const launcher = await bench.launcher();
  let finish: () => void = () => undefined;
  launcher.on('pauseVirtualMachine', () => new Promise((resolve) => (finish = () => resolve({ success: true }))));
  const leaving = new AbortController();
  const asked = bench.ask('PUT', `${vm1}/pause`, { signal: leaving.signal });
  await eventually(() => assert.equal(launcher.count('pauseVirtualMachine'), 1));
  leaving.abort();
  await assert.rejects(asked);
  finish();
  await eventually(() =>
    assert.deepEqual(
      bench.events.map(({ reason }) => reason),
      ['Paused'],
    ),
  );
});

test('a launcher that hangs costs its own callers only: more than eight are refused, another VMI is served', async () => {
  const hung = await bench.launcher();
  const known = bench.vmis.get('default/vm1');
  assert.ok(known);
  const metadata = { ...known.metadata, name: 'vm2', uid: 'uid-2' };
  bench.add({ ...known, metadata, status: { ...known.status, activePods: { 'pod-2': 'node1' } } });
  await bench.launcher('pod-2');
  hung.hang('pauseVirtualMachine');
  const leaving = new AbortController();
  const waiting = Array.from({ length: 8 }, () => bench.ask('PUT', `${vm1}/pause`, { signal: leaving.signal }));
  const ended = Promise.allSettled(waiting);
  await eventually(() => assert.equal(bench.api.state.calls, 8));
  const refused = await bench.put('/unpause');
  assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '5']);
  assert.equal((await bench.ask('PUT', vm1.replace('vm1', 'vm2').concat('/pause'))).status, 202);
  leaving.abort();
  await ended;
});

test('a launcher’s words are answered in one line of bounded length, without codes for terminals', async () => {
  const launcher = await bench.launcher();
  launcher.fail('pauseVirtualMachine', `a\r\nb\u001b[2Jc\u202e${'x'.repeat(100_000)}`);
  const { status, body } = await bench.put('/pause');
  assert.equal(status, 500);
  assert.match(body, /^[^\p{Cc}\p{Cf}]{100,5000}$/u);
});
