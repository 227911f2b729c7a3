import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import tls from 'node:tls';
import { HaproxyProxies } from '../../../src/agent/migration-proxy/index.ts';
import { createLogger, systemClock } from '../../../src/base/index.ts';
import { clientCommonName } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { closed, ProxyNode, setUpSeconds, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';
import { StreamRounds } from '../../fixtures/stream-rounds.ts';

/** As upstream's launcher asks for: eight beside the main one. */
const streams = 9;

describe('the order of streams that begin at once', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  before(async () => {
    authority = await TestAuthority.make();
  });
  after(() => authority.remove());

  type Cleanup = { after: (work: () => unknown) => void };

  async function world(t: Cleanup, options?: { find: () => string }) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const [from, to] = [await ProxyNode.make(t, authority, options), await ProxyNode.make(t, authority, options)];
    const move = new TestMove(from, to, [source.pid, target.pid]);
    const name = `${move.uid}-49152-source.sock`;
    const rounds = await StreamRounds.serve(target, name);
    return { source, target, from, to, move, rounds, entry: source.socket(name) };
  }

  /** A network between both ends that lets no two connections take equally long. */
  async function unevenNetwork(t: Cleanup, to: number): Promise<number> {
    const server = createServer({ allowHalfOpen: true }, (near) => {
      near.on('error', () => undefined);
      void pause(randomInt(1, 30)).then(() => {
        const far = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
        far.on('error', () => near.destroy());
        near.pipe(far).pipe(near);
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => server.close());
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return address.port;
  }

  test('they are dialled in the order in which they were accepted', async (t) => {
    const { move, rounds, entry } = await world(t);
    await move.open([0, 49_152]);
    for (let round = 0; round < 100; round++) {
      assert.deepEqual(await rounds.run(streams, () => connect(entry)), rounds.inOrder(streams), `round ${round}`);
    }
  });

  test('a network that delays some of them changes nothing', async (t) => {
    const { move, rounds, entry } = await world(t);
    await move.openTarget([0, 49_152]);
    const port = await unevenNetwork(t, move.port(49_152));
    await move.openSource({ ports: { [String(port)]: 49_152 } });
    for (let round = 0; round < 20; round++) {
      assert.deepEqual(await rounds.run(streams, () => connect(entry)), rounds.inOrder(streams), `round ${round}`);
    }
  });

  /** Connected one after the other; their handshakes begin in the other direction. */
  async function reversed(port: number): Promise<() => tls.TLSSocket> {
    const pair = await authority.issue({ commonName: clientCommonName });
    const connected: Socket[] = [];
    for (let each = 0; each < streams; each++) {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      connected.push(socket);
    }
    const secured = connected.toReversed().map((socket) => tls.connect({ socket, ...pair, rejectUnauthorized: false }));
    return () => secured.pop() ?? assert.fail('no connection is left');
  }

  test('a target keeps the order of connections whose handshakes end in another one', async (t) => {
    const { move, rounds } = await world(t);
    await move.openTarget([0, 49_152]);
    for (let round = 0; round < 20; round++) {
      const next = await reversed(move.port(49_152));
      assert.deepEqual(await rounds.run(streams, next), rounds.inOrder(streams), `round ${round}`);
    }
  });

  test('strangers between them hold nobody up when they leave, and for a moment when they are silent', async (t) => {
    const { move, rounds, entry } = await world(t);
    await move.open([0, 49_152]);
    const stranger = () => connect(move.port(49_152), '127.0.0.1').on('error', () => undefined);
    const beganMs = performance.now();
    for (let round = 0; round < 20; round++) {
      const next = () => {
        stranger().end('GET / HTTP/1.0\r\n\r\n');
        stranger().destroy();
        return connect(entry);
      };
      assert.deepEqual(await rounds.run(streams, next), rounds.inOrder(streams), `round ${round}`);
    }
    const eachMs = (performance.now() - beganMs) / 20;
    assert.ok(eachMs < 500, `${eachMs.toFixed(0)} ms for each nine streams`);
    const silent: Socket[] = [];
    const next = () => {
      for (let each = 0; each < 5; each++) silent.push(stranger());
      return connect(entry);
    };
    const silentMs = performance.now();
    assert.deepEqual(await rounds.run(streams, next), rounds.inOrder(streams));
    const tookMs = performance.now() - silentMs;
    assert.ok(tookMs > 500, `${tookMs.toFixed(0)} ms: nobody was waited for`);
    assert.ok(tookMs < 1_000 * setUpSeconds, `${tookMs.toFixed(0)} ms`);
    assert.ok(silent.every(({ destroyed }) => !destroyed));
    // They are not waited for twice.
    const againMs = performance.now();
    assert.deepEqual(await rounds.run(streams, () => connect(entry)), rounds.inOrder(streams));
    assert.ok(performance.now() - againMs < 500, `${(performance.now() - againMs).toFixed(0)} ms`);
    for (const socket of silent) socket.destroy();
  });

  test('those who begin to wait one after the other do not add their times up for the last one', async (t) => {
    const launcher = await RootedLauncher.start(t);
    const node = await ProxyNode.make(t, authority);
    const move = new TestMove(node, node, [launcher.pid, launcher.pid]);
    await move.openTarget([0, 49_152]);
    const arrived: number[] = [];
    await launcher.serve(launcher.socket(`${move.uid}-49152-source.sock`), () => arrived.push(performance.now()));
    const stranger = connect(move.port(49_152), '127.0.0.1').on('error', () => undefined);
    await once(stranger, 'connect');
    const pair = await authority.issue({ commonName: clientCommonName });
    const connected: Socket[] = [];
    for (let each = 0; each < 5; each++) {
      const socket = connect(move.port(49_152), '127.0.0.1');
      await once(socket, 'connect');
      connected.push(socket);
    }
    const beganMs = performance.now();
    const open: Socket[] = [];
    for (const socket of connected.toReversed()) {
      open.push(tls.connect({ socket, ...pair, rejectUnauthorized: false }));
      await pause(300);
    }
    await eventually(() => assert.ok(arrived.length > 0), 30_000);
    const [firstMs = 0] = arrived;
    assert.ok(firstMs - beganMs > 500, `after ${firstMs - beganMs} ms: nobody was waited for`);
    await eventually(() => assert.equal(arrived.length, 5), 30_000);
    const lastMs = Math.max(...arrived) - beganMs;
    assert.ok(lastMs < 2_000, `after ${lastMs} ms`);
    for (const socket of [stranger, ...open]) socket.destroy();
  });

  test('thousands who came and went before are not counted one by one', async (t) => {
    const { move, rounds, entry } = await world(t);
    await move.open([0, 49_152]);
    for (let some = 0; some < 50; some++) {
      const leaving = Array.from({ length: 100 }, async () => {
        const socket = connect(move.port(49_152), '127.0.0.1');
        await once(socket, 'connect');
        socket.destroy();
        await closed(socket);
      });
      await Promise.all(leaving);
    }
    const beganMs = performance.now();
    assert.deepEqual(await rounds.run(streams, () => connect(entry)), rounds.inOrder(streams));
    assert.ok(performance.now() - beganMs < 500, `${(performance.now() - beganMs).toFixed(0)} ms`);
  });

  test('one that is dialled in vain ends, and so do those behind it, without waiting', async (t) => {
    const { move, to, rounds, entry } = await world(t);
    await move.open([0, 49_152]);
    assert.deepEqual(await rounds.run(streams, () => connect(entry)), rounds.inOrder(streams));
    await to.proxies.closeTarget(move.uid);
    const beganMs = performance.now();
    await Promise.all(Array.from({ length: streams }, () => closed(connect(entry))));
    assert.ok(performance.now() - beganMs < 1_000, `${(performance.now() - beganMs).toFixed(0)} ms`);
  });

  test('what is written meanwhile waits with them, and those who leave meanwhile leave no gap', async (t) => {
    const { move, rounds, entry } = await world(t);
    await move.openTarget([0, 49_152]);
    const port = await unevenNetwork(t, move.port(49_152));
    await move.openSource({ ports: { [String(port)]: 49_152 } });
    const piece = Buffer.alloc(1_000_000);
    const leaving: Socket[] = [];
    const next = (number: number) => {
      leaving.push(connect(entry).on('error', () => undefined));
      const socket = connect(entry);
      socket.write(Buffer.from([number]));
      socket.write(piece);
      leaving.at(-1)?.destroy();
      return socket;
    };
    for (let round = 0; round < 5; round++) {
      assert.deepEqual(await rounds.run(streams, next), rounds.inOrder(streams), `round ${round}`);
      await eventually(() => assert.ok(rounds.bytes >= streams * piece.length), 30_000);
    }
  });

  test('without Lua they are carried in any order, and the agent says so at its start', async (t) => {
    const dir = mkdtempSync('/tmp/lua-');
    t.after(() => rmSync(dir, { recursive: true }));
    const [program, file] = [path.join(dir, 'haproxy'), path.join(dir, 'log')];
    const words = 'HAProxy version 2.6.12 2026/10/17 - https://haproxy.org/';
    writeFileSync(program, `#!/bin/sh\n[ "$1" = -vv ] && echo '${words}' && exit\nexec /usr/sbin/haproxy "$@"\n`);
    chmodSync(program, 0o755);
    const find = () => program;
    const log = createLogger({ component: 'test', file });
    const agent = new HaproxyProxies(
      { directory: dir, address: '127.0.0.1', stallSeconds: 60 },
      { find, clock: systemClock, log },
    );
    await agent.start();
    await eventually(() => assert.match(readFileSync(file, 'utf8'), /built without Lua: install one with Lua/));
    await agent.stop();
    const { move, rounds, entry } = await world(t, { find });
    await move.open([0, 49_152]);
    const arrived = await rounds.run(streams, () => connect(entry));
    assert.deepEqual(arrived.toSorted(), rounds.inOrder(streams));
  });
});
