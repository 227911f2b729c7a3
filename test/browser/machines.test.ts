import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { eventually } from '../fixtures/eventually.ts';
import type { WatchedPage } from './fixtures/chromium.ts';
import { brightPixels, looks, PageNode, rowOf, untilBadge, untilTerminal } from './fixtures/page-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'made';

/** Another page has the keyboard; what is refused is told by the browser, too. */
const expected = [
  /WebSocket connection to .* failed/,
  /WebSocket on-error event/,
  /Failed when connecting: Connection closed/,
  /status of (?:400|404|422|426|502|503)/,
];

describe('the page in a browser: machines are made, changed, copied and deleted', { skip: needsRoot }, () => {
  let site: PageNode;
  let watched: WatchedPage;
  let files: string;

  before(async () => {
    files = await mkdtemp(path.join(tmpdir(), 'page-files-'));
    site = await PageNode.start();
    watched = await site.open('machines', looks['wide-light']);
  });
  after(async () => {
    await site?.dispose();
    await rm(files, { recursive: true, force: true });
  });

  const go = (hash: string) => watched.page.goto(new URL(`/#/${hash}`, watched.page.url()).href);
  const button = (label: string) => watched.page.getByRole('button', { name: label, exact: true });
  const field = (label: string) => watched.page.getByLabel(label, { exact: true });
  const said = (text: string | RegExp) => watched.page.getByText(text).first().waitFor();

  test('a machine is made by the form: what the API says stands at the field; its YAML is the same object', async () => {
    await watched.page.keyboard.press('n');
    await field('Name').fill(name);
    assert.equal(await field('Image').inputValue(), 'virt-node/demo');
    await field('Memory').fill('much');
    await field('Kind').selectOption('scratch');
    await button('Create').click();
    await watched.page.locator('#new-memory[aria-invalid=true]').waitFor();
    assert.equal(
      await watched.page.locator('#new-memory-note').textContent(),
      'Invalid value: "much": write a number with its unit, such as 512Mi or 4Gi',
    );
    await watched.page.getByRole('alert').getByText('The API refuses what is marked below.').waitFor();
    assert.equal(await watched.page.getByText('KMGTPE').count(), 0, 'the API’s own expression is shown');
    await watched.picture('1-refused');
    await field('Memory').fill('160Mi');
    await button('YAML').click();
    const yaml = watched.page.getByLabel('YAML of the virtual machine');
    assert.match(await yaml.inputValue(), /name: made[\s\S]*guest: 160Mi[\s\S]*emptyDisk/);
    await yaml.fill((await yaml.inputValue()).replace('no_timer_check quiet', 'no_timer_check tsc=unstable'));
    await button('Form').click();
    assert.equal(await field('Memory').inputValue(), '160Mi');
    await button('Create').click();
    await watched.page.getByRole('heading', { level: 1, name }).waitFor();
    await untilBadge(watched.page, '.vm-view', 'Running', 90_000);
    assert.match(await site.node.kubectl('get', 'vm', name, '-o', 'jsonpath={..kernelArgs}'), /tsc=unstable$/);
  });

  test('its sides: what it uses, its devices, what happened, its log', async () => {
    await watched.page.getByRole('img', { name: /^CPU: \d+ % of 1/ }).waitFor();
    await go(`vm/default/${name}/devices`);
    await watched.page.getByRole('row', { name: /^disk .*scratch: empty at each start.* vda/ }).waitFor();
    await watched.page.getByRole('row', { name: /^default masquerade/ }).waitFor();
    await go(`vm/default/${name}/events`);
    await watched.page.getByRole('rowheader', { name: 'SuccessfulCreate' }).first().waitFor();
    await go(`vm/default/${name}/logs`);
    const log = watched.page.getByRole('textbox', { name: 'Launcher' });
    await eventually(async () => assert.match(await log.inputValue(), /"msg":/), 30_000);
  });

  test('its YAML is changed, with the API’s own words about what is wrong, at its line', async () => {
    await go(`vm/default/${name}/yaml`);
    const text = watched.page.getByLabel(`YAML of ${name}`);
    const before = await text.inputValue();
    assert.doesNotMatch(before, /^status:|managedFields/m);
    await text.fill(before.replace('cores: 1', 'cores: some'));
    await button('Save').click();
    await watched.page.getByRole('alert').getByText('cores').first().waitFor();
    await watched.page
      .getByRole('alert')
      .getByRole('button', { name: /^line \d+/ })
      .first()
      .click();
    assert.match(await watched.page.evaluate<string>('getSelection().toString()'), /cores: some/);
    await watched.picture('2-yaml-refused');
    await text.fill(before.replace('cores: 1', 'cores: 2'));
    await button('Save').click();
    await said(`${name} is saved.`);
    assert.equal(await site.node.kubectl('get', 'vm', name, '-o', 'jsonpath={..domain.cpu.cores}'), '2');
    await go('');
    await rowOf(watched.page, name)
      .getByText(/^Restart required: a non-live-updatable field/)
      .waitFor();
  });

  test('a VM that no agent knows: what it waits for, and what to do; instance types with what they give', async () => {
    const template = { spec: { domain: { memory: { guest: '64Mi' }, devices: {} } } };
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'nowhere' } }];
    await site.node.apply({
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachine',
      metadata: { name: 'waits' },
      spec: { runStrategy: 'Always', template: { spec: { ...template.spec, volumes } } },
    });
    await go('vm/default/waits/why');
    await watched.page.getByText('the PersistentVolumeClaim nowhere, which does not exist').waitFor();
    await watched.page.getByText('create what is missing').waitFor();
    await watched.picture('2-waits');
    await site.node.apply({
      apiVersion: 'instancetype.kubevirt.io/v1beta1',
      kind: 'VirtualMachineClusterInstancetype',
      metadata: { name: 'small' },
      spec: { cpu: { guest: 2 }, memory: { guest: '512Mi' } },
    });
    await go('types');
    await watched.page.getByRole('row', { name: 'small all 2 CPUs, 512Mi of memory none' }).waitFor();
    await site.node.kubectl('delete', 'vm', 'waits');
  });

  test('texts are pasted into console and screen; the picture is saved', async () => {
    await go(`vm/default/${name}/console`);
    await untilBadge(watched.page, '.console', 'You type');
    await eventually(async () => {
      await watched.page.keyboard.press('Enter');
      await untilTerminal(watched.page, /login:\s*$/, 2_000);
    }, 60_000);
    await paste('root\n');
    await untilTerminal(watched.page, /#\s*$/);
    await paste('echo $((40 + 2))-pasted\n');
    await untilTerminal(watched.page, /^42-pasted/m);
    await go(`vm/default/${name}/screen`);
    await untilBadge(watched.page, '.screen-panel', 'You control');
    const canvas = '.screen canvas';
    await eventually(async () => assert.ok((await brightPixels(watched.page, canvas)) > 300), 60_000);
    // What is typed on the screen says on the guest's serial port what came of it. A guest that is too busy to read its keyboard loses keys: once more.
    const serial = await site.node.serial(name);
    let heard = '';
    serial.on('data', (chunk: Buffer) => (heard += chunk.toString('latin1')));
    const says = (expected: RegExp) => eventually(() => assert.match(heard, expected), 5_000);
    await eventually(async () => {
      await paste('\nroot\n');
      await paste('echo $((40 + 2))-typed >/dev/ttyS0\n');
      await says(/^42-typed/m);
    }, 60_000);
    // With Shift, and on every row of the keyboard. Control C ends what a lost quotation mark has left open.
    await eventually(async () => {
      await watched.page.locator(canvas).press('Control+c');
      await paste('[ "$((6*7))" = 42 ] && { echo "Hello, ~World_%+?" >/dev/ttyS0; }\n');
      await says(/^Hello, ~World_%\+\?/m);
    }, 60_000);
    serial.destroy();
    const download = watched.page.waitForEvent('download');
    await button('Picture').click();
    const saved = await (await download).path();
    assert.match((await readFile(saved)).subarray(0, 8).toString('latin1'), /^(?:.PNG|P6)/);
  });

  async function paste(text: string): Promise<void> {
    await button('Paste…').click();
    const dialog = watched.page.getByRole('dialog');
    await dialog.getByLabel('Text').fill(text);
    await dialog.getByRole('button', { name: 'Send' }).click();
    await dialog.waitFor({ state: 'detached' });
  }

  for (const [look, options] of Object.entries(looks)) {
    test(`every view as it looks (${look}): nothing is wider than the screen`, async () => {
      await go('');
      const page = await site.open(look, options);
      const vm = `vm/default/${name}`;
      const views: Readonly<Record<string, string>> = {
        list: '',
        new: 'new',
        images: 'images',
        types: 'types',
        agent: 'agent',
        overview: vm,
        console: `${vm}/console`,
        screen: `${vm}/screen`,
        devices: `${vm}/devices`,
        snapshots: `${vm}/snapshots`,
        events: `${vm}/events`,
        logs: `${vm}/logs`,
        yaml: `${vm}/yaml`,
        'start-up': `${vm}/timeline`,
        why: `${vm}/why`,
      };
      for (const [view, hash] of Object.entries(views)) {
        await page.page.goto(new URL(`/#/${hash}`, page.page.url()).href);
        await page.page.locator('h1').waitFor();
        await eventually(async () =>
          assert.equal(await page.page.getByText(/^(?:Asking|One moment|Connecting)/).count(), 0),
        );
        const { width } = options.viewport ?? { width: 0 };
        assert.equal(await page.page.evaluate('document.documentElement.scrollWidth'), width, view);
        await page.picture(view);
      }
      assert.deepEqual(page.complaints(...expected), []);
      await page.close();
    });
  }

  test('a clone is another machine that does not run: its console says so, and starts it', async () => {
    await go('');
    await rowOf(watched.page, name).getByLabel(`More for ${name}`).click();
    await watched.page.getByRole('button', { name: `Clone… ${name}` }).click();
    await said('MAC addresses and serial numbers are left out');
    await button('Create').click();
    await watched.page.getByRole('heading', { level: 1, name: `${name}-clone` }).waitFor();
    await go(`vm/default/${name}-clone/console`);
    await untilBadge(watched.page, '.console', 'Not running');
    await said(`${name}-clone does not run.`);
    await watched.picture('3-not-running');
    await watched.page.locator('.notice').getByRole('button').click();
    await untilBadge(watched.page, '.console', 'You type', 90_000);
  });

  test('several are deleted at once, by the keyboard alone; the question keeps the focus and says what goes', async () => {
    const { keyboard } = watched.page;
    await go('');
    await rowOf(watched.page, name).waitFor();
    await keyboard.press('j');
    await keyboard.press('x');
    await keyboard.press('j');
    await keyboard.press('x');
    await said('2 selected');
    await watched.picture('4-selected');
    await button('Delete (2)').focus();
    await keyboard.press('Enter');
    await said('Delete 2 machines?');
    const focused = () => watched.page.evaluate<string>(`document.activeElement.closest('dialog') ? 'in' : 'out'`);
    for (let times = 0; times < 4; times++) {
      await keyboard.press('Tab');
      assert.notEqual(await watched.page.evaluate(`document.activeElement.closest('main')?.tagName ?? ''`), 'MAIN');
    }
    await keyboard.press('Escape');
    await watched.page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.match(await site.node.kubectl('get', 'vm', '-o', 'name'), /made[\s\S]*made-clone/);
    await keyboard.press('Enter');
    await said('Delete 2 machines?');
    assert.equal(await focused(), 'in');
    await watched.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).press('Enter');
    await rowOf(watched.page, name).waitFor({ state: 'detached', timeout: 90_000 });
    await rowOf(watched.page, `${name}-clone`).waitFor({ state: 'detached', timeout: 90_000 });
    assert.equal((await site.node.kubectl('get', 'vm', '-o', 'name')).trim(), '');
  });

  test('an image is uploaded; what is none is refused in words', async () => {
    await writeFile(path.join(files, 'debian-12.qcow2'), gzipSync('<!DOCTYPE html><title>404</title>'));
    await go('images');
    await field('File (qcow2, raw, ISO, VMDK, VDI, VHD)').setInputFiles(path.join(files, 'debian-12.qcow2'));
    await watched.page.getByRole('button', { name: /^Upload/ }).click();
    await watched.page.getByRole('alert').getByText('is a web page and no disk').waitFor();
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', path.join(files, 'fine.qcow2'), '16M']);
    await field('File (qcow2, raw, ISO, VMDK, VDI, VHD)').setInputFiles(path.join(files, 'fine.qcow2'));
    await watched.page.getByRole('button', { name: /^Upload/ }).click();
    await watched.page.getByRole('row', { name: /^my\/fine disk or ISO/ }).waitFor();
    await watched.picture('5-uploaded');
  });

  test('no error on its console but for what was refused', () => {
    assert.deepEqual(watched.complaints(...expected), []);
  });
});
