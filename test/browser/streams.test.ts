import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import type { WatchedPage } from './fixtures/chromium.ts';
import { brightPixels, PageNode, rowOf, untilBadge, untilTerminal } from './fixtures/page-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'talks';
/** What Chromium and noVNC say aloud when a stream is refused or a server is away; a page cannot keep them from it. */
const expected = [
  /WebSocket connection to .* failed/,
  /Failed to load resource/,
  /WebSocket on-error event/,
  /Failed when connecting: Connection closed/,
  // noVNC reads its canvas each time when a guest changes the size of its screen.
  /Canvas2D: Multiple readback operations/,
];

describe('the page in a browser: console and screen of a real guest', { skip: needsRoot }, () => {
  let site: PageNode;
  let watched: WatchedPage;
  let other: WatchedPage;

  before(async () => {
    site = await PageNode.start();
    await site.createVm(name);
    await site.running(name);
    watched = await site.open('streams');
    other = await watched.tab('streams-other');
  });
  after(() => site?.dispose());

  const at = (tab: 'console' | 'screen') => new URL(`/#/vm/default/${name}/${tab}`, watched.page.url()).href;

  /** What was printed before the terminal came is shown again; a prompt is asked for with Enter. */
  async function knockUntil({ page }: WatchedPage, pattern: RegExp): Promise<void> {
    const knock = setInterval(() => void page.keyboard.press('Enter').catch(() => undefined), 700);
    await untilTerminal(page, pattern).finally(() => clearInterval(knock));
  }

  test('the console is opened from the list; a login is typed and uname answers', async () => {
    await rowOf(watched.page, name)
      .getByRole('link', { name: `Console of ${name}` })
      .click();
    await untilBadge(watched.page, '.console', 'You type');
    await knockUntil(watched, /login:\s*$/);
    await watched.page.keyboard.type('root\n');
    await untilTerminal(watched.page, /#\s*$/);
    await watched.page.keyboard.type('uname -a\n');
    await untilTerminal(watched.page, /^Linux demo \d+\.\d+[\s\S]*x86_64 GNU\/Linux/m);
    await watched.picture('1-console');
  });

  test('a second tab watches, is shown what was said before, and takes over when asked to; the first is told and takes it back', async () => {
    await other.page.goto(at('console'));
    await untilBadge(other.page, '.console', 'Watching');
    await untilTerminal(other.page, /^Linux demo/m);
    await watched.page.getByText('1 other watches').waitFor();
    await other.page.keyboard.type('this goes nowhere\n');
    await watched.page.keyboard.type('echo $((40 + 2))-first\n');
    await untilTerminal(other.page, /^42-first/m);
    await other.picture('1-watching');
    await other.page.getByRole('button', { name: 'Take over' }).click();
    await untilBadge(other.page, '.console', 'You type');
    await untilBadge(watched.page, '.console', 'Watching');
    await watched.page.getByText(/another session has taken over/i).waitFor();
    await watched.picture('2-taken-over');
    await other.page.keyboard.type('echo $((40 + 3))-second\n');
    await untilTerminal(watched.page, /^43-second/m);
    await watched.page.getByRole('button', { name: 'Take over' }).click();
    await untilBadge(watched.page, '.console', 'You type');
    await watched.page.keyboard.type('echo $((40 + 4))-third\n');
    await untilTerminal(watched.page, /^44-third/m);
    const { page } = other;
    assert.doesNotMatch((await page.locator('.xterm-rows').textContent()) ?? '', /nowhere/);
  });

  test('kill -9 of the agent: both tabs come back by themselves, in the same shell', async () => {
    await watched.page.keyboard.type('mark=of-before; clear; echo $((50 + 5))\n');
    await untilTerminal(watched.page, /^55/m);
    process.kill(await site.node.pidOf('virt-handler'), 'SIGKILL');
    await untilBadge(watched.page, '.console', /Reconnecting|Connecting/);
    await watched.picture('3-agent-away');
    await untilBadge(watched.page, '.console', /You type|Watching/);
    await untilBadge(other.page, '.console', /You type|Watching/);
    const [writer] = await Promise.all(
      [watched, other].map(async (each) => ({
        each,
        text: await each.page.locator('.console .badge').first().textContent(),
      })),
    ).then((all) => all.filter(({ text }) => text === 'You type').map(({ each }) => each));
    assert.ok(writer, 'nobody types');
    await writer.page.bringToFront();
    await writer.page.locator('.xterm').click();
    await writer.page.keyboard.type('echo "[$mark]"\n');
    await untilTerminal(writer.page, /^\[of-before\]/m);
    await other.page.goto(new URL('/#/', watched.page.url()).href);
  });

  test('the screen shows the guest and changes with what is typed', async () => {
    await watched.page.bringToFront();
    await watched.page.goto(at('screen'));
    await untilBadge(watched.page, '.screen-panel', 'You control');
    await eventually(async () => assert.ok((await brightPixels(watched.page, '.screen canvas')) > 500), 60_000);
    const before = await brightPixels(watched.page, '.screen canvas');
    await watched.page.locator('.screen canvas').click();
    await eventually(async () => {
      await watched.page.keyboard.type('root\n', { delay: 30 });
      assert.ok((await brightPixels(watched.page, '.screen canvas')) > before + 500);
    }, 60_000);
    await watched.picture('4-screen');
  });

  test('a second tab watches the screen, then takes it over; the first goes on watching and says so', async () => {
    await other.page.goto(at('screen'));
    await untilBadge(other.page, '.screen-panel', 'Watching');
    await eventually(async () => assert.ok((await brightPixels(other.page, '.screen canvas')) > 500), 60_000);
    await other.picture('2-watching-screen');
    await other.page.getByRole('button', { name: 'Take over' }).click();
    await untilBadge(other.page, '.screen-panel', 'You control');
    await untilBadge(watched.page, '.screen-panel', 'Watching');
    await watched.page.getByText(/taken over/i).waitFor();
    await eventually(async () => assert.ok((await brightPixels(watched.page, '.screen canvas')) > 500), 60_000);
    await watched.picture('5-screen-taken-over');
  });

  test('the guest powers itself off: the console says so; when the VM has started again, the page is at its new console', async () => {
    await watched.page.goto(at('console'));
    await untilBadge(watched.page, '.console', 'You type');
    await watched.page.keyboard.type('poweroff\n');
    await untilBadge(watched.page, '.console', /Ended|Reconnecting/);
    await watched.picture('6-powered-off');
    await untilBadge(watched.page, '.console', 'You type', 120_000);
    await knockUntil(watched, /login:\s*$/);
    await watched.picture('7-started-again');
  });

  test('no error on its console but for the refusals and the agent that was away', () => {
    assert.deepEqual(watched.complaints(...expected), []);
    assert.deepEqual(other.complaints(...expected), []);
  });
});
