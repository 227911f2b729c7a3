import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import type { WatchedPage } from './fixtures/chromium.ts';
import { brightPixels, looks, PageNode, rowOf, untilBadge } from './fixtures/page-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'shown';

describe('the page in a browser: the list, its actions and the reasons', { skip: needsRoot }, () => {
  let site: PageNode;
  let watched: WatchedPage;
  /** What goes wrong is looked at in each size and colour. */
  let inLooks: readonly WatchedPage[] = [];

  before(async () => {
    site = await PageNode.start();
    watched = await site.open('list');
  });
  after(() => site?.dispose());

  const row = () => rowOf(watched.page, name);
  const button = (label: string) => row().getByRole('button', { name: `${label} ${name}` });
  const list = () => watched.page.goto(new URL('/#/', watched.page.url()).href);

  test('without VMs it says what to do', async () => {
    await watched.page.getByText('kubectl apply -f examples/vm.yaml').waitFor();
    assert.equal(new URL(watched.page.url()).hash, '#/', 'the token is left in the address');
    await watched.picture('1-empty');
  });

  test('a VM that is applied appears by itself and becomes Running', async () => {
    await site.createVm(name);
    await row().waitFor();
    await untilBadge(watched.page, `li[data-key="default/${name}"]`, 'Running');
    await watched.page.getByText('1 machine: 1 Running').waitFor();
  });

  test('its picture is that of its screen', async () => {
    await eventually(async () => assert.ok((await brightPixels(watched.page, '.vm canvas')) > 20), 60_000);
    await watched.picture('2-running');
  });

  test('pause and unpause by their buttons', async () => {
    await button('Pause').click();
    await untilBadge(watched.page, '.vm', 'Paused');
    await watched.page.getByText(`${name} is paused.`).waitFor();
    await watched.picture('3-paused');
    await button('Unpause').click();
    await untilBadge(watched.page, '.vm', 'Running');
  });

  test('reset asks before, and does nothing when the answer is no', async () => {
    await row().getByLabel(`More for ${name}`).click();
    await row()
      .getByRole('button', { name: `Reset ${name}` })
      .click();
    const dialog = watched.page.getByRole('dialog');
    await dialog.getByText('what is not on disk is lost').waitFor();
    await watched.picture('4-question');
    await watched.page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.doesNotMatch(await site.node.kubectl('get', 'events', '-o', 'custom-columns=:.reason'), /^Reset$/m);
    await row().getByLabel(`More for ${name}`).click();
    await row()
      .getByRole('button', { name: `Reset ${name}` })
      .click();
    await dialog.getByRole('button', { name: 'Reset' }).click();
    await watched.page.getByText(`${name} was reset.`).waitFor();
    await eventually(async () =>
      assert.match(await site.node.kubectl('get', 'events', '-o', 'custom-columns=:.reason'), /^Reset$/m),
    );
  });

  test('why: what was decided, and because of what', async () => {
    await row().getByRole('link', { name, exact: true }).click();
    await watched.page.getByRole('heading', { level: 1, name }).waitFor();
    await watched.picture('5-overview');
    await watched.page.getByRole('link', { name: 'Why' }).click();
    await watched.page.getByRole('heading', { name: 'What was decided' }).waitFor();
    assert.ok((await watched.page.locator('.timeline > li').count()) > 0);
    await watched.picture('6-why');
    await watched.page.getByRole('link', { name: 'Agent' }).click();
    await watched.page.getByRole('rowheader', { name }).waitFor();
    await watched.picture('7-agent');
  });

  test('by keyboard alone: list, VM, console, out of the terminal, help', async () => {
    await list();
    await row().waitFor();
    const { keyboard } = watched.page;
    await keyboard.press('j');
    const focused = () => watched.page.evaluate<string>('document.activeElement.textContent');
    assert.equal(await focused(), name);
    await watched.picture('8-focus');
    await keyboard.press('c');
    await untilBadge(watched.page, '.console', 'You type');
    await watched.page.locator('.xterm textarea:focus').waitFor({ state: 'attached' });
    // A key of the page, which is the guest's here.
    await keyboard.press('o');
    assert.match(watched.page.url(), /console$/);
    await keyboard.press('Control+Alt+Escape');
    await watched.page.locator('#read-only:focus').waitFor();
    await keyboard.press('?');
    await watched.page.getByRole('heading', { name: 'Keys' }).waitFor();
    await watched.picture('9-keys');
    await keyboard.press('Escape');
    await keyboard.press('g');
    await keyboard.press('l');
    await row().waitFor();
  });

  test('dark and light: as the system says, and as somebody chose, also after a reload', async () => {
    const ground = (page: WatchedPage) => page.page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    const dark = await site.open('list-dark', { colorScheme: 'dark' });
    const light = await site.open('list-light', { colorScheme: 'light' });
    for (const each of [dark, light]) {
      await rowOf(each.page, name).waitFor();
      await eventually(async () => assert.ok((await brightPixels(each.page, '.vm canvas')) > 20), 60_000);
      await each.picture('running');
    }
    const [darkGround, lightGround] = [await ground(dark), await ground(light)];
    assert.notEqual(darkGround, lightGround);
    await dark.page.getByRole('button', { name: 'Switch to light colours' }).click();
    assert.equal(await ground(dark), lightGround);
    await dark.page.reload();
    await rowOf(dark.page, name).waitFor();
    assert.equal(await ground(dark), lightGround);
    assert.deepEqual([...dark.complaints(), ...light.complaints()], []);
    await Promise.all([dark.close(), light.close()]);
  });

  test('on a telephone nothing is wider than the screen', async () => {
    const phone = await site.open('narrow', { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    const { page } = phone;
    const vm = `vm/default/${name}`;
    const places: Readonly<Record<string, () => Promise<unknown>>> = {
      '': () => rowOf(page, name).waitFor(),
      [vm]: () => page.getByRole('heading', { name: 'Conditions' }).waitFor(),
      [`${vm}/console`]: () => untilBadge(page, '.console', 'You type'),
      [`${vm}/screen`]: () => untilBadge(page, '.screen-panel', 'You control'),
      [`${vm}/why`]: () => page.getByRole('heading', { name: 'What was decided' }).waitFor(),
      agent: () => page.getByRole('rowheader', { name }).waitFor(),
    };
    for (const [number, [hash, shown]] of Object.entries(places).entries()) {
      await page.goto(new URL(`/#/${hash}`, page.url()).href);
      await shown();
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, hash);
      await phone.picture(`${number}`);
    }
    assert.deepEqual(phone.complaints(), []);
    await phone.close();
  });

  test('stop asks, and the VM stops; start starts it', async () => {
    await list();
    await button('Stop').click();
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click();
    await untilBadge(watched.page, '.vm', 'Stopped');
    assert.equal(await site.node.qemuPid(name), undefined);
    await watched.picture('a-stopped');
    await button('Start').click();
    await untilBadge(watched.page, '.vm', 'Running');
  });

  test('no error on its console and no violation of its content security policy in all that time', () => {
    // A VM may go while its picture is under way, and the browser tells it.
    assert.deepEqual(watched.complaints(/status of 404 .*\/vnc\/screenshot\)$/), []);
  });

  test('without the token, or with a wrong one, it is said where the address is; with that one is in', async () => {
    const address = new URL(await site.address());
    const stranger = await site.stranger('stranger');
    await stranger.page.goto(address.origin);
    await stranger.page.getByText('A token is needed: run `virt-node url`').waitFor();
    assert.equal(await stranger.page.locator('input:visible').count(), 0, 'a page that asks for the token is not ours');
    await stranger.page.goto(`${address.origin}/#token=not-the-token-of-this-node`);
    await stranger.page.getByText('A token is needed: run `virt-node url`').waitFor();
    await stranger.picture('1');
    await stranger.page.goto(address.href);
    await rowOf(stranger.page, name).waitFor();
    assert.deepEqual(stranger.complaints(/status of 401/), []);
    await stranger.close();
  });

  const pathOf = (hash: string) => new URL(`/#/${hash}`, watched.page.url()).href;
  const looked = async (what: string, hash: string, words: string | RegExp) => {
    // One after the other takes longer than a program may hang: it is replaced then.
    const look = async ({ page }: WatchedPage) => {
      await page.goto(pathOf(hash));
      await page.getByText(words).first().waitFor();
      const widths = await page.evaluate<readonly number[]>('[document.documentElement.scrollWidth, innerWidth]');
      assert.equal(widths[0], widths[1], `${what}: something is wider than the screen`);
    };
    const pages = [watched, ...inLooks];
    await Promise.all(pages.map(look));
    for (const each of pages) await each.picture(what);
  };

  test('an agent that hangs: what cannot be had is said where it would be', async () => {
    inLooks = await Promise.all(Object.entries(looks).map(([look, options]) => site.open(`error-${look}`, options)));
    const agent = await site.node.pidOf('virt-handler');
    process.kill(agent, 'SIGSTOP');
    try {
      await watched.page.goto(pathOf(`vm/default/${name}`));
      await watched.page.getByText('There is no picture of it now.').waitFor();
      await looked('agent-hangs', `vm/default/${name}`, /^There are no figures now: .* does not answer within/);
    } finally {
      process.kill(agent, 'SIGCONT');
    }
    await watched.page.getByRole('img', { name: /^CPU: \d+ % of 1/ }).waitFor();
  });

  const told = () => watched.page.locator('.banner');
  const mayStop = () => button('Stop').getAttribute('aria-disabled');

  test('an API that hangs and is killed: it is told, nothing can be pressed, and it goes on by itself', async () => {
    await list();
    assert.equal(await mayStop(), 'false');
    const api = await site.node.pidOf('apiserver');
    process.kill(api, 'SIGSTOP');
    await told().getByText('What you see may be old: the Kubernetes API takes requests and does not answer').waitFor();
    assert.equal(await mayStop(), 'true');
    assert.equal(await watched.page.locator('header .link').textContent(), '', 'old words are called live');
    await looked('api-hangs-vm', `vm/default/${name}`, 'What you see may be old');
    await looked('api-hangs', '', 'What you see may be old');
    process.kill(api, 'SIGKILL');
    await told().waitFor({ state: 'hidden' });
    await eventually(async () => assert.equal(await mayStop(), 'false'));
    assert.notEqual(await site.node.pidOf('apiserver'), api);
  });

  test('a node that is killed: what was known last is there, nothing can be pressed, and no image is said to be missing', async () => {
    // Its part of the page is there before the node is not.
    for (const { page } of [watched, ...inLooks]) {
      await page.goto(pathOf('new'));
      await page.getByLabel('Image', { exact: true }).waitFor();
      await page.goto(pathOf(''));
      await rowOf(page, name).waitFor();
    }
    await site.node.end('SIGKILL');
    await told().getByText('The server does not answer: reconnecting. What you see is what was known last.').waitFor();
    assert.equal(await mayStop(), 'true');
    await looked('node-killed', '', 'The server does not answer: reconnecting.');
    await looked('node-killed-vm', `vm/default/${name}`, 'The server does not answer: reconnecting.');
    await looked('node-killed-new', 'new', 'The images of the node cannot be listed now: the server does not answer.');
    assert.ok(await watched.page.getByRole('button', { name: 'Create' }).isDisabled());
  });
});
