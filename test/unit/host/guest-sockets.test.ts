import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { connectGuestSocket, GuestSocketError, type GuestSocketErrorCode } from '../../../src/host/guest-sockets.ts';

import { eventually } from '../../fixtures/eventually.ts';

const startTime = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ')[19] ?? '';
const launcher = { pid: process.pid, startTime, uid: 0 };
const never = new AbortController().signal;

let dir: string;
let procDir: string;
let home: string;
let servers: Server[];

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'sock-'));
  procDir = path.join(dir, 'proc');
  const own = path.join(procDir, String(process.pid));
  mkdirSync(path.join(own, 'ns'), { recursive: true });
  symlinkSync('pid:[1]', path.join(own, 'ns/pid'));
  home = path.join(dir, 'root/run/kubevirt-private/uid-1');
  mkdirSync(home, { recursive: true });
  symlinkSync(path.join(dir, 'root'), path.join(own, 'root'));
  servers = [];
});

afterEach(() => {
  for (const server of servers) server.close();
  rmSync(dir, { recursive: true, force: true });
});

async function listen(file = path.join(home, 'virt-serial0'), hello = 'hello'): Promise<void> {
  const server = createServer((socket) => socket.on('error', () => undefined).end(hello));
  servers.push(server);
  server.listen(file);
  await once(server, 'listening');
}

const open = (of: Partial<Parameters<typeof connectGuestSocket>[0]> = {}, signal = never) =>
  connectGuestSocket({ launcher, directory: 'uid-1', name: 'virt-serial0', ...of }, signal, procDir);

async function refused(code: GuestSocketErrorCode, opening = open()): Promise<void> {
  await assert.rejects(opening, (error: unknown) => {
    assert.ok(error instanceof GuestSocketError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  });
}

test('the guest’s socket is found below the root of its launcher, however long that path is', async () => {
  await listen();
  const socket = await open();
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).toString(), 'hello');
});

test('a guest that speaks before anybody listens to the socket loses nothing', async () => {
  await listen(undefined, 'RFB 003.008\n'.repeat(1000));
  const socket = await open();
  await once(socket, 'readable');
  let text = '';
  for await (const chunk of socket) text += chunk;
  assert.equal(text.length, 12_000);
});

test('a device that the guest does not have is not found', async () => {
  await refused('NOT_FOUND');
  await refused('NOT_FOUND', open({ directory: 'uid-2' }));
});

test('a socket that nobody listens on any more does not answer', async () => {
  const file = path.join(home, 'virt-serial0');
  await listen(path.join(home, 'other'));
  renameSync(path.join(home, 'other'), file);
  servers.pop()?.close();
  await refused('NOT_LISTENING');
});

test('links are not followed, wherever they stand on the way', async () => {
  const outside = path.join(dir, 'outside');
  mkdirSync(path.join(outside, 'uid-1'), { recursive: true });
  await listen(path.join(outside, 'uid-1/virt-serial0'));
  symlinkSync(path.join(outside, 'uid-1/virt-serial0'), path.join(home, 'virt-serial0'));
  await refused('NOT_FOUND');
  const privateDir = path.dirname(home);
  symlinkSync(path.join(outside, 'uid-1'), path.join(privateDir, 'uid-3'));
  await refused('NOT_FOUND', open({ directory: 'uid-3' }));
  rmSync(path.join(dir, 'root/run'), { recursive: true });
  mkdirSync(path.join(dir, 'root/elsewhere/kubevirt-private'), { recursive: true });
  symlinkSync('elsewhere', path.join(dir, 'root/run'));
  await refused('NOT_FOUND');
});

for (const hostile of ['..', '.', '', 'a/../uid-1', 'uid-1/', 'uid-1\0', '/etc', 'a'.repeat(200)]) {
  test(`the UID ${JSON.stringify(hostile.slice(0, 20))} of a malformed object opens nothing`, async () => {
    await listen();
    await refused('NOT_FOUND', open({ directory: hostile }));
  });
}

test('what is no socket is refused', async () => {
  writeFileSync(path.join(home, 'virt-serial0'), '');
  await refused('NOT_FOUND');
  rmSync(path.join(home, 'virt-serial0'));
  mkdirSync(path.join(home, 'virt-serial0'));
  await refused('NOT_FOUND');
});

test('a socket of a stranger is refused; one of QEMU’s or the launcher’s user is not', async () => {
  await listen();
  const file = path.join(home, 'virt-serial0');
  chownSync(file, 4711, 4711);
  await refused('NOT_TRUSTED');
  (await open({ launcher: { ...launcher, uid: 4711 } })).destroy();
  chownSync(file, 107, 107);
  (await open()).destroy();
});

test('a listener outside the launcher’s pid namespace is refused', async () => {
  await listen();
  const other = path.join(procDir, '1');
  mkdirSync(path.join(other, 'ns'), { recursive: true });
  symlinkSync('pid:[2]', path.join(other, 'ns/pid'));
  symlinkSync(path.join(dir, 'root'), path.join(other, 'root'));
  const init = readFileSync('/proc/1/stat', 'latin1').split(') ').at(-1)?.split(' ')[19] ?? '';
  await refused('NOT_TRUSTED', open({ launcher: { pid: 1, startTime: init, uid: 0 } }));
});

test('a launcher that has ended is said so, also when its pid is another process’s by now, which is not connected to', async () => {
  await listen();
  let connections = 0;
  servers[0]?.on('connection', () => connections++);
  await refused('ENDED', open({ launcher: { ...launcher, startTime: '1' } }));
  await refused('ENDED', open({ launcher: { ...launcher, pid: 2 ** 22 + 1 } }));
  (await open()).destroy();
  await eventually(() => assert.equal(connections, 1));
});

test('a hard link to another guest’s socket leads to who listens there, and that is checked like any', async () => {
  mkdirSync(path.join(dir, 'root/run/kubevirt-private/uid-2'));
  await listen(path.join(dir, 'root/run/kubevirt-private/uid-2/virt-serial0'));
  linkSync(path.join(dir, 'root/run/kubevirt-private/uid-2/virt-serial0'), path.join(home, 'virt-serial0'));
  rmSync(path.join(procDir, String(process.pid), 'ns/pid'));
  await refused('NOT_TRUSTED');
});

test('who has left already opens nothing', async () => {
  await listen();
  await assert.rejects(open({}, AbortSignal.abort(new Error('left'))), /left/);
});

test('a thousand attempts leave no descriptor open', async () => {
  await listen();
  const count = () => readdirSync('/proc/self/fd').length;
  const before = count();
  for (let round = 0; round < 250; round++) {
    const socket = await open();
    const end = once(socket, 'close');
    socket.resume();
    await end;
    await refused('NOT_FOUND', open({ name: 'virt-vnc' }));
    await refused('NOT_FOUND', open({ directory: '..' }));
    await refused('ENDED', open({ launcher: { ...launcher, startTime: '1' } }));
  }
  await eventually(() => assert.ok(count() <= before + 5, `${before} → ${count()}`));
});
