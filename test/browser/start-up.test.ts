import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TimelineReport } from '../../src/api/index.ts';
import { waterfallOf } from '../../src/web/index.ts';
import type { WatchedPage } from './fixtures/chromium.ts';
import { looks, PageNode, rowOf } from './fixtures/page-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'boots';

describe('the page in a browser: how a VM came to run', { skip: needsRoot }, () => {
  let site: PageNode;
  let watched: WatchedPage;

  before(async () => {
    site = await PageNode.start();
    watched = await site.open('start-up', looks['wide-dark']);
  });
  after(() => site?.dispose());

  const login = ({ page }: WatchedPage) =>
    page.getByRole('row', { name: /^guest until its login prompt \d+ ms \d+ ms/ }).waitFor({ timeout: 180_000 });

  test('its start-up, by a key: each part with its time and its bar, as the command line tells it', async () => {
    const { page } = watched;
    await site.createVm(name);
    await rowOf(page, name).getByRole('link', { name, exact: true }).press('u');
    await login(watched);
    const shown = await page
      .locator('.waterfall tbody tr')
      .evaluateAll((rows) =>
        (rows as unknown as { cells: { textContent: string }[] }[]).map(({ cells }) =>
          [...cells].slice(0, 4).map(({ textContent }) => textContent),
        ),
      );
    const { stdout } = await site.node.cli(['explain', name, '--timeline', '-o', 'json']);
    const report: TimelineReport = JSON.parse(stdout);
    assert.deepEqual(
      shown,
      waterfallOf(report).bars.map(({ part, what, afterMs, tookMs }) => [
        ...[part, what, `${afterMs} ms`],
        tookMs === undefined ? '–' : `${tookMs} ms`,
      ]),
    );
    assert.equal(shown[0]?.[1], 'startVmi', 'it is the instance of a machine');
    assert.ok(report.whole);
    await page
      .getByText(/^\d+ ms$/)
      .first()
      .waitFor();
  });

  for (const [look, options] of Object.entries(looks)) {
    test(`each bar is seen, and nothing is wider than the screen (${look})`, async () => {
      const each = await site.open(`start-up-${look}`, options);
      await each.page.goto(new URL(`/#/vm/default/${name}/timeline`, each.page.url()).href);
      await login(each);
      const bars = await each.page.locator('.waterfall rect').evaluateAll((rects) =>
        (rects as unknown as { getBoundingClientRect(): { width: number; height: number } }[]).map((rect) => {
          const { width, height } = rect.getBoundingClientRect();
          return width >= 1 && height >= 8;
        }),
      );
      assert.ok(bars.length > 8);
      assert.ok(!bars.includes(false), 'a bar cannot be seen');
      assert.ok(await each.page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'));
      const inner = await each.page
        .locator('.waterfall .scrolls')
        .evaluate<boolean, { scrollWidth: number; clientWidth: number }>(
          ({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth,
        );
      assert.ok(inner, 'a row is wider than its card');
      await each.picture('waterfall');
      assert.deepEqual(each.complaints(), []);
      await each.close();
    });
  }
});
