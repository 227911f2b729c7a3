import assert from 'node:assert/strict';
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { promisify } from 'node:util';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { BackupTunnel } from '../../../src/launcher/backup-tunnel/index.ts';
import { askStreaming, openTunnel, readCall } from '../../../src/nbd-tunnel/index.ts';
import type { PemPair } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { ExportServerUnderTest, exportToken } from '../../fixtures/export-server.ts';
import { allRead, askedAndTakenBack } from '../../fixtures/http2-frames.ts';

const mebibyte = 2 ** 20;
const sizeMib = 64;
const uid = '0b1c2d3e-0000-4000-8000-000000000001';
const dataUri = '/exports/data/data';
const mapUri = '/exports/data/map';

interface Page {
  readonly extents: readonly { offset: number; length: number; type: number; description: string }[];
  readonly next_offset: number | null;
}

/** A disk that `qemu-nbd` serves as QEMU does one in a backup: with a bitmap of what was written last. */
class ServedDisk {
  readonly dir = mkdtempSync(path.join(tmpdir(), 'served-disk-'));
  readonly socket = path.join(this.dir, 'nbd');
  #server: ChildProcess | undefined;

  async start(): Promise<void> {
    const image = path.join(this.dir, 'disk.qcow2');
    const write = (letter: string, mib: number, length: string) =>
      execFileSync('qemu-io', ['-c', `write -P ${letter.charCodeAt(0)} ${mib}M ${length}`, image]);
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', image, `${sizeMib}M`]);
    write('a', 0, '1M');
    write('b', 10, '8M');
    execFileSync('qemu-img', ['bitmap', '--add', image, 'since']);
    write('c', 12, '64k');
    write('d', 40, '1M');
    const options = ['-k', this.socket, '-f', 'qcow2', '-x', 'data', '-B', 'since', '-r', '-e', '60', '--persistent'];
    this.#server = spawn('qemu-nbd', [...options, image], { stdio: 'ignore' });
    await eventually(() => assert.ok(existsSync(this.socket)));
  }

  kill(): void {
    this.#server?.kill('SIGKILL');
  }

  /** What has to come. */
  get bytes(): Buffer {
    const raw = path.join(this.dir, 'disk.raw');
    execFileSync('qemu-img', ['convert', '-U', '-f', 'qcow2', '-O', 'raw', path.join(this.dir, 'disk.qcow2'), raw]);
    return readFileSync(raw);
  }

  stop(): void {
    this.kill();
    rmSync(this.dir, { recursive: true });
  }
}

describe('a backup that a launcher brings to its exporter, of a real NBD server', () => {
  let launchers: TestAuthority;
  let disk: ServedDisk;
  let server: ExportServerUnderTest;
  let tunnel: BackupTunnel;
  /** How often a launcher has found its exporter. */
  let reached: number;
  const own = () => launchers.issue({ commonName: `kubevirt.io:system:client:${uid}` });

  before(async () => {
    launchers = await TestAuthority.make('backup.kubevirt.io');
  });
  after(() => launchers?.remove());
  beforeEach(async () => {
    reached = 0;
    disk = new ServedDisk();
    await disk.start();
    server = await ExportServerUnderTest.make();
    tunnel = new BackupTunnel({ nbdSocket: disk.socket }, { log: silentLogger, clock: systemClock });
  });
  afterEach(async () => {
    tunnel?.close();
    await server?.stop();
    disk?.stop();
  });

  function variables(more: Readonly<Record<string, string>> = {}) {
    return {
      ...{ BACKUP0_BACKUP_PATH: 'data', BACKUP0_DATA_URI: dataUri, BACKUP0_MAP_URI: mapUri },
      ...{ BACKUP_UID: uid, BACKUP_TYPE: 'Full', BACKUP_CACERT: launchers.pair.cert, BACKUP_CHECKPOINT: 'since' },
      ...more,
    };
  }
  function target({ cert, key }: PemPair, port = server.port) {
    return { address: `localhost:${port}`, serverName: 'localhost', ca: server.authority.pair.cert, cert, key };
  }
  async function connected(more: Readonly<Record<string, string>> = {}): Promise<void> {
    await server.start(variables(more));
    tunnel.open(target(await own()), () => void reached++);
    await eventually(async () => assert.equal((await server.get(`${mapUri}?page_size=1`)).status, 200));
    assert.equal(reached, 1);
  }
  async function page(query = ''): Promise<Page> {
    const { status, body } = await server.get(`${mapUri}${query}`);
    assert.equal(status, 200, body.toString());
    return JSON.parse(body.toString());
  }
  const shown = ({ extents }: Page) =>
    extents.map(({ offset, length, description }) => [offset / mebibyte, length / mebibyte, description]);
  /** The status of a CONNECT as a launcher asks it. */
  async function knock(pair: Partial<PemPair>): Promise<number | undefined> {
    const session = http2.connect(`https://localhost:${server.port}`, {
      ...{ ca: server.authority.pair.cert, ...pair },
    });
    session.on('error', () => undefined);
    try {
      const stream = session.request({ ':method': 'CONNECT', ':authority': 'localhost' });
      const [headers] = await once(stream, 'response');
      return headers[':status'];
    } finally {
      session.destroy();
    }
  }

  test('is read whole, in parts, and over HTTP/1.1 by a client that knows HTTP/2, too', async () => {
    await connected();
    const wanted = disk.bytes;
    const whole = await server.get(dataUri);
    assert.equal(whole.status, 200);
    assert.ok(whole.body.equals(wanted));
    const part = await server.get(`${dataUri}?offset=${10 * mebibyte - 3}&length=700000`);
    assert.ok(part.body.equals(wanted.subarray(10 * mebibyte - 3, 10 * mebibyte - 3 + 700_000)));
    const rest = await server.get(`${dataUri}?offset=${63 * mebibyte}&length=99999999`);
    assert.ok(rest.body.equals(wanted.subarray(63 * mebibyte)));
    const ca = path.join(disk.dir, 'ca.pem');
    writeFileSync(ca, server.authority.pair.cert);
    const url = `https://localhost:${server.port}${dataUri}?x-kubevirt-export-token=${exportToken}`;
    const file = path.join(disk.dir, 'curl.raw');
    // The server is in this process.
    await promisify(execFile)('curl', ['-sS', '--fail', '--cacert', ca, '-o', file, url], { timeout: 20_000 });
    assert.ok(readFileSync(file).equals(wanted));
  });

  test('its map says where data are; that of an incremental one says what has changed', async () => {
    await connected();
    assert.deepEqual(shown(await page()), [
      [0, 1, 'data'],
      [1, 9, 'hole,zero'],
      [10, 8, 'data'],
      [18, 22, 'hole,zero'],
      [40, 1, 'data'],
      [41, 23, 'hole,zero'],
    ]);
    const first = await page('?page_size=2');
    assert.deepEqual([shown(first).length, first.next_offset], [2, 10 * mebibyte]);
    assert.deepEqual(shown(await page(`?offset=${first.next_offset}&page_size=1`)), [[10, 8, 'data']]);
    assert.deepEqual(shown(await page(`?offset=${mebibyte}&length=${2 * mebibyte}`)), [[1, 2, 'hole,zero']]);
  });

  test('the map of an incremental one has what is dirty, and reads as zeros or not', async () => {
    await connected({ BACKUP_TYPE: 'Incremental' });
    const dirty = shown(await page()).filter(([, , what]) => String(what).includes('dirty'));
    assert.deepEqual(dirty, [
      [12, 0.0625, 'dirty'],
      [40, 1, 'dirty'],
    ]);
    const kinds = new Set((await page()).extents.map(({ type, description }) => `${type} ${description}`));
    assert.deepEqual([...kinds].sort(), ['0 clean', '1 dirty', '2 zero']);
  });

  test('a disk that came after the checkpoint, so that nothing is known of changes, has changed as a whole', async () => {
    await connected({ BACKUP_TYPE: 'Incremental', BACKUP_CHECKPOINT: 'before-it' });
    assert.deepEqual(shown(await page()), [
      [0, 1, 'dirty'],
      [1, 9, 'dirty,zero'],
      [10, 8, 'dirty'],
      [18, 22, 'dirty,zero'],
      [40, 1, 'dirty'],
      [41, 23, 'dirty,zero'],
    ]);
  });

  test('without the token, without a launcher, and with odd questions nothing is given, in words', async () => {
    await server.start(variables());
    const early = await server.get(dataUri);
    assert.equal(early.status, 503);
    assert.match(early.body.toString(), /launcher that serves the backup is not connected/);
    tunnel.open(target(await own()), () => void reached++);
    await eventually(async () => assert.equal((await server.get(mapUri)).status, 200));
    assert.equal((await server.get(dataUri, { 'x-kubevirt-export-token': 'wrong' })).status, 401);
    assert.equal((await server.get(mapUri, { 'x-kubevirt-export-token': '' })).status, 401);
    for (const query of ['?offset=-1', '?offset=x', '?length=1e3', '?offset=99999999999999999999']) {
      const { status, body } = await server.get(`${dataUri}${query}`);
      assert.equal(status, 400, query);
      assert.match(body.toString(), /is no number of bytes/);
    }
    for (const size of [0, 100_001]) assert.equal((await server.get(`${mapUri}?page_size=${size}`)).status, 400);
    assert.equal((await server.get(dataUri, {}, 'PUT')).status, 400);
    assert.equal((await server.get('/exports/other/data')).status, 404);
    const beyond = await server.get(`${dataUri}?offset=${sizeMib * mebibyte}`);
    assert.equal(beyond.status, 502);
    assert.match(beyond.body.toString(), /beyond the 67108864 bytes of the disk/);
  });

  test('only the launcher of this backup opens the tunnel, and one of them', async () => {
    await server.start(variables());
    const stranger = await TestAuthority.make('backup.kubevirt.io');
    try {
      assert.equal(await knock({}), 401);
      assert.equal(await knock(await stranger.issue({ commonName: `kubevirt.io:system:client:${uid}` })), 401);
      assert.equal(await knock(await launchers.issue({ commonName: 'kubevirt.io:system:client:another' })), 403);
      assert.equal(
        await knock(await launchers.issue({ commonName: `kubevirt.io:system:client:${uid}`, days: -1 })),
        401,
      );
    } finally {
      await stranger.remove();
    }
    tunnel.open(target(await own()), () => void reached++);
    await eventually(async () => assert.equal((await server.get(mapUri)).status, 200));
    assert.equal(await knock(await own()), 409);
    assert.equal((await server.get(mapUri)).status, 200, 'the first goes on');
  });

  test('a tunnel that is asked for and taken back in one piece, by whomever, costs nothing', async () => {
    await connected();
    const ca = server.authority.pair.cert;
    const socket = tls.connect({ host: 'localhost', port: server.port, ca, ALPNProtocols: ['h2'] });
    const uncaught: unknown[] = [];
    const note = (error: unknown) => uncaught.push(error);
    process.on('uncaughtException', note);
    try {
      await once(socket, 'secureConnect');
      socket.write(askedAndTakenBack({ ':method': 'CONNECT', ':authority': 'localhost' }));
      const answered: Buffer[] = [];
      for await (const piece of socket.iterator({ destroyOnReturn: false })) {
        answered.push(piece);
        if (Buffer.concat(answered).includes(allRead)) break;
      }
      assert.equal((await server.get(mapUri)).status, 200);
      assert.deepEqual(uncaught, []);
    } finally {
      process.off('uncaughtException', note);
      socket.destroy();
    }
  });

  test('a launcher that answers with garbage, or not at all, costs its readers an error', async () => {
    await server.start(variables());
    const pair = await own();
    const session = http2.connect(`https://localhost:${server.port}`, { ca: server.authority.pair.cert, ...pair });
    const stream = session.request({ ':method': 'CONNECT', ':authority': 'localhost' });
    await once(stream, 'response');
    stream.on('error', () => undefined);
    const asked = server.get(dataUri);
    stream.write('this is no HTTP/2 at all, whatever it is that was asked for here');
    const { status } = await asked.catch(() => ({ status: 500 }));
    assert.ok(status >= 500, String(status));
    session.destroy();
    tunnel.open(target(pair), () => void reached++);
    await eventually(async () => assert.equal((await server.get(mapUri)).status, 200));
  });

  test('a client that reads nothing keeps no other from reading, and one that goes is forgotten', async () => {
    await connected();
    const ask = () =>
      new Promise<IncomingMessage>((resolve, reject) => {
        const headers = { 'x-kubevirt-export-token': exportToken };
        const options = { host: 'localhost', port: server.port, path: dataUri, headers, agent: false };
        https.get({ ...options, ca: server.authority.pair.cert }, resolve).on('error', reject);
      });
    const silent = await Promise.all(Array.from({ length: 20 }, ask));
    for (const response of silent) response.pause().on('error', () => undefined);
    assert.ok((await server.get(dataUri)).body.equals(disk.bytes));
    for (const response of silent) response.destroy();
    assert.ok((await server.get(dataUri)).body.equals(disk.bytes));
  });

  test('a QEMU that ends meanwhile cuts who reads: half a disk is never taken for a whole', async () => {
    await connected();
    const ca = server.authority.pair.cert;
    const headers = { 'x-kubevirt-export-token': exportToken };
    const options = { host: 'localhost', port: server.port, path: dataUri, headers, agent: false, ca };
    const response = await new Promise<IncomingMessage>((resolve) => https.get(options, resolve));
    response.pause();
    disk.kill();
    await assert.rejects(async () => {
      for await (const _ of response);
    }, /aborted|ECONNRESET|hang up/);
    assert.equal((await server.get(dataUri)).status, 502);
  });

  test('an exporter that is made anew is found again, and one whose backup has ended is left', async () => {
    await connected();
    const { port } = server;
    const pair = await own();
    tunnel.open(target(pair), () => void reached++);
    await eventually(async () => assert.equal((await server.get(mapUri)).status, 200));
    const next = await ExportServerUnderTest.make();
    try {
      tunnel.open({ ...target(pair, 1), ca: next.authority.pair.cert }, () => void reached++);
      await eventually(async () => assert.equal((await server.get(mapUri)).status, 503));
      await next.start(variables({ LISTEN_ADDR: '127.0.0.1:0' }));
      assert.notEqual(next.port, port);
      tunnel.open({ ...target(pair, next.port), ca: next.authority.pair.cert }, () => void reached++);
      await eventually(async () => assert.equal((await next.get(mapUri)).status, 200));
      tunnel.close();
      await eventually(async () => assert.equal((await next.get(mapUri)).status, 503));
    } finally {
      await next.stop();
    }
  });

  test('an exporter that is not the one of its name is not told anything', async () => {
    await server.start(variables());
    tunnel.open({ ...target(await own()), serverName: 'other.default.svc' }, () => void reached++);
    await stays(async () => assert.equal((await server.get(mapUri)).status, 503), 1_500);
    assert.equal(reached, 0);
  });

  test('the same tunnel is asked by gRPC as upstream’s exporter asks', async () => {
    await server.start(variables());
    const pair = await own();
    // In the place of upstream's exporter: the end of a tunnel, and its calls.
    const seat = http2.createSecureServer({
      ...{ cert: readFileSync(server.at('cert/tls.crt')), key: readFileSync(server.at('cert/tls.key')) },
    });
    seat.listen(0, '127.0.0.1');
    await once(seat, 'listening');
    const { port } = seat.address() as { port: number };
    tunnel.open(target(pair, port), () => void reached++);
    const [stream] = (await once(seat, 'stream')) as [http2.ServerHttp2Stream];
    stream.respond({ ':status': 200 });
    const session = openTunnel(stream);
    const chunks: Buffer[] = [];
    const signal = AbortSignal.timeout(20_000);
    const request = { exportName: 'data', offset: 0, length: 3 * mebibyte };
    for await (const { data } of askStreaming(session, readCall, request, signal)) chunks.push(Buffer.from(data));
    assert.ok(Buffer.concat(chunks).equals(disk.bytes.subarray(0, 3 * mebibyte)));
    const unknown = { ...readCall, path: '/kubevirt.nbd.NBD/Write' };
    await assert.rejects(async () => {
      for await (const _ of askStreaming(session, unknown, request, signal));
    }, /is no call of kubevirt\.nbd\.NBD/);
    session.destroy();
    seat.close();
  });
});
