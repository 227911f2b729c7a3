import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { batchesOf, tapLabels } from '../../../../../../src/agent/vmi/host/network/tap-labels.ts';
import { silentLogger } from '../../../../../../src/base/index.ts';

/** A machine whose kernel says that it runs with SELinux; this one does not. */
function machine(t: TestContext, enforce?: string) {
  const dir = mkdtempSync(path.join(tmpdir(), 'selinux-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const put = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    writeFileSync(path.join(dir, file), text);
  };
  put('proc/7/attr/placeholder', '');
  put('tun', '');
  if (enforce !== undefined) put('sys/fs/selinux/enforce', enforce);
  const options = { hostRoot: dir, procDir: path.join(dir, 'proc'), devices: [path.join(dir, 'tun')] };
  return { put, labelOf: tapLabels(options, silentLogger) };
}

test('without SELinux a tap device has no label, and no process is asked for one', async (t) => {
  assert.equal(await machine(t).labelOf(7), undefined);
});

for (const end of ['', '\n', '\0']) {
  test(`with SELinux it is the launcher's own, however the kernel ends it: ${JSON.stringify(end)}`, async (t) => {
    const { put, labelOf } = machine(t, '0');
    put('proc/7/attr/current', `system_u:system_r:container_t:s0:c1,c2${end}`);
    assert.equal(await labelOf(7), 'system_u:system_r:container_t:s0:c1,c2');
  });
}

test('a launcher without a label, or with a text that is none, is refused before anything is made', async (t) => {
  const { put, labelOf } = machine(t, '0');
  for (const text of ['', 'a b', 'x'.repeat(1025), '\u00e4']) {
    put('proc/7/attr/current', text);
    await assert.rejects(labelOf(7), { code: 'POD_NETWORK', message: /SELinux label: the launcher has none/ });
  }
  await assert.rejects(labelOf(8), { code: 'POD_NETWORK', message: /ENOENT/ });
});

const commands = ['link add name k6t-a type bridge', 'tuntap add dev tap0 mode tap', 'link set dev tap0 up', 'x'];

test('only what makes a tap device runs under the label, and everything in its order', () => {
  assert.deepEqual(batchesOf(commands, false), [{ lines: commands, isLabelled: false }]);
  assert.deepEqual(batchesOf(commands, true), [
    { lines: [commands[0]], isLabelled: false },
    { lines: [commands[1]], isLabelled: true },
    { lines: commands.slice(2), isLabelled: false },
  ]);
  assert.equal(batchesOf([commands[1] ?? '', commands[1] ?? ''], true).length, 2);
  assert.deepEqual(batchesOf([], true), []);
});
