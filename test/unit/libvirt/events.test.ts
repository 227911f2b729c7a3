import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeEvent, encodeEvent, eventKindOf, eventTypes, type LibvirtEvent } from '../../../src/libvirt/events.ts';

const handle = { name: 'test', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const handleHex = '00000004 74657374 6695eb01f6a4830479aa97f2502e193f 00000001';

const golden: readonly (readonly [LibvirtEvent, string])[] = [
  [{ kind: 'lifecycle', domain: handle, event: 3, detail: 0 }, `${handleHex} 00000003 00000000`],
  [{ kind: 'reboot', domain: handle }, handleHex],
  [{ kind: 'rtcChange', domain: handle, offsetSeconds: -1n }, `${handleHex} ffffffffffffffff`],
  [{ kind: 'watchdog', domain: handle, action: 2 }, `${handleHex} 00000002`],
  [
    { kind: 'ioError', domain: handle, path: '/d', alias: 'a', action: 1 },
    `${handleHex} 00000002 2f640000 00000001 61000000 00000001`,
  ],
  [
    { kind: 'ioErrorReason', domain: handle, path: '/d', alias: 'a', action: 1, reason: 'enospc' },
    `${handleHex} 00000002 2f640000 00000001 61000000 00000001 00000006 656e6f737063 0000`,
  ],
  [{ kind: 'pmSuspend', reason: 0, domain: handle }, `00000000 ${handleHex}`],
  [{ kind: 'balloonChange', domain: handle, actualKiB: 1024n }, `${handleHex} 0000000000000400`],
  [{ kind: 'deviceRemoved', domain: handle, alias: 'ua-x' }, `${handleHex} 00000004 75612d78`],
  [{ kind: 'deviceAdded', domain: handle, alias: 'ua-x' }, `${handleHex} 00000004 75612d78`],
  [{ kind: 'agentLifecycle', domain: handle, state: 2, reason: 1 }, `${handleHex} 00000002 00000001`],
  [
    { kind: 'jobCompleted', domain: handle, params: [{ field: 'success', type: 'boolean', value: true }] },
    `${handleHex} 00000001 00000007 7375636365737300 00000006 00000001`,
  ],
  [{ kind: 'metadataChange', domain: handle, type: 2, uri: 'u' }, `${handleHex} 00000002 00000001 00000001 75000000`],
  [
    { kind: 'memoryDeviceSizeChange', domain: handle, alias: 'm', sizeBytes: 4096n },
    `${handleHex} 00000001 6d000000 0000000000001000`,
  ],
];

for (const [event, payload] of golden) {
  test(`a ${event.kind} event is its callback id and its fields`, () => {
    const bytes = Buffer.from(`00000005${payload}`.replaceAll(' ', ''), 'hex');
    assert.deepEqual(encodeEvent(5, event), bytes);
    assert.deepEqual(decodeEvent(event.kind, bytes), { callbackId: 5, event });
  });
}

test('every event kind has its own number and its own procedure', () => {
  const types = Object.entries(eventTypes);
  assert.equal(new Set(types.map(([, { id }]) => id)).size, types.length);
  for (const [kind, { procedure }] of types) assert.equal(eventKindOf(procedure), kind);
  assert.equal(eventKindOf(453), undefined);
});

test('an event that is cut short or too long is refused', () => {
  const bytes = encodeEvent(0, { kind: 'lifecycle', domain: handle, event: 0, detail: 0 });
  assert.throws(() => decodeEvent('lifecycle', bytes.subarray(0, -4)), { code: 'XDR_TRUNCATED' });
  assert.throws(() => decodeEvent('reboot', bytes), { code: 'XDR_TRAILING' });
});
