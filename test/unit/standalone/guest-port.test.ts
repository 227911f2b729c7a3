import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { nodePaths, openGuestPort } from '../../../src/standalone/index.ts';

const banner = 'SSH-2.0-dropbear\r\n';
const signal = AbortSignal.timeout(10_000);

describe('the way to a port of a guest', () => {
  const stateDir = mkdtemp(path.join(tmpdir(), 'virt-guest-port-'));
  let api: Server;
  /** What the API does with an upgrade. */
  let answer: (socket: Duplex, accept: string) => void;

  before(async () => {
    api = createServer();
    api.on('upgrade', (request, socket: Duplex) => {
      const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      answer(socket, createHash('sha1').update(key).digest('base64'));
    });
    await once(api.listen(0, '127.0.0.1'), 'listening');
    const named = (name: string, value: object) => ({ name, ...value });
    const { port } = api.address() as AddressInfo;
    const kubeconfig = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [named('node', { cluster: { server: `http://127.0.0.1:${port}` } })],
      users: [named('admin', { user: { token: 'secret' } })],
      contexts: [named('node', { context: { cluster: 'node', user: 'admin' } })],
      'current-context': 'node',
    };
    const file = nodePaths(await stateDir).kubeconfig;
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, JSON.stringify(kubeconfig));
  });
  after(async () => {
    api.closeAllConnections();
    api.close();
    await rm(await stateDir, { recursive: true, force: true });
  });

  const open = async () => openGuestPort(nodePaths(await stateDir), { namespace: 'default', name: 'demo' }, 22, signal);
  const upgraded = (accept: string) =>
    [
      'HTTP/1.1 101 Switching Protocols',
      'Upgrade: websocket',
      'Connection: Upgrade',
      `Sec-WebSocket-Accept: ${accept}`,
      'Sec-WebSocket-Protocol: plain.kubevirt.io',
      '\r\n',
    ].join('\r\n');

  test('what the guest says at once is not lost, also when it comes together with the answer', async () => {
    const frame = Buffer.concat([Buffer.from([0x82, banner.length]), Buffer.from(banner)]);
    answer = (socket, accept) => socket.write(Buffer.concat([Buffer.from(upgraded(accept)), frame]));
    const stream = await open();
    const [heard] = await once(stream, 'data', { signal });
    assert.equal(String(heard), banner);
    stream.destroy();
  });

  test('a connection that ends before it is open is an error, and no other one follows it', async () => {
    answer = (socket) => socket.destroy();
    await assert.rejects(open(), { code: 'NOT_RUNNING', message: /the node's API does not answer/ });
  });
});
