import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { silentLogger } from '../../src/base/index.ts';
import { type NodeRow, type VmRow, WebServer } from '../../src/web/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { MemoryBackend, vmRow } from '../fixtures/web-backend.ts';
import { launchChromium, WatchedPage } from './fixtures/chromium.ts';
import { rowOf, untilBadge } from './fixtures/page-node.ts';

const ready = (name: string, changes: Partial<NodeRow> = {}): NodeRow => ({
  ...{ name, agent: 'ready', isCordoned: false },
  ...changes,
});
const guest = { phase: 'Running', paused: false, ip: '10.0.2.2', guestOs: 'Debian GNU/Linux 12' };
const on = (name: string, node: string, changes: Partial<VmRow> = {}) =>
  vmRow(name, { vmi: { ...guest, uid: `uid-of-${name}`, node }, ...changes });
const mebibyte = 2 ** 20;
const begun = { kind: 'under-way', phase: 'Scheduling', from: 'laptop', to: 'laptop-2', isCancelled: false } as const;
const moving = {
  ...begun,
  phase: 'Running',
  progress: {
    ...{ mode: 'PreCopy', processedBytes: 120 * mebibyte, remainingBytes: 80 * mebibyte },
    ...{ bytesPerSecond: 40 * mebibyte, leftSeconds: 2 },
  },
} as const;

describe('the page in a browser: several nodes', () => {
  const backend = new MemoryBackend();
  let browser: Browser;
  let server: WebServer;
  let watched: WatchedPage;

  before(async () => {
    backend.vms.set(on('demo', 'laptop'), on('other', 'laptop-2'));
    backend.nodes.set(ready('laptop'));
    const options = { port: 0, pageDir: path.resolve('dist/web'), tokenHint: 'run `virt-node url`' };
    server = new WebServer(options, { backend, log: silentLogger });
    await server.start();
    browser = await launchChromium();
    watched = await WatchedPage.open(browser, 'nodes', { viewport: { width: 1440, height: 900 } });
    await watched.page.goto(server.url);
    await rowOf(watched.page, 'demo').waitFor();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const demo = () => rowOf(watched.page, 'demo');
  const node = (name: string) => watched.page.locator(`[data-node="${name}"]`);
  const button = (name: string) => watched.page.getByRole('button', { name, exact: true });

  async function choose(label: string): Promise<void> {
    await demo().getByLabel('More for demo').click();
    await demo().getByRole('button', { name: label }).click();
  }

  test('with one node nothing of it is there', async () => {
    assert.equal(await watched.page.locator('.nodes, .on-node').count(), 0);
    await demo().getByLabel('More for demo').click();
    assert.equal(await demo().getByRole('button', { name: /Move/ }).count(), 0);
    await watched.page.keyboard.press('Escape');
    await watched.page.locator('header .node', { hasText: 'node1' }).waitFor();
  });

  test('with two, each shows how it is and what is on it, and each machine where it is', async () => {
    backend.nodes.set(
      ready('laptop'),
      ready('laptop-2', { agent: 'not-ready', reason: 'AgentStarting: reads the API' }),
    );
    await node('laptop-2').getByText('AgentStarting').waitFor();
    await untilBadge(watched.page, '[data-node="laptop-2"]', 'Not ready');
    await node('laptop').getByText('1 machine', { exact: true }).waitFor();
    await demo().getByText('on laptop', { exact: true }).waitFor();
    await watched.page.locator('header .node', { hasText: '2 nodes' }).waitFor();
    await watched.picture('1-two-nodes');
  });

  test('a machine moves by keyboard alone: asked before, shown on its way, said at the end', async () => {
    backend.nodes.set(ready('laptop'), ready('laptop-2'));
    await untilBadge(watched.page, '[data-node="laptop-2"]', 'Ready');
    const { keyboard } = watched.page;
    await demo().getByLabel('More for demo').focus();
    await keyboard.press('Enter');
    await demo().getByRole('button', { name: 'Move… demo' }).focus();
    await keyboard.press('Enter');
    const dialog = watched.page.getByRole('dialog');
    await dialog.getByText('Move demo to laptop-2? It runs on meanwhile.').waitFor();
    await watched.picture('2-question');
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await watched.page.getByText('demo is on its way.').waitFor();
    assert.deepEqual(backend.nodes.calls, ['move default/demo to laptop-2']);
    backend.vms.set(on('demo', 'laptop', { move: begun }));
    await demo().getByText('To laptop-2: looks for a place').waitFor();
    backend.vms.set(on('demo', 'laptop', { move: moving }));
    await demo().getByText('To laptop-2: is copied while it runs').waitFor();
    await demo().getByText('120 MiB sent, 80 MiB to go, 40 MiB/s, about 2 s left').waitFor();
    assert.equal(await demo().getByRole('progressbar').getAttribute('value'), '0.6');
    await node('laptop').getByText('1 machine, 1 leaving').waitFor();
    await watched.picture('3-on-its-way');
    const arrived = {
      kind: 'arrived',
      from: 'laptop',
      to: 'laptop-2',
      at: '2026-01-02T03:00:00Z',
      tookMs: 4_000,
    } as const;
    backend.vms.set(on('demo', 'laptop-2', { move: arrived }));
    await watched.page.getByText('demo runs on laptop-2 now.').waitFor();
    await demo().getByText('on laptop-2').waitFor();
    await watched.picture('4-arrived');
  });

  test('a move is cancelled; one that failed says why, and the overview keeps it', async () => {
    backend.vms.set(on('demo', 'laptop', { move: moving }));
    await demo().getByRole('progressbar').waitFor();
    await choose('Cancel move demo');
    await eventually(async () => assert.equal(backend.nodes.calls.at(-1), 'cancel default/demo'));
    backend.vms.set(on('demo', 'laptop', { move: { ...moving, isCancelled: true } }));
    await demo().getByText('The move is cancelled').waitFor();
    backend.vms.set(on('demo', 'laptop', { move: moving }));
    await demo().getByText('is copied while it runs').waitFor();
    const reason = 'the connection to laptop-2 broke: Unable to write to socket';
    backend.vms.set(
      on('demo', 'laptop', { move: { kind: 'failed', to: 'laptop-2', at: '2026-01-02T03:00:00Z', reason } }),
    );
    await watched.page.getByText(`demo stays where it is: ${reason}`).waitFor();
    await watched.picture('5-failed');
    await demo().getByRole('link', { name: 'demo', exact: true }).click();
    await watched.page.getByText(`failed: ${reason}`).waitFor();
    await watched.picture('6-overview');
    await watched.page.goBack();
  });

  test('with three, the node is chosen', async () => {
    backend.nodes.set(ready('laptop'), ready('laptop-2'), ready('laptop-3'), ready('laptop-4', { isCordoned: true }));
    await untilBadge(watched.page, '[data-node="laptop-4"]', 'Cordoned');
    await choose('Move… demo');
    const dialog = watched.page.getByRole('dialog');
    const options = await dialog.locator('option').allTextContents();
    assert.deepEqual(options, ['whichever has room', 'laptop-2', 'laptop-3']);
    await dialog.getByLabel('Node').selectOption('laptop-3');
    await watched.picture('7-choice');
    await dialog.getByRole('button', { name: 'Move' }).click();
    await eventually(async () => assert.equal(backend.nodes.calls.at(-1), 'move default/demo to laptop-3'));
  });

  test('a node is cordoned, uncordoned, emptied; what is refused is said', async () => {
    await button('Cordon laptop').click();
    await watched.page.getByText('laptop takes no new machines; those on it stay.').waitFor();
    await button('Uncordon laptop-4').click();
    await watched.page.getByText('laptop-4 takes machines again.').waitFor();
    await button('Empty laptop').click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Empty' }).click();
    await watched.page.getByText('1 machine of laptop on the way to other nodes.').waitFor();
    backend.nodes.failure = new Error('laptop takes no new VMs now, and 0 of 1 move: default/demo cannot move');
    await button('Empty laptop').click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Empty' }).click();
    await watched.page.getByText('0 of 1 move: default/demo cannot move').waitFor();
    backend.nodes.failure = undefined;
    assert.deepEqual(backend.nodes.calls.slice(-4), [
      'cordon laptop',
      'uncordon laptop-4',
      'empty laptop',
      'empty laptop',
    ]);
  });

  for (const colorScheme of ['dark', 'light'] as const) {
    test(`on a telephone nothing is wider than the screen: ${colorScheme}`, async () => {
      backend.vms.set(on('demo', 'laptop', { move: moving }));
      const viewport = { width: 390, height: 844 };
      const phone = await WatchedPage.open(browser, `nodes-narrow-${colorScheme}`, {
        ...{ viewport, colorScheme, hasTouch: true, isMobile: true },
      });
      await phone.page.goto(server.url);
      await rowOf(phone.page, 'demo').getByRole('progressbar').waitFor();
      await phone.picture('1');
      assert.equal(await phone.page.evaluate('document.documentElement.scrollWidth'), viewport.width);
      assert.deepEqual(phone.complaints(), []);
      await phone.close();
    });
  }

  test('dark, in a window', async () => {
    const dark = await WatchedPage.open(browser, 'nodes-dark', {
      viewport: { width: 1440, height: 900 },
      colorScheme: 'dark',
    });
    await dark.page.goto(server.url);
    await rowOf(dark.page, 'demo').getByRole('progressbar').waitFor();
    await dark.picture('1');
    assert.deepEqual(dark.complaints(), []);
    await dark.close();
  });

  test('no error on its console but for the refusal', () => {
    assert.deepEqual(watched.complaints(/status of 502/), []);
  });
});
