import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { silentLogger } from '../../src/base/index.ts';
import { WebServer } from '../../src/web/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { MemoryBackend, vmRow } from '../fixtures/web-backend.ts';
import { launchChromium, WatchedPage } from './fixtures/chromium.ts';
import { rowOf } from './fixtures/page-node.ts';

/** All that can be used with a mouse and is in sight, each by a number that it keeps. */
const usable = `[...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
  .filter((each) => each.checkVisibility() && each.tabIndex >= 0 && !each.disabled && !each.matches('.skip'))
  .map((each) => nameOf(each))`;

/** How what has the focus is called, and whether that can be seen: its own ring or that of the line around it. */
const names = `globalThis.nameOf = (each) => {
  globalThis.numbers ??= new WeakMap();
  globalThis.nextNumber ??= 0;
  if (!numbers.has(each)) numbers.set(each, nextNumber++);
  const label = each.getAttribute('aria-label') ?? each.textContent.trim();
  return numbers.get(each) + ' ' + (label || each.id || each.tagName);
};
globalThis.hasRing = (each) => [each, each.closest('.vm'), each.closest('.code-editor')].some((ring) => {
  if (!ring) return false;
  const { outlineStyle, outlineWidth } = getComputedStyle(ring);
  return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
});
globalThis.isInSight = (each) => {
  const { top, bottom, left, right } = each.getBoundingClientRect();
  return bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
};`;
const focused = `(() => {
  const each = document.activeElement;
  return { name: nameOf(each), ring: hasRing(each), inSight: isInSight(each), isBody: each === document.body };
})()`;

const namespace = '/apis/kubevirt.io/v1/namespaces/default';
const snapshots = '/apis/snapshot.kubevirt.io/v1beta1/namespaces/default';
const clones = '/apis/clone.kubevirt.io/v1beta1/namespaces/default/virtualmachineclones';
const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
const vm = {
  ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'demo', namespace: 'default' } },
  spec: { runStrategy: 'Always', template: { spec: { domain: { devices: {} }, volumes } } },
};
const evening = {
  metadata: { name: 'evening', namespace: 'default', creationTimestamp: '2026-01-02T03:00:00Z' },
  spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'demo' } },
  status: { phase: 'Succeeded', readyToUse: true, creationTime: '2026-01-02T03:00:00Z' },
};
const farm = {
  metadata: { name: 'farm', namespace: 'default' },
  ...{ spec: { replicas: 3 }, status: { replicas: 3, readyReplicas: 3 } },
};

describe('the page in a browser: by the keyboard alone', () => {
  const backend = new MemoryBackend();
  let browser: Browser;
  let server: WebServer;
  let watched: WatchedPage;

  before(async () => {
    backend.vms.set(vmRow('demo'), vmRow('other'));
    const [from, to] = ['2026-01-02T03:04:05.100Z', '2026-01-02T03:04:05.300Z'];
    backend.timelineRows = [{ part: 'pod', what: 'its root directory', from, to }];
    backend.images.rows.push({ reference: 'my/debian:12', boots: 'disk', sizeBytes: 2 ** 30 });
    backend.kube.objects.set(`${namespace}/virtualmachines/demo`, vm);
    backend.kube.objects.set(`${snapshots}/virtualmachinesnapshots`, { items: [evening] });
    for (const others of [`${snapshots}/virtualmachinesnapshotcontents`, `${snapshots}/virtualmachinerestores`, clones])
      backend.kube.objects.set(others, { items: [] });
    backend.kube.objects.set('/apis/pool.kubevirt.io/v1beta1/virtualmachinepools', { items: [farm] });
    const options = { port: 0, pageDir: path.resolve('dist/web'), tokenHint: 'run `virt-node url`' };
    server = new WebServer(options, { backend, log: silentLogger });
    await server.start();
    browser = await launchChromium();
    watched = await WatchedPage.open(browser, 'keyboard', { viewport: { width: 1440, height: 900 } });
    await watched.page.goto(server.url);
    await rowOf(watched.page, 'demo').waitFor();
    await watched.page.evaluate(names);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  interface Focused {
    readonly name: string;
    readonly ring: boolean;
    readonly inSight: boolean;
    readonly isBody: boolean;
  }

  const press = (...keys: readonly string[]) =>
    keys.reduce<Promise<void>>((before, key) => before.then(() => watched.page.keyboard.press(key)), Promise.resolve());
  const evaluate = <T>(script: string) => watched.page.evaluate<T>(script);
  const focusedName = async () => (await evaluate<Focused>(focused)).name.replace(/^\d+ /, '');
  const go = async (hash: string) => {
    await evaluate(`location.hash = ${JSON.stringify(`#/${hash}`)}`);
    await watched.page.locator('h1').waitFor();
    await eventually(async () => assert.equal(await watched.page.getByText(/^(?:Asking|One moment)/).count(), 0));
  };
  const dialog = () => watched.page.getByRole('dialog');
  /** What the page has written, newest last. */
  const written = () => backend.kube.requests.filter(({ method }) => method !== 'GET');

  const views = {
    list: '',
    new: 'new',
    clone: 'new/default/demo',
    images: 'images',
    overview: 'vm/default/demo',
    devices: 'vm/default/demo/devices',
    snapshots: 'vm/default/demo/snapshots',
    events: 'vm/default/demo/events',
    logs: 'vm/default/demo/logs',
    yaml: 'vm/default/demo/yaml',
    timeline: 'vm/default/demo/timeline',
  };
  for (const [view, hash] of Object.entries(views)) {
    test(`Tab comes to all that can be used, and what has the focus is seen: ${view}`, async () => {
      await go(hash);
      await evaluate('document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)');
      const wanted = await evaluate<string[]>(usable);
      assert.ok(wanted.length >= 5, `only ${wanted}`);
      const reached = new Set<string>();
      const unseen: string[] = [];
      for (let times = 0; times < wanted.length + 12; times++) {
        await press('Tab');
        const { name, ring, inSight, isBody } = await evaluate<Focused>(focused);
        if (!isBody) reached.add(name);
        if (!isBody && !(ring && inSight)) unseen.push(name);
      }
      assert.deepEqual(unseen, []);
      assert.deepEqual(
        wanted.filter((name) => !reached.has(name)),
        [],
      );
    });
  }

  test('Escape closes the list of keys, and the focus is where it was', async () => {
    await go('');
    await press('j');
    assert.equal(await focusedName(), 'demo');
    await press('?');
    await dialog().getByRole('heading', { name: 'Keys' }).waitFor();
    await press('Escape');
    await dialog().waitFor({ state: 'detached' });
    assert.equal(await focusedName(), 'demo');
  });

  test('a question of a menu: Escape answers no, and the focus is at the menu again', async () => {
    const menu = rowOf(watched.page, 'demo').getByLabel('More for demo');
    for (const label of ['Reset', 'Delete…']) {
      await menu.focus();
      await press('Enter');
      await rowOf(watched.page, 'demo')
        .getByRole('button', { name: `${label} demo` })
        .focus();
      await press('Enter');
      await dialog().waitFor();
      assert.equal(await focusedName(), 'Cancel');
      await press('Escape');
      await dialog().waitFor({ state: 'detached' });
      assert.equal(await focusedName(), 'More for demo', label);
    }
    assert.deepEqual(written(), []);
    await menu.focus();
    await press('Enter', 'Escape');
    assert.equal(await rowOf(watched.page, 'demo').locator('details').getAttribute('open'), null);
    assert.equal(await focusedName(), 'More for demo');
  });

  test('a pool is scaled: a number that is none is not sent', async () => {
    await watched.page.getByRole('button', { name: 'Scale pool farm' }).focus();
    await press('Enter');
    await dialog().getByText('It has 3 machines now.').waitFor();
    assert.equal(await evaluate('document.activeElement.id'), 'answer');
    await press('Control+a');
    await watched.page.keyboard.type('few');
    await press('Enter');
    assert.equal(await dialog().count(), 1);
    await press('Control+a', '5', 'Enter');
    await dialog().waitFor({ state: 'detached' });
    await watched.page.getByText('farm gets 5 machines.').waitFor();
    const [scale] = written();
    assert.deepEqual(
      [scale?.method, scale?.path, JSON.parse(scale?.body ?? '').spec],
      [
        'PUT',
        '/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools/farm/scale?fieldValidation=Strict',
        { replicas: 5 },
      ],
    );
    assert.equal(await focusedName(), 'Scale pool farm');
  });

  test('a snapshot is taken, restored, cloned and deleted; each question says what comes of it', async () => {
    backend.kube.requests.length = 0;
    await go('');
    await press('j', 'p');
    const { page } = watched;
    await page.getByRole('rowheader', { name: 'evening' }).waitFor();
    await page.getByRole('button', { name: 'Take snapshot…' }).focus();
    await press('Enter');
    await dialog().getByText('Kept: its definition, and its disks data.').waitFor();
    await press('Escape');
    await dialog().waitFor({ state: 'detached' });
    assert.equal(await focusedName(), 'Take snapshot…');
    await press('Enter', 'Control+a');
    await page.keyboard.type('morning');
    await press('Enter');
    await page.getByText('The snapshot morning is being taken.').waitFor();
    await page.getByRole('button', { name: 'Restore… evening' }).focus();
    await press('Enter');
    await dialog().getByText('It has to be stopped for it').waitFor();
    await watched.picture('1-restore');
    await dialog().getByRole('button', { name: 'Restore' }).focus();
    await press('Enter');
    await page.getByText('demo is being restored to evening.').waitFor();
    assert.equal(await focusedName(), 'Restore… evening');
    await press('Tab', 'Enter', 'Enter');
    await page.getByText('demo-clone is being made of evening.').waitFor();
    await press('Tab', 'Enter');
    await dialog().getByRole('button', { name: 'Delete' }).focus();
    await press('Enter');
    await page.getByText('evening is being deleted.').waitFor();
    assert.deepEqual(
      written().map(({ method, path: at, body }) => [
        method,
        at.replace(/^\/apis\/|\?.*$/g, ''),
        body && JSON.parse(body).spec,
      ]),
      [
        [
          ...['POST', 'snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinesnapshots'],
          { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'demo' } },
        ],
        [
          ...['POST', 'snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinerestores'],
          {
            target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'demo' },
            ...{ virtualMachineSnapshotName: 'evening', targetReadinessPolicy: 'StopTarget' },
          },
        ],
        [
          ...['POST', 'clone.kubevirt.io/v1beta1/namespaces/default/virtualmachineclones'],
          {
            source: { apiGroup: 'snapshot.kubevirt.io', kind: 'VirtualMachineSnapshot', name: 'evening' },
            target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'demo-clone' },
          },
        ],
        ['DELETE', 'snapshot.kubevirt.io/v1beta1/namespaces/default/virtualmachinesnapshots/evening', undefined],
      ],
    );
  });

  test('what the API refuses is said in its words, and stays until it is put away', async () => {
    const message = 'admission webhook denied the request: spec.target: VirtualMachineRestore "back" in progress';
    backend.kube.answer = { httpStatus: 400, contentType: 'application/json', text: JSON.stringify({ message }) };
    await watched.page.getByRole('button', { name: 'Restore… evening' }).focus();
    await press('Enter');
    await dialog().getByRole('button', { name: 'Restore' }).focus();
    await press('Enter');
    await watched.page.getByRole('alert').getByText(`Restore demo: ${message}`).waitFor();
    await watched.page.getByRole('alert').getByRole('button', { name: 'Close' }).focus();
    await press('Enter');
    await watched.page.getByText(message).waitFor({ state: 'detached' });
    backend.kube.answer = { httpStatus: 200, contentType: 'application/json', text: '{}' };
  });

  test('no error on its console but for the refusal and pictures that there are none of', () => {
    assert.deepEqual(watched.complaints(/status of (?:400|502)/), []);
  });
});
