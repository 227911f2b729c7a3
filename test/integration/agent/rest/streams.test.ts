import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { vmiOf } from '../../../fixtures/agent/builders.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { StreamClient, UpgradeRefused } from '../../../fixtures/stream-client.ts';
import { eachTestHasRestBench, type RestBench, upgradeText, vm1 } from './rest-bench.ts';

let bench: RestBench;
eachTestHasRestBench((made) => {
  bench = made;
});

const plain = ['plain.kubevirt.io'];
const open = (sub: string, protocols = plain) => StreamClient.open(bench.url(sub), protocols);

async function refused(sub: string, httpStatus: number, body: RegExp): Promise<void> {
  await assert.rejects(open(sub), (error: unknown) => {
    assert.ok(error instanceof UpgradeRefused, String(error));
    assert.equal(error.httpStatus, httpStatus, error.body);
    assert.match(error.body, body);
    return true;
  });
}

const device = (devices: object, status: object = {}) =>
  void bench.add(vmiOf('Running', { spec: { domain: { devices } }, status }));

test('a console is joined to the guest’s serial line: what is typed comes back', async () => {
  await bench.launcher();
  await bench.guest('virt-serial0', (socket) => socket.pipe(socket));
  const client = await open('/console');
  client.type('login: ');
  await eventually(() => assert.equal(client.text, 'login: '));
  client.socket.close();
});

test('a console of ours begins with what the guest wrote since its boot, also before a part of its log was taken away', async () => {
  await bench.launcher();
  await bench.guest('virt-serial0', (socket) => socket.write('login: '));
  const file = `${bench.privateDir()}/virt-serial0-log`;
  writeFileSync(file, 'welcome\n');
  writeFileSync(`${file}.1`, 'bios\nkernel\n');
  writeFileSync(`${file}.start`, '1000');
  const client = await open('/console', ['session.virt-handler.io']);
  await eventually(() => assert.equal(client.text, 'bios\nkernel\nwelcome\nlogin: '));
  client.socket.close();
});

test('a log of a guest that is no plain file, or a link, is not read, and the console is there all the same', async () => {
  await bench.launcher();
  await bench.guest('virt-serial0', (socket) => socket.write('login: '));
  const file = `${bench.privateDir()}/virt-serial0-log`;
  for (const make of [() => symlinkSync('/etc/passwd', file), () => mkdirSync(file), () => mkfifo(file)]) {
    make();
    const client = await open('/console', ['session.virt-handler.io']);
    await eventually(() => assert.equal(client.text, 'login: '));
    client.socket.close();
    await eventually(() => assert.equal(bench.streams.openSessions, 0));
    bench.streams.endAll(vmiOf('Running').metadata.uid ?? '', 'next');
    rmSync(file, { recursive: true });
  }
});

const mkfifo = (file: string) => void execFileSync('mkfifo', [file]);

test('a screen speaks first, and nothing of that is lost', async () => {
  await bench.launcher();
  await bench.guest('virt-vnc', (socket) => socket.write('RFB 003.008\n'));
  const client = await open('/vnc?preserveSession=false');
  await eventually(() => assert.equal(client.text, 'RFB 003.008\n'));
  client.socket.close();
});

test('a running session is ended neither by a plain request nor by one that fails, and preserveSession leaves it alone', async () => {
  await bench.launcher();
  await bench.guest('virt-vnc', (socket) => socket.write('RFB 003.008\n'));
  const first = await open('/vnc');
  await eventually(() => assert.equal(first.text, 'RFB 003.008\n'));
  assert.equal((await bench.get('/vnc')).status, 426);
  assert.match(
    await bench.raw(`GET ${vm1}/vnc HTTP/1.1
Host: a
Connection: Upgrade
Upgrade: websocket

`),
    /^HTTP\/1\.1 4\d\d /,
  );
  await refused('/vnc?preserveSession=true', 503, /^Active VNC connection\. Request denied\.$/);
  await refused('/vnc?access=steal', 400, /access must be/);
  assert.deepEqual(
    bench.streams.sessions().map(({ role }) => role),
    ['writer'],
  );
  assert.equal(first.socket.readyState, first.socket.OPEN);
  first.socket.close();
});

test('a guest without the device is 400 and says why, before anything is connected', async () => {
  const launcher = await bench.launcher();
  device({ autoattachSerialConsole: false, autoattachGraphicsDevice: false });
  await refused('/console', 400, /no serial console.*autoattachSerialConsole: false/);
  await refused('/vnc', 400, /no screen.*autoattachGraphicsDevice: false/);
  await refused('/usbredir', 400, /no USB channel.*clientPassthrough/);
  assert.deepEqual(launcher.calls, []);
  assert.equal(bench.clients.size, 0);
});

test('a guest whose socket is not there is 400: no such socket', async () => {
  await bench.launcher();
  await refused('/console', 400, /no such socket/);
});

test('without a launcher a stream is 400 and says what is missing', async () => {
  await refused('/console', 400, /No command socket found/);
});

test('a guest whose socket nobody serves is told so', async () => {
  await bench.launcher();
  const guest = await bench.guest('virt-serial0', () => undefined);
  const home = bench.privateDir();
  renameSync(`${home}/virt-serial0`, `${home}/kept`);
  await new Promise((resolve) => guest.close(resolve));
  renameSync(`${home}/kept`, `${home}/virt-serial0`);
  await refused('/console', 400, /does not answer/);
});

test('four USB channels are given, a fifth is refused without a text, and one that is closed is given again', async () => {
  await bench.launcher();
  device({ clientPassthrough: {} });
  for (let slot = 0; slot < 4; slot++)
    await bench.guest(`virt-usbredir-${slot}`, (socket) => socket.write(String(slot)));
  const clients = [];
  for (let slot = 0; slot < 4; slot++) {
    const client = await open('/usbredir');
    await eventually(() => assert.equal(client.text, String(slot)));
    clients.push(client);
  }
  await refused('/usbredir', 503, /^$/);
  clients[2]?.socket.close();
  await eventually(() => assert.equal(bench.api.state.usbChannels, 3));
  const next = await open('/usbredir');
  await eventually(() => assert.equal(next.text, '2'));
  for (const client of [...clients, next]) client.socket.close();
  await eventually(() => assert.equal(bench.api.state.usbChannels, 0));
});

test('VSOCK is 501 with the reason, after upstream’s checks of the request', async () => {
  await refused('/vsock?port=22', 400, /no VSOCK device/);
  device({ autoattachVSOCK: true });
  for (const query of ['', '?port=', '?port=-1', '?port=4294967296', '?port=x', '?port=1&tls=maybe']) {
    await refused(`/vsock${query}`, 400, /must be/);
  }
  await refused('/vsock?port=22', 500, /VSOCKCID/);
  device({ autoattachVSOCK: true }, { VSOCKCID: 7 });
  await refused('/vsock?port=22&tls=true', 501, /AF_VSOCK/);
  assert.equal((await bench.get('/vsock?port=22')).status, 501);
});

test('port forwarding is 501 and says who does it', async () => {
  await refused('/portforward/22', 501, /virt-api/);
  await refused('/portforward/22/udp', 501, /virt-api/);
});

test('a VMI of any shape is answered in words', async () => {
  await bench.launcher();
  const shapes: unknown[] = [null, 7, 'x', [], { devices: null }, { devices: [] }];
  for (const domain of shapes) {
    const vmi = vmiOf('Running');
    bench.add({ ...vmi, spec: { ...vmi.spec, domain: domain as never } });
    await refused('/console', 400, /no such socket/);
    await refused('/usbredir', 400, /clientPassthrough/);
  }
  const vmi = vmiOf('Running');
  for (const activePods of [null, 7, [], { 'pod-1': 7 }, { '../..': 'node1' }]) {
    bench.add({
      ...vmi,
      metadata: { ...vmi.metadata, uid: `uid-${JSON.stringify(activePods).length}` },
      status: { activePods: activePods as never },
    });
    await refused('/console', 400, /./);
  }
});

test('a client that leaves while the guest is looked for leaves nothing behind', async () => {
  const launcher = await bench.launcher();
  launcher.hang('getDomain');
  await bench.guest('virt-serial0', (socket) => socket.pipe(socket));
  for (let round = 0; round < 20; round++) {
    const socket = bench.socket();
    socket.write(upgradeText(`${vm1}/console`));
    await once(socket, 'connect');
    socket.destroy();
  }
  await eventually(() => assert.deepEqual(bench.streams.sessions(), []));
});
