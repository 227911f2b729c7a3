import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, describe, test } from 'node:test';
import { loopbackHosts } from '../../../src/http/index.ts';
import { portOwner } from '../../../src/standalone/socket-tables.ts';
import { freePort } from '../../../src/standalone/supervisor/free-port.ts';
import { WebSite } from '../../fixtures/web-site.ts';

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const undo: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** Another user's program. Gives its port, or the error of trying. */
async function squat(host: string, port = 0): Promise<number | string | undefined> {
  const server: Server = createServer((socket) => socket.destroy());
  try {
    await once(server.listen(port, host), 'listening');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
  undo.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

async function siteAt(port: number): Promise<WebSite> {
  const site = await WebSite.start({ port });
  undo.push(() => site.dispose());
  return site;
}

function statusAt(host: string, port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asking = get({ host, port, path: '/', agent: false, headers: { host: `localhost:${port}` } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asking.once('error', reject);
  });
}

describe('the page is at both loopback addresses, for a browser picks one', { skip: !hasIpv6 && 'no IPv6' }, () => {
  test('it answers at both, at one port', async () => {
    const { port } = await siteAt(0);
    assert.deepEqual(await Promise.all(loopbackHosts.map((host) => statusAt(host, port))), [200, 200]);
  });

  test('nobody else can listen at its port, at either address or at all of them', async () => {
    const { port } = await siteAt(0);
    const outcomes = await Promise.all(['::1', '127.0.0.1', '::', '0.0.0.0'].map((host) => squat(host, port)));
    assert.deepEqual(outcomes, ['EADDRINUSE', 'EADDRINUSE', 'EADDRINUSE', 'EADDRINUSE']);
  });

  for (const host of ['::1', '127.0.0.1']) {
    test(`it is not served at a port that somebody has at ${host}, and leaves the other address`, async () => {
      const port = Number(await squat(host));
      await assert.rejects(WebSite.start({ port }), { code: 'PORT_IN_USE' });
      assert.equal(await squat(host === '::1' ? '127.0.0.1' : '::1', port), port);
    });

    test(`a port that somebody has at ${host} is none for the page, and its user is known`, async () => {
      const port = Number(await squat(host));
      assert.notEqual(await freePort(loopbackHosts, port), port);
      assert.equal(await portOwner(port), process.getuid?.());
    });
  }

  test('both addresses are free again after the stop', async () => {
    const site = await WebSite.start();
    const { port } = site;
    await site.dispose();
    assert.deepEqual([await squat('::1', port), await squat('127.0.0.1', port)], [port, port]);
  });
});
