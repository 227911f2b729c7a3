import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually, settled } from '../../fixtures/eventually.ts';
import { ProxyNode, setUpSeconds, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { qemu, RootedLauncher } from '../../fixtures/rooted-launcher.ts';

describe('streams of a migration, by real proxies', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  before(async () => {
    authority = await TestAuthority.make();
  });
  after(() => authority.remove());

  async function world(t: { after: (work: () => unknown) => void }) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const [from, to] = [await ProxyNode.make(t, authority), await ProxyNode.make(t, authority)];
    const move = new TestMove(from, to, [source.pid, target.pid]);
    const names = [
      `${move.uid}-source.sock`,
      `${move.uid}-49152-source.sock`,
      `${move.uid}-49153-source.sock`,
    ] as const;
    const targets = [target.libvirtSocket, target.socket(names[1]), target.socket(names[2])] as const;
    return { source, target, from, to, move, names, targets };
  }

  /** What the other end got, and gave back once it had got the end. */
  async function exchange(file: string, sent: Buffer): Promise<Buffer> {
    const socket = connect({ path: file, allowHalfOpen: true });
    await once(socket, 'connect');
    socket.end(sent);
    return buffer(socket);
  }

  /** Answers when it has got the end, with what it has got, the last byte first. */
  const turned = (socket: Socket) => {
    const got: Buffer[] = [];
    socket.on('data', (data: Buffer) => got.push(data));
    socket.on('end', () => socket.end(Buffer.concat(got).reverse()));
  };

  test('each role leads to its socket in the other pod, both ways, and an end that is half closed stays half open', async (t) => {
    const { source, from, to, move, names, targets, target } = await world(t);
    for (const file of targets) await target.serve(file, turned);
    await move.open();
    assert.deepEqual(Object.values(to.proxies.targetPorts(move.uid) ?? {}).sort(), [0, 49_152, 49_153]);
    assert.deepEqual([from.proxies.open, to.proxies.open, from.proxies.hasSource(move.uid)], [1, 1, true]);
    for (const name of names) {
      const { uid, mode } = statSync(source.socket(name));
      assert.deepEqual([uid, mode & 0o777], [qemu, 0o660]);
      const sent = randomBytes(3_000_000);
      const got = await exchange(source.socket(name), sent);
      assert.ok(got.equals(Buffer.from(sent).reverse()), `${name}: ${got.length} bytes`);
    }
    await eventually(() => {
      for (const { proxies } of [from, to]) {
        assert.equal(proxies.figures()[0]?.bytes, 2 * 3 * 3_000_000);
        assert.equal(proxies.figures()[0]?.streams, 0);
      }
    }, 30_000);
    await from.proxies.closeSource(move.uid);
    await to.proxies.closeTarget(move.uid);
    assert.deepEqual([from.records, to.records, from.proxies.open, to.proxies.open], [[], [], 0, 0]);
    for (const name of names) assert.throws(() => statSync(source.socket(name)), { code: 'ENOENT' });
  });

  test('a reader that waits holds the writer back, and an idle stream is not ended', async (t) => {
    const { source, move, names, targets, target } = await world(t);
    const arrived: Socket[] = [];
    await target.serve(targets[1], (socket) => arrived.push(socket.pause()));
    await move.open([0, 49_152]);
    const socket = connect(source.socket(names[1]));
    const chunk = randomBytes(1_000_000);
    let written = 0;
    const write = () => {
      while (socket.write(chunk)) written++;
      written++;
    };
    socket.on('drain', write);
    write();
    // Longer than dialling and handshakes may take: streams that are open have no such limit.
    await settled(() => written, (setUpSeconds + 1) * 1_000, 60_000);
    const mostMb = 64;
    assert.ok(written < mostMb, `${written} MB were taken though nobody reads`);
    socket.off('drain', write);
    let got = 0;
    arrived[0]?.resume().on('data', (data: Buffer) => {
      got += data.length;
    });
    await eventually(() => assert.equal(got, written * chunk.length), 30_000);
    socket.destroy();
  });
});
