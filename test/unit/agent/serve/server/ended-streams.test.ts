import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { EndedStreams } from '../../../../../src/agent/serve/server/ended-streams.ts';
import type { Key, MigrationState, VirtualMachineInstance } from '../../../../../src/api/index.ts';

const vmis = new Map<Key, VirtualMachineInstance>();
const listeners = new Set<(key: Key) => void>();
const publish = (key: Key) => {
  for (const listener of listeners) listener(key);
};
const put = (name: string, uid: string, migrationState?: MigrationState) => {
  const metadata = { namespace: 'default', name, uid };
  const status = migrationState ? { migrationState } : {};
  vmis.set(`default/${name}`, { metadata, status } as VirtualMachineInstance);
  publish(`default/${name}`);
};
let guests: { uid: string; shown: string }[] = [];
let ended: [string, string][] = [];
let moved: [string, string][] = [];

const watcher = new EndedStreams('a', {
  vmis: {
    get: (key) => vmis.get(key),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  },
  streams: {
    uidsOf: (shown) => guests.filter((guest) => guest.shown === shown).map(({ uid }) => uid),
    endAll: (uid, reason) => ended.push([uid, reason]),
    moveAll: (uid, node) => moved.push([uid, node]),
  },
});

beforeEach(async () => {
  vmis.clear();
  ended = [];
  moved = [];
  guests = [];
  listeners.clear();
  await watcher.start();
});

test('the streams of a VMI go on while it changes', () => {
  guests = [{ uid: 'u1', shown: 'default/vm' }];
  put('vm', 'u1');
  put('vm', 'u1');
  assert.deepEqual(ended, []);
});

test('the streams of a VMI that left this node end, and those of others do not', () => {
  put('vm', 'u1');
  put('other', 'u2');
  guests = ['u1', 'u2'].map((uid) => ({ uid, shown: uid === 'u2' ? 'default/other' : 'default/vm' }));
  vmis.delete('default/vm');
  publish('default/vm');
  assert.deepEqual(ended, [['u1', 'the virtual machine is gone from this node']]);
});

const leaves = { sourceNode: 'a', targetNode: 'b', startTimestamp: '2026-01-02T03:04:05Z' };

test('the streams of a VMI that was migrated away are led to its new node, also when they began on its way', () => {
  put('vm', 'u1', leaves);
  guests = [{ uid: 'u1', shown: 'default/vm' }];
  vmis.delete('default/vm');
  publish('default/vm');
  assert.deepEqual([moved, ended], [[['u1', 'b']], []]);
});

for (const [what, migrationState] of Object.entries({
  'whose migration failed': { ...leaves, failed: true },
  'whose migration had not begun': { ...leaves, startTimestamp: undefined },
  'that had come here': { ...leaves, sourceNode: 'b', targetNode: 'a' },
})) {
  test(`the streams of a VMI ${what} end when it is gone`, () => {
    put('vm', 'u1', leaves);
    put('vm', 'u1', migrationState as MigrationState);
    guests = [{ uid: 'u1', shown: 'default/vm' }];
    vmis.delete('default/vm');
    publish('default/vm');
    assert.deepEqual([moved, ended.length], [[], 1]);
  });
}

test('the streams of a VMI whose name belongs to a new one end, and those of the new one do not', () => {
  put('vm', 'u1');
  guests = [
    { uid: 'u1', shown: 'default/vm' },
    { uid: 'u2', shown: 'default/vm' },
  ];
  put('vm', 'u2');
  assert.deepEqual(ended, [['u1', 'the virtual machine was restarted']]);
});

test('after the stop nothing is looked at', async () => {
  guests = [{ uid: 'u1', shown: 'default/vm' }];
  await watcher.stop();
  publish('default/vm');
  assert.deepEqual([ended, listeners.size], [[], 0]);
});
