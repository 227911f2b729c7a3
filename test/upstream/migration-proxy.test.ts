import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { serverCommonName } from '../../src/tls/index.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import { eventually } from '../fixtures/eventually.ts';
import { buildGoProxy, findGo, type GoHop, startGoHop } from '../fixtures/go-proxy.ts';
import { closed, migrationCommonName, ProxyNode, TestMove, withoutProxies } from '../fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../fixtures/rooted-launcher.ts';
import { StreamRounds } from '../fixtures/stream-rounds.ts';

const go = findGo();
const skip = withoutProxies || (go === undefined ? 'Go is not there: `go` on PATH builds the other end' : false);

describe('a proxy of ours and an agent’s in Go, on the other node', { skip }, () => {
  let authority: TestAuthority;
  let program = '';
  before(async () => {
    authority = await TestAuthority.make();
    writeFileSync(path.join(authority.dir, 'ca.crt'), authority.pair.cert);
    program = buildGoProxy(go ?? '');
  });
  after(() => authority.remove());

  async function world(t: { after: (work: () => unknown) => void }) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const node = await ProxyNode.make(t, authority);
    const move = new TestMove(node, node, [source.pid, target.pid]);
    const name = `${move.uid}-49152-source.sock`;
    const got: Buffer[] = [];
    await target.serve(target.socket(name), (socket) => {
      socket.write('from the target');
      socket.on('data', (data: Buffer) => got.push(data));
      socket.on('end', () => socket.end());
    });
    const hop = async (more: Omit<GoHop, 'authorityFile'>) => {
      const { child, address } = await startGoHop(program, {
        ...more,
        authorityFile: path.join(authority.dir, 'ca.crt'),
      });
      t.after(() => end(child));
      return address;
    };
    return { source, target, node, move, name, got, hop };
  }

  async function end(child: ChildProcess): Promise<void> {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }

  async function carries(socket: Socket, got: readonly Buffer[]): Promise<void> {
    const [answer] = await once(socket, 'data');
    assert.equal(String(answer), 'from the target');
    const sent = randomBytes(5_000_000);
    socket.write(sent);
    await eventually(() => assert.ok(Buffer.concat(got).equals(sent)), 30_000);
    const over = closed(socket);
    socket.end();
    await over;
  }

  test('ours at the source, Go at the target', async (t) => {
    const { source, target, node, move, name, got, hop } = await world(t);
    const { server } = node.certificates;
    const address = await hop({
      ...{ side: 'target', listen: '127.0.0.1:0', dial: target.socket(name), pair: server, peer: migrationCommonName },
    });
    await move.openSource({ ports: { [String(address.split(':').at(-1))]: 49_152 } });
    await carries(connect(source.socket(name)), got);
  });

  test('ours at the source, Go at the target: streams that begin at once arrive in order', async (t) => {
    const { source, target, node, move, hop } = await world(t);
    const { server } = node.certificates;
    const rounds = await StreamRounds.serve(target, 'rounds.sock');
    const address = await hop({
      ...{ side: 'target', listen: '127.0.0.1:0', dial: target.socket('rounds.sock'), pair: server },
      peer: migrationCommonName,
    });
    await move.openSource({ ports: { [String(address.split(':').at(-1))]: 49_152 } });
    const entry = source.socket(`${move.uid}-49152-source.sock`);
    for (let round = 0; round < 50; round++) {
      assert.deepEqual(await rounds.run(9, () => connect(entry)), rounds.inOrder(9), `round ${round}`);
    }
  });

  test('Go at the source, ours at the target', async (t) => {
    const { source, node, move, name, got, hop } = await world(t);
    await move.openTarget([0, 49_152]);
    for (const pair of [node.certificates.migrationClient, node.certificates.client]) {
      got.length = 0;
      const dial = `127.0.0.1:${move.port(49_152)}`;
      await hop({ side: 'source', listen: source.socket(name), dial, pair, peer: serverCommonName });
      await carries(connect(source.socket(name)), got);
    }
  });

  test('a name that Go does not expect reaches nothing', async (t) => {
    const { source, target, node, move, name, got, hop } = await world(t);
    const pair = node.certificates.server;
    const address = await hop({
      ...{ side: 'target', listen: '127.0.0.1:0', dial: target.socket(name), pair, peer: 'kubevirt.io:other' },
    });
    await move.openSource({ ports: { [String(address.split(':').at(-1))]: 49_152 } });
    const socket = connect(source.socket(name));
    socket.write('memory');
    await closed(socket);
    assert.deepEqual(got, []);
  });
});
