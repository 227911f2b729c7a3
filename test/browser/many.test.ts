import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { silentLogger } from '../../src/base/index.ts';
import { WebServer } from '../../src/web/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { MemoryBackend, vmRow } from '../fixtures/web-backend.ts';
import { launchChromium, WatchedPage } from './fixtures/chromium.ts';
import { rowOf, untilBadge } from './fixtures/page-node.ts';

const many = 500;
const running = { uid: 'u', phase: 'Running', paused: false, ip: '10.0.2.2', guestOs: 'Debian GNU/Linux 12' };
const pausedVm = (name: string) => vmRow(name, { status: 'Paused', vmi: { ...running, paused: true } });

/** Remembers the list's elements, and the keys of those in which anything changes. */
const watchList = `globalThis.seen = [...document.querySelectorAll('.vm')];
globalThis.touched = new Set();
new MutationObserver((records) => {
  for (const { target } of records) touched.add(target.parentElement?.closest('.vm')?.dataset.key ?? target.dataset?.key ?? 'list');
}).observe(document.querySelector('.vms'), { subtree: true, childList: true, attributes: true, characterData: true });`;

/** What a user would lose: where the page is, the open menu, the selected text. */
const held = `JSON.stringify([scrollY, document.querySelectorAll('details[open]').length, String(getSelection())])`;

describe(`the page in a browser: ${many} VMs that change`, () => {
  const backend = new MemoryBackend();
  let browser: Browser;
  let server: WebServer;
  let watched: WatchedPage;

  before(async () => {
    backend.vms.set(...Array.from({ length: many }, (_, number) => vmRow(`vm-${number}`)));
    const options = { port: 0, pageDir: path.resolve('dist/web'), tokenHint: 'run `virt-node url`' };
    server = new WebServer(options, { backend, log: silentLogger });
    await server.start();
    browser = await launchChromium();
    watched = await WatchedPage.open(browser, 'many');
    await watched.page.goto(server.url);
    await rowOf(watched.page, `vm-${many - 1}`).waitFor();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const evaluate = <T>(script: string) => watched.page.evaluate<T>(script);
  const button = (name: string, label: string) => rowOf(watched.page, name).getByRole('button', { name: label });

  test('a VM that changes is drawn anew, and nothing else: focus, place, open menu and selection stay', async () => {
    const row = rowOf(watched.page, 'vm-250');
    await row.getByLabel('More for vm-250').click();
    await evaluate(
      `getSelection().selectAllChildren(document.querySelector('[data-key="default/vm-251"] .namespace'))`,
    );
    await evaluate(watchList);
    const before = await evaluate<string>(held);
    assert.match(before, /^"?\[\d{3,}[^,]*,1,\\?"default/);
    backend.vms.set(pausedVm('vm-250'), pausedVm('vm-3'));
    await untilBadge(watched.page, 'li[data-key="default/vm-250"]', 'Paused');
    assert.deepEqual(await evaluate('[...touched].sort()'), ['default/vm-250', 'default/vm-3']);
    assert.equal(await evaluate(held), before);
    assert.equal(await evaluate(`document.activeElement.getAttribute('aria-label')`), 'More for vm-250');
    await watched.picture('1-menu');
    await watched.page.keyboard.press('Escape');
    assert.equal(await row.locator('details').getAttribute('open'), null);
  });

  test('VMs that come and go leave the lines of the others where they are', async () => {
    await rowOf(watched.page, 'vm-100').getByRole('link', { name: 'vm-100', exact: true }).focus();
    await evaluate(watchList);
    backend.vms.remove('default/vm-7');
    backend.vms.set(vmRow('vm-7a'), vmRow('a'));
    await rowOf(watched.page, 'vm-7a').waitFor();
    assert.equal(await rowOf(watched.page, 'vm-7').count(), 0);
    assert.equal(await evaluate('seen.filter((element) => !element.isConnected).length'), 1);
    assert.deepEqual(await evaluate('[...touched]'), ['list']);
    assert.equal(await evaluate('document.activeElement.textContent'), 'vm-100');
    backend.vms.remove('default/a');
    backend.vms.remove('default/vm-7a');
    backend.vms.set(vmRow('vm-7'));
    await rowOf(watched.page, 'a').waitFor({ state: 'detached' });
  });

  test('the focus stays on a button that becomes its opposite, and in the line when there are fewer', async () => {
    const focused = () => evaluate<string>(`document.activeElement.getAttribute('aria-label')`);
    await button('vm-1', 'Pause vm-1').focus();
    await watched.page.keyboard.press('Enter');
    await watched.page.getByText('vm-1 is paused.').waitFor();
    backend.vms.set(pausedVm('vm-1'));
    await button('vm-1', 'Unpause vm-1').waitFor();
    assert.equal(await focused(), 'Unpause vm-1');
    const { vmi: _gone, ...stopped } = vmRow('vm-1', { status: 'Stopped', runStrategy: 'Halted' });
    backend.vms.set(stopped);
    await button('vm-1', 'Start vm-1').waitFor();
    assert.equal(await focused(), 'Start vm-1');
    backend.vms.set(vmRow('vm-1'));
    await button('vm-1', 'Stop vm-1').waitFor();
  });

  test('all change at once, again and again, and the page keeps up', async (t) => {
    await evaluate(watchList);
    await evaluate(`globalThis.tasks = [];
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
        .observe({ type: 'longtask' });`);
    const all = backend.vms.rows();
    for (const status of Array(5).fill(['Paused', 'Running']).flat()) {
      backend.vms.set(...all.map(({ name }) => (status === 'Paused' ? pausedVm(name) : vmRow(name))));
      await watched.page.getByText(`${all.length} machines: ${all.length} ${status}`).waitFor();
    }
    assert.equal(await evaluate('seen.filter((element) => !element.isConnected).length'), 0);
    t.diagnostic(`tasks longer than 50 ms, of ten changes of all: ${await evaluate('tasks.join()')}`);
  });

  test('what is looked for stays in its field while the list changes, and is there again after another view', async () => {
    const field = watched.page.getByLabel(/^Find virtual machines/);
    await watched.page.keyboard.press('/');
    await watched.page.keyboard.type('vm-49');
    await eventually(async () => assert.equal(await watched.page.locator('.vm').count(), 11));
    backend.vms.set(pausedVm('vm-49'));
    await untilBadge(watched.page, '.vm', 'Paused');
    await watched.page.keyboard.type('9');
    await eventually(async () => assert.equal(await watched.page.locator('.vm').count(), 1));
    await watched.page.getByRole('link', { name: 'Agent' }).click();
    await watched.page.getByRole('heading', { name: 'Agent' }).waitFor();
    // The agent of this backend answers with something else than its state.
    await watched.page.getByText('Nothing can be told now: Cannot read properties of undefined').waitFor();
    await watched.page.goBack();
    assert.equal(await field.inputValue(), 'vm-499');
    await field.fill('nothing like it');
    await watched.page.getByText('No virtual machine matches.').waitFor();
    await field.fill('');
  });

  test('a server that goes away is told; what was known is still there, and nothing can be pressed', async () => {
    await button('vm-2', 'Pause vm-2').waitFor();
    backend.vms.complain('the Kubernetes API does not answer');
    await watched.page.getByText('What you see may be old: the Kubernetes API does not answer.').waitFor();
    await watched.picture('2-old');
    assert.equal(await button('vm-2', 'Pause vm-2').getAttribute('aria-disabled'), 'true');
    backend.vms.complain(undefined);
    await watched.page.getByText('What you see may be old').waitFor({ state: 'hidden' });
    assert.equal(await button('vm-2', 'Pause vm-2').getAttribute('aria-disabled'), 'false');
  });

  test('what cannot be done is said until it is put away', async () => {
    backend.actions.failure = new Error('there is no room');
    await button('vm-2', 'Stop vm-2').click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
    await watched.page.getByRole('alert').getByText('Stop vm-2: there is no room').waitFor();
    await watched.picture('3-failure');
    assert.equal(await evaluate(`document.activeElement.getAttribute('aria-label')`), 'Stop vm-2');
    // Of the alert alone: the names of all buttons of 500 VMs take the browser many seconds.
    await watched.page.getByRole('alert').getByRole('button', { name: 'Close' }).click();
    await watched.page.getByText('there is no room').waitFor({ state: 'detached' });
  });

  test('what has failed is first; a column sorts all, and turns round', async () => {
    const first = () => watched.page.locator('.vm h2').first().textContent();
    const reason = 'the image my/debian is not on this node';
    const conditions = [{ type: 'Synchronized', status: 'False' as const, message: reason }];
    backend.vms.set(vmRow('vm-400', { status: 'ErrImagePull', conditions }));
    await eventually(async () => assert.equal(await first(), 'vm-400'));
    assert.match((await rowOf(watched.page, 'vm-400').textContent()) ?? '', /The image my\/debian is not on this node/);
    const columns = watched.page.locator('.list-head');
    await columns.getByRole('button', { name: 'Sort by name' }).click();
    await eventually(async () => assert.equal(await first(), 'vm-0'));
    await columns.getByRole('button', { name: 'Sorted by name, ascending' }).click();
    await eventually(async () => assert.equal(await first(), 'vm-499'));
    await watched.page.getByLabel('Sort', { exact: true }).selectOption('trouble');
    await eventually(async () => assert.equal(await first(), 'vm-400'));
    backend.vms.set(vmRow('vm-400'));
  });

  test('all that are shown are stopped at once; each that fails says why, and stays chosen', async () => {
    backend.actions.failure = new Error('there is no room');
    await watched.page.getByLabel(/^Find virtual machines/).fill('vm-49');
    await watched.page.getByLabel('Select all that are shown').check();
    const bar = watched.page.getByRole('region', { name: 'Selected machines' });
    await bar.getByRole('button', { name: 'Stop (11)' }).click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
    await bar.getByText('11 of 11, 11 failed').waitFor();
    await bar.getByText('default/vm-499: there is no room').waitFor();
    await watched.picture('4-bulk-failed');
    backend.actions.failure = undefined;
    await bar.getByRole('button', { name: 'Close' }).click();
    await bar.getByRole('button', { name: 'Stop (11)' }).click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
    await bar.waitFor({ state: 'detached' });
    assert.equal(backend.actions.calls.filter((call) => call.startsWith('stop default/vm-49')).length, 22);
    await watched.page.getByLabel(/^Find virtual machines/).fill('');
  });

  test('no error on its console but for pictures that there are none of', () => {
    assert.deepEqual(watched.complaints(/status of 502/), []);
  });
});
