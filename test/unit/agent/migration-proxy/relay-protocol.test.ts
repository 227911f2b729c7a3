import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KeptProxy } from '../../../../src/agent/migration-proxy/proxy-keeper.ts';
import {
  type RelayRequest,
  type RelayState,
  readRelayMessage,
  readRequest,
} from '../../../../src/agent/migration-proxy/relay-protocol.ts';

const launcher = { pid: 7, startTime: '70' };
const duty = {
  side: 'target',
  key: 'a/b',
  uid: 'u-1',
  migrationUid: 'm-1',
  launcher,
  ports: { '0': 0, '1': 49_152 },
} as const;
const settings = { minVersion: 'TLSv1.2', ciphers: 'ECDHE+AESGCM' } as const;
const tls = { keyPair: 'pair', authorities: 'authorities', peers: ['a', 'b'], settings };
const order = { id: 1, call: 'open', duty, tls };

test('requests are read as they were written', () => {
  const requests: RelayRequest[] = [
    { id: 1, call: 'open', duty, tls },
    { id: 2, call: 'open', duty: { ...duty, side: 'source', address: '10.0.0.1' }, tls: { ...tls, peers: 'any' } },
    { id: 3, call: 'close', side: 'source', uid: 'u-1' },
    { id: 1, call: 'cancel' },
  ];
  for (const request of requests) assert.deepEqual(readRequest(JSON.stringify(request)), request);
});

test('a member that a later agent sends is passed over', () => {
  assert.deepEqual(readRequest(JSON.stringify({ ...order, more: 1, tls: { ...tls, more: 1 } })), order);
});

test('whatever is no request is none', () => {
  for (const wrong of [
    ...[null, [], 'open', {}, { id: 1 }, { ...order, id: '1' }, { ...order, id: 1.5 }, { ...order, call: 'start' }],
    ...[
      { ...order, duty: undefined },
      { ...order, tls: undefined },
      { ...order, duty: { ...duty, uid: '../x' } },
    ],
    { ...order, duty: { ...duty, key: 'k'.repeat(401) } },
    { ...order, duty: { ...duty, migrationUid: 'm'.repeat(401) } },
    { ...order, duty: { ...duty, launcher: { pid: 1, startTime: '1' } } },
    ...[{}, { '0': 0, '1': 0 }, { '0': 0, '1': 49_152, '2': 49_153, '3': 0 }, { '0': 1 }].map((ports) => ({
      ...order,
      duty: { ...duty, ports },
    })),
    ...[{ keyPair: 1 }, { authorities: null }, { peers: [] }, { peers: 'all' }, { peers: ['a', 1] }].map((part) => ({
      ...order,
      tls: { ...tls, ...part },
    })),
    ...[{}, { ...settings, minVersion: 'TLSv1.2\n  bind :1' }, { ...settings, ciphers: undefined }].map((given) => ({
      ...order,
      tls: { ...tls, settings: given },
    })),
    ...[{ side: 'both', uid: 'u' }, { side: 'target' }].map((part) => ({ id: 1, call: 'close', ...part })),
  ]) {
    assert.equal(readRequest(JSON.stringify(wrong)), undefined, JSON.stringify(wrong));
  }
  for (const text of ['', '{', '1']) assert.equal(readRequest(text), undefined);
});

test('states and answers are read as they were written, without what is no process of theirs', () => {
  const figures = {
    key: 'a/b',
    side: 'target',
    ports: duty.ports,
    streams: 1,
    bytes: 2,
    bytesPerSecond: 3,
    refused: 4,
    stalledSeconds: 5,
  } as const;
  const kept: KeptProxy = { duty, process: launcher, figures };
  const ended = { side: 'source', uid: 'u', migrationUid: 'm', reason: 'stream frozen' } as const;
  const { migrationUid: _, ...unnamed } = ended;
  const said = { version: 1, address: '10.0.0.1', supported: true, problem: 'words' };
  const state: RelayState = { ...said, kept: [kept], ended: [ended, unnamed] };
  assert.deepEqual(readRelayMessage(JSON.stringify(state)), state);
  const more = {
    ...state,
    kept: [kept, { ...kept, process: null }, 1, { ...kept, duty: { ...duty, uid: '..' } }],
    ended: [ended, unnamed, 1, { ...ended, side: 'both' }, { ...ended, uid: 1 }, { ...ended, reason: 'x'.repeat(999) }],
  };
  assert.deepEqual(readRelayMessage(JSON.stringify(more)), state);
  const older = { version: 1, address: '10.0.0.1', supported: true, kept: [] };
  assert.deepEqual(readRelayMessage(JSON.stringify(older)), { ...older, ended: [] });
  assert.deepEqual(readRelayMessage('{"id":1}'), { id: 1 });
  const failure = { code: 'LAUNCHER_GONE', message: 'words' } as const;
  assert.deepEqual(readRelayMessage(JSON.stringify({ id: 1, failure })), { id: 1, failure });
  const later = { id: 1, failure: { code: 'LATER', message: 'words' } };
  assert.deepEqual(readRelayMessage(JSON.stringify(later)), {
    id: 1,
    failure: { code: 'START_FAILED', message: 'words' },
  });
});

test('whatever no relay says is nothing', () => {
  for (const text of [
    '',
    '[]',
    '{}',
    '{"id":"1"}',
    '{"id":1,"failure":{}}',
    '{"version":1}',
    '{"version":"1","kept":[]}',
  ]) {
    assert.equal(readRelayMessage(text), undefined, text);
  }
});
