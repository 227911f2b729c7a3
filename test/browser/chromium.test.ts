import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../fixtures/eventually.ts';
import { launchChromium, WatchedPage } from './fixtures/chromium.ts';

const bad = `<!doctype html><title>bad</title><link rel=icon href=data:,>
<script src=/bad.js></script><script>document.title = 'an inline script ran'</script>`;

describe('a page that is watched', () => {
  let browser: Browser;
  let server: Server;
  let url: string;

  before(async () => {
    server = createServer((request, response) => {
      response.setHeader('content-security-policy', "default-src 'self'; img-src data:");
      if (request.url === '/bad.js')
        response.setHeader('content-type', 'text/javascript').end("console.error('oh'); throw new Error('no')");
      else
        response
          .setHeader('content-type', 'text/html')
          .end(request.url === '/bad' ? bad : '<link rel=icon href=data:,>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    server.closeAllConnections();
    server.close();
  });

  test('tells of errors on its console, exceptions and violations of its CSP', async () => {
    const watched = await WatchedPage.open(browser, 'watched');
    await watched.page.goto(`${url}/bad`);
    await eventually(() => {
      const all = watched.complaints().join('\n');
      for (const complaint of [/error: oh/, /exception: Error: no/, /error: .*Content Security Policy/])
        assert.match(all, complaint);
    });
    assert.equal(await watched.page.title(), 'bad');
    assert.equal(watched.complaints(/oh/, /exception/, /Content Security Policy/).length, 0);
    await watched.close();
  });

  test('is silent about a page that is fine', async () => {
    const watched = await WatchedPage.open(browser, 'watched');
    await watched.page.goto(url);
    assert.deepEqual(watched.complaints(), []);
    await watched.close();
  });
});
