import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import tls, { type ConnectionOptions } from 'node:tls';
import { clientCommonName, type PemPair, serverCommonName } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import {
  closed,
  migrationCommonName,
  ProxyNode,
  setUpSeconds,
  TestMove,
  withoutProxies,
} from '../../fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';

describe('what proxies of migrations refuse', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  let foreign: TestAuthority;
  before(async () => {
    authority = await TestAuthority.make();
    foreign = await TestAuthority.make();
  });
  after(() => Promise.all([authority.remove(), foreign.remove()]));

  async function world(t: { after: (work: () => unknown) => void }) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const [from, to] = [await ProxyNode.make(t, authority), await ProxyNode.make(t, authority)];
    const move = new TestMove(from, to, [source.pid, target.pid]);
    return { source, target, from, to, move, name: `${move.uid}-49152-source.sock` };
  }

  /** What came of it when the server ended it. */
  function tried(port: number, options: ConnectionOptions): Promise<string> {
    return new Promise((resolve) => {
      const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
      let got = '';
      socket.on('secureConnect', () => socket.write('not a migration stream'));
      socket.on('data', (data) => {
        got += data;
      });
      socket.on('error', () => undefined);
      socket.on('close', () => resolve(got));
    });
  }

  test('no client reaches the pod before its certificate and its name are known to be an agent’s', async (t) => {
    const { target, to, move, name } = await world(t);
    const reached: Socket[] = [];
    await target.serve(target.socket(name), (socket) => {
      reached.push(socket);
      socket.end('welcome');
    });
    await move.openTarget([0, 49_152]);
    const port = move.port(49_152);
    const issued = async (from: TestAuthority, request: Parameters<TestAuthority['issue']>[0]) => from.issue(request);
    const pairs: readonly PemPair[] = [
      await issued(authority, { commonName: 'kubevirt.io:system:client:virt-api' }),
      await issued(authority, { commonName: serverCommonName, usage: 'serverAuth' }),
      await issued(authority, { commonName: clientCommonName, days: -1 }),
      await issued(foreign, { commonName: clientCommonName }),
    ];
    const leaves = Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = connect(port, '127.0.0.1');
        await once(socket, 'connect');
        socket.destroy();
      }),
    );
    const began = performance.now();
    const silent = connect(port, '127.0.0.1').resume();
    const half = connect(port, '127.0.0.1').resume();
    half.write(Buffer.from([22, 3, 1, 0]));
    const silence = Promise.all([closed(silent), closed(half)]);
    const words = connect(port, '127.0.0.1').resume();
    words.on('error', () => undefined);
    words.write('GET / HTTP/1.0\r\n\r\n');
    const answers = await Promise.all([
      tried(port, {}),
      ...pairs.map((pair) => tried(port, pair)),
      closed(words).then(() => ''),
    ]);
    assert.deepEqual(answers, ['', '', '', '', '', '']);
    await leaves;
    await silence;
    assert.ok(performance.now() - began >= (setUpSeconds - 1) * 1_000, 'a slow peer has some time');
    assert.equal(reached.length, 0);
    await eventually(() => assert.ok((to.proxies.figures()[0]?.refused ?? 0) >= 5), 30_000);
    for (const commonName of [clientCommonName, migrationCommonName]) {
      assert.equal(await tried(port, await authority.issue({ commonName })), 'welcome');
    }
    assert.equal(reached.length, 2);
  });

  test('a source gives nothing to a server that is no agent', async (t) => {
    const { source, move, name } = await world(t);
    const got: string[] = [];
    for (const pair of [
      await authority.issue({ commonName: 'kubevirt.io:system:node:virt-api', usage: 'serverAuth' }),
      await authority.issue({ commonName: serverCommonName, usage: 'clientAuth' }),
      await foreign.issue({ commonName: serverCommonName, usage: 'serverAuth' }),
    ]) {
      const server = tls.createServer({ ...pair, requestCert: true, rejectUnauthorized: false }, (socket) => {
        socket.on('error', () => undefined);
        socket.on('data', (data) => got.push(String(data)));
      });
      server.on('tlsClientError', () => undefined);
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const address = server.address();
      assert.ok(typeof address === 'object' && address !== null);
      await move.openSource({ ports: { [String(address.port)]: 49_152 } });
      const socket = connect(source.socket(name));
      socket.on('error', () => undefined);
      socket.write('memory of the guest');
      await closed(socket);
      server.close();
    }
    assert.deepEqual(got, []);
  });

  test('a link in the target’s pod leads nowhere outside of it', async (t) => {
    const { source, target, move, name } = await world(t);
    const outside = await RootedLauncher.start(t);
    let reached = 0;
    await outside.serve(outside.libvirtSocket, () => reached++);
    await move.open([0, 49_152]);
    const depth = '../'.repeat(12);
    for (const to of [outside.libvirtSocket, `${depth}${outside.libvirtSocket.slice(1)}`, '/proc/1/root/etc']) {
      rmSync(target.socket(name), { force: true });
      symlinkSync(to, target.socket(name));
      const socket = connect(source.socket(name));
      socket.on('error', () => undefined);
      await closed(socket);
    }
    assert.equal(reached, 0);
  });

  test('what stands at a socket’s name in the source’s pod is replaced and not followed', async (t) => {
    const { source, target, move, name } = await world(t);
    await target.serve(target.socket(name), (socket) => socket.end('welcome'));
    await move.openTarget([0, 49_152]);
    const victim = path.join(source.dir, 'victim');
    writeFileSync(victim, 'kept');
    const file = source.socket(name);
    const obstacles = [
      () => symlinkSync('/victim', file),
      () => symlinkSync('/nowhere', file),
      () => void execFileSync('mkfifo', [file]),
      () => writeFileSync(file, 'a file'),
      () => mkdirSync(file),
    ];
    for (const put of obstacles) {
      put();
      await move.openSource();
      assert.ok(lstatSync(file).isSocket());
      const socket = connect(file);
      const [data] = await once(socket, 'data');
      assert.equal(String(data), 'welcome');
      socket.destroy();
      await move.from.proxies.closeSource(move.uid);
      assert.equal(existsSync(file), false);
    }
    const { uid, size } = lstatSync(victim);
    assert.deepEqual([uid, size], [0, 4]);
  });

  test('a pod in which no socket can be made is said so, and nothing is left', async (t) => {
    const { source, from, move, name } = await world(t);
    const directory = path.dirname(source.socket(name));
    const aside = path.join(source.dir, 'aside');
    mkdirSync(aside);
    const blocked = { code: 'SOCKET_BLOCKED' };
    const ports = { '1': 49_152 } as const;
    mkdirSync(path.join(source.socket(name), 'full'), { recursive: true });
    await assert.rejects(move.openSource({ ports }), blocked);
    assert.deepEqual(readdirSync(directory), [name]);
    for (const put of [() => symlinkSync('/aside', directory), () => writeFileSync(directory, '')]) {
      rmSync(directory, { recursive: true });
      put();
      await assert.rejects(move.openSource({ ports }), blocked);
    }
    assert.deepEqual([readdirSync(aside), from.records, from.proxies.open], [[], [], 0]);
    rmSync(directory);
    await move.openSource({ ports });
    assert.ok(lstatSync(source.socket(name)).isSocket());
  });

  test('addresses, ports and UIDs that are none are not written into a configuration', async (t) => {
    const { from, source, move } = await world(t);
    const wrong = { code: 'BAD_REQUEST' };
    const address = '127.0.0.1 ssl verify none\n  server other 10.0.0.1:80';
    await assert.rejects(move.openSource({ address, ports: { '1': 0 } }), wrong);
    await assert.rejects(move.openSource({ address: 'node.example', ports: { '1': 0 } }), wrong);
    for (const port of ['0', '65536', '1 ssl', ''])
      await assert.rejects(move.openSource({ ports: { [port]: 0 } }), wrong);
    const proxy = {
      key: 'a/b',
      uid: '../../etc',
      migrationUid: 'm1',
      launcherPid: source.pid,
      address: '127.0.0.1',
      ports: { '1': 0 },
    } as const;
    await assert.rejects(from.proxies.openSource(proxy, new AbortController().signal), wrong);
    assert.deepEqual(from.records, []);
  });
});
