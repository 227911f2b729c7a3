import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findSystemProgram } from '../../src/host/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import type { WatchedPage } from './fixtures/chromium.ts';
import { brightPixels, PageNode, rowOf, untilBadge, untilTerminal } from './fixtures/page-node.ts';

const needs =
  process.getuid?.() !== 0 ? 'pods need root' : findSystemProgram('haproxy') ? false : 'haproxy is not installed';
const name = 'moves';

describe('the page in a browser: a real guest moves to another node', { skip: needs }, () => {
  let site: PageNode;
  let console: WatchedPage;
  let screen: WatchedPage;
  let list: WatchedPage;

  before(async () => {
    site = await PageNode.start(['--nodes', '2']);
    await site.createVm(name);
    await site.running(name);
    list = await site.open('moving', { viewport: { width: 1440, height: 900 } });
    console = await list.tab('moving-console');
    screen = await list.tab('moving-screen');
  });
  after(() => site?.dispose());

  const tab = (which: string) => new URL(`/#/vm/default/${name}/${which}`, list.page.url()).href;

  test('by its button, while its console and its screen are open: both follow it, and what was shown stays', async () => {
    await screen.page.goto(tab('screen'));
    await untilBadge(screen.page, '.screen-panel', 'You control');
    await console.page.goto(tab('console'));
    await untilBadge(console.page, '.console', 'You type');
    const knock = setInterval(() => void console.page.keyboard.press('Enter').catch(() => undefined), 700);
    await untilTerminal(console.page, /login:\s*$/).finally(() => clearInterval(knock));
    await console.page.keyboard.type('root\n');
    await untilTerminal(console.page, /#\s*$/);
    await console.page.keyboard.type('mark=of-before; echo $((50 + 5))-before\n');
    await untilTerminal(console.page, /^55-before/m);
    await list.picture('1-before');

    const row = rowOf(list.page, name);
    const from = (await row.locator('.on-node').textContent())?.replace('on ', '') ?? '';
    await row.getByLabel(`More for ${name}`).click();
    await row.getByRole('button', { name: `Move… ${name}` }).click();
    await list.page.getByRole('dialog').getByRole('button', { name: 'Move' }).click();
    await row.getByRole('progressbar').waitFor();
    await list.picture('2-on-its-way');
    await eventually(async () => {
      const where = await row.locator('.on-node').textContent();
      assert.notEqual(where, `on ${from}`);
    }, 120_000);
    await row.getByRole('progressbar').waitFor({ state: 'detached', timeout: 60_000 });
    await list.picture('3-arrived');

    await untilBadge(console.page, '.console', 'You type');
    await untilTerminal(console.page, /^55-before[\s\S]*goes on at node/m);
    await console.page.bringToFront();
    await console.page.locator('.xterm').click();
    await console.page.keyboard.type('echo "[$mark]"\n');
    await untilTerminal(console.page, /^\[of-before\]/m);
    await console.picture('4-followed');
    await screen.page.bringToFront();
    await untilBadge(screen.page, '.screen-panel', 'You control');
    await eventually(async () => assert.ok((await brightPixels(screen.page, '.screen canvas')) > 500), 60_000);
    await screen.picture('5-followed');
  });

  test('each node’s agent is chosen by a link and tells its part: here the guest runs, there it has moved away', async () => {
    const { page } = list;
    await page.bringToFront();
    const where = ((await rowOf(page, name).locator('.on-node').textContent()) ?? '').replace('on ', '');
    await page.getByRole('link', { name: 'Agent' }).click();
    const nodes = page.getByRole('navigation', { name: 'Nodes' }).getByRole('link');
    const names = await nodes.allTextContents();
    assert.equal(names.length, 2);
    const before = names.find((node) => node !== where) ?? '';
    const line = page.getByRole('row', { name: new RegExp(`^${name} `) });
    const title = (node: string) => page.getByRole('heading', { name: `Agent of ${node}` });
    await nodes.filter({ hasText: new RegExp(`^${where}$`) }).click();
    await title(where).waitFor();
    await line.getByText('Running', { exact: true }).waitFor();
    assert.equal(await nodes.filter({ hasText: new RegExp(`^${where}$`) }).getAttribute('aria-current'), 'page');
    await list.picture('6-agent-there');
    await nodes.filter({ hasText: new RegExp(`^${before}$`) }).click();
    await title(before).waitFor();
    await line.getByText(`moved to ${where}`).waitFor();
    await list.picture('7-agent-before');
    await page.reload();
    await title(before).waitFor();
    await line.getByText(`moved to ${where}`).waitFor();
    assert.deepEqual(list.complaints(), []);
  });
});
