import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VmiStore } from '../../../../../src/agent/index.ts';
import { OwnWrites } from '../../../../../src/agent/vmi/loop/own-writes.ts';
import type { VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { key, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { Listeners } from '../../../../fixtures/agent/listeners.ts';

const at = (resourceVersion: string, uid = 'uid-1'): VirtualMachineInstance => {
  const vmi = vmiOf('Running');
  return { ...vmi, metadata: { ...vmi.metadata, uid, resourceVersion } };
};

/** A watch that a test plays. */
function watched(first: VirtualMachineInstance) {
  let shown: VirtualMachineInstance | undefined = first;
  const listeners = new Listeners();
  const store: VmiStore = {
    synced: true,
    get: () => shown,
    keys: () => [key],
    onChange: (listener) => listeners.add(listener),
  };
  const writes = new OwnWrites(store);
  const woken: string[] = [];
  writes.onChange((each) => woken.push(each));
  const tell = (vmi: VirtualMachineInstance | undefined) => {
    shown = vmi;
    listeners.tell(key);
  };
  return { writes, woken, tell, version: () => writes.get(key)?.metadata.resourceVersion };
}

test('of two own writes in a row the echo of the first neither hides the second nor wakes anybody', () => {
  const { writes, woken, tell, version } = watched(at('101'));
  writes.saw(key, at('101'), at('102'));
  writes.saw(key, at('102'), at('103'));
  tell(at('102'));
  assert.deepEqual([version(), woken], ['103', []]);
  tell(at('103'));
  assert.deepEqual([version(), woken], ['103', []]);
});

test('what others write after the own write is shown and wakes', () => {
  const { writes, woken, tell, version } = watched(at('99'));
  writes.saw(key, at('99'), at('100'));
  tell(at('101'));
  assert.deepEqual([version(), woken], ['101', [key]]);
});

test('a VMI that is gone, or another of the same name, is not hidden by an own write', () => {
  const { writes, woken, tell, version } = watched(at('101'));
  writes.saw(key, at('101'), at('105'));
  tell(at('104', 'uid-2'));
  assert.deepEqual([version(), woken], ['104', [key]]);
  writes.saw(key, at('104', 'uid-2'), at('106', 'uid-2'));
  tell(undefined);
  assert.deepEqual([version(), woken], [undefined, [key, key]]);
});

test('while others write again and again the own write among theirs is the newest that is known', () => {
  const { writes, woken, tell, version } = watched(at('101'));
  tell(at('103'));
  writes.saw(key, at('101'), at('105'));
  assert.equal(version(), '105');
  tell(at('104'));
  assert.deepEqual([version(), woken], ['105', [key]]);
});

test('the echo that comes before the answer to the write wakes nobody', async () => {
  const { writes, woken, tell, version } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    tell(at('102'));
    writes.saw(key, at('101'), at('102'));
  });
  assert.deepEqual([version(), woken], ['102', []]);
  tell(at('103'));
  assert.deepEqual(woken, [key], 'and what others write later does');
});

test('what others write while a write is under way wakes once it has ended, whatever came of the write', async () => {
  const { writes, woken, tell } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    writes.saw(key, at('101'), at('102'));
    tell(at('103'));
    assert.deepEqual(woken, []);
  });
  assert.deepEqual(woken, [key]);
  const failing = writes.whileWriting(key, async () => {
    tell(at('104'));
    throw new Error('the API server is away');
  });
  await assert.rejects(failing);
  assert.deepEqual(woken, [key, key]);
});

test('a write that was put on what others wrote wakes, also when the watch is slow: no pass has decided on that', async () => {
  const { writes, woken, tell } = watched(at('101'));
  await writes.whileWriting(key, async () => {
    writes.saw(key, at('101'), at('102'));
    writes.saw(key, at('101'), at('103'));
  });
  tell(at('102'));
  tell(at('103'));
  assert.deepEqual(woken, [key]);
});
