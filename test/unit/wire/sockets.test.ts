import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { listenUnix, maxUnixPathBytes, unixTarget } from '../../../src/wire/index.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'wire-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A socket path of exactly this many bytes in a directory that exists. */
function pathOf(bytes: number): string {
  const below = path.join(directory, 'd'.repeat(bytes - directory.length - 8));
  mkdirSync(below);
  const socketPath = path.join(below, 'socket');
  assert.equal(Buffer.byteLength(socketPath), bytes);
  return socketPath;
}

const openDescriptors = () => readdirSync('/proc/self/fd').length;

describe('unixTarget', () => {
  it('leaves a path of 107 bytes as it is', () => {
    const socketPath = pathOf(maxUnixPathBytes);
    const name = unixTarget(socketPath);
    assert.equal(name.target, `unix:${socketPath}`);
    name.close();
  });

  it('reaches a path of 108 bytes through its directory’s descriptor, and closes it once', () => {
    const before = openDescriptors();
    const name = unixTarget(pathOf(maxUnixPathBytes + 1));
    assert.match(name.target, /^unix:\/proc\/self\/fd\/\d+\/socket$/);
    assert.equal(openDescriptors(), before + 1);
    name.close();
    name.close();
    assert.equal(openDescriptors(), before);
  });

  it('counts bytes, not characters', () => {
    const wide = path.join(directory, 'ü'.repeat(50));
    mkdirSync(wide);
    const name = unixTarget(path.join(wide, 'socket'));
    assert.match(name.path, /^\/proc\/self\/fd\//);
    name.close();
  });

  it('refuses a name that is too long by itself', () => {
    const before = openDescriptors();
    assert.throws(() => unixTarget(path.join(directory, 's'.repeat(100))), { code: 'PATH_TOO_LONG' });
    assert.equal(openDescriptors(), before);
  });
});

describe('listenUnix', () => {
  for (const bytes of [60, maxUnixPathBytes, maxUnixPathBytes + 1, 300]) {
    it(`binds exactly the path asked for, of ${bytes} bytes, and removes it at the end`, async () => {
      const socketPath = bytes > 200 ? path.join(directory, 'a/'.repeat(100), 'socket') : pathOf(bytes);
      const listener = await listenUnix(socketPath, (socket) => socket.end('hello'));
      assert.ok(lstatSync(socketPath).isSocket());
      const name = unixTarget(socketPath);
      const client = connect(name.path);
      const [data] = await once(client, 'data');
      assert.equal(String(data), 'hello');
      client.destroy();
      name.close();
      await listener.close();
      assert.equal(existsSync(socketPath), false);
    });
  }

  it('makes the directory, and replaces what an ended process left', async () => {
    const socketPath = path.join(directory, 'new/socket');
    mkdirSync(path.dirname(socketPath));
    writeFileSync(socketPath, 'old');
    const listener = await listenUnix(socketPath, (socket) => socket.destroy());
    assert.ok(lstatSync(socketPath).isSocket());
    await listener.close();
    await listener.close();
  });

  it('rejects when the path is a directory, and leaves nothing open', async () => {
    mkdirSync(path.join(directory, 'x'));
    const before = openDescriptors();
    await assert.rejects(listenUnix(path.join(directory, 'x'), () => undefined));
    assert.equal(openDescriptors(), before);
  });

  it('closes connections above the limit as they come', async () => {
    const socketPath = path.join(directory, 'socket');
    const listener = await listenUnix(socketPath, () => undefined, { maxConnections: 1 });
    const first = connect(socketPath);
    await once(first, 'connect');
    const second = connect(socketPath).resume();
    await once(second, 'close');
    assert.equal(listener.connections, 1);
    await listener.close();
    first.destroy();
  });
});
