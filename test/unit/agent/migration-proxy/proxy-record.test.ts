import assert from 'node:assert/strict';
import { test } from 'node:test';
import { streamSocketName, targetSocket } from '../../../../src/agent/migration-proxy/pod-sockets.ts';
import {
  isSameDuty,
  isUid,
  type ProxyDuty,
  type ProxyRecord,
  readRecord,
} from '../../../../src/agent/migration-proxy/proxy-record.ts';

const launcher = { pid: 7, startTime: '70' };
const target: ProxyDuty = { side: 'target', key: 'a/b', uid: 'u-1', launcher, ports: { '40000': 0, '40001': 49_152 } };
const source: ProxyDuty = { ...target, side: 'source', address: '10.0.0.1' };

test('a record is read as it was written; anything else is none', () => {
  for (const duty of [target, source, { ...target, streamUid: 'u-2' }]) {
    const record: ProxyRecord = { version: 1, duty, process: { pid: 9, startTime: '90' } };
    assert.deepEqual(readRecord(JSON.stringify(record)), record);
  }
  const good = { version: 1, duty: source, process: launcher };
  for (const wrong of [
    { ...good, version: 2 },
    { ...good, process: { pid: 1, startTime: '1' } },
    { ...good, process: { pid: '7', startTime: '1' } },
    { ...good, duty: { ...source, uid: '../x' } },
    { ...good, duty: { ...target, streamUid: '../x' } },
    { ...good, duty: { ...source, side: 'both' } },
    { ...good, duty: { ...source, address: 1 } },
    { ...good, duty: { ...source, ports: { a: 0 } } },
    { ...good, duty: { ...source, ports: { '1': 1 } } },
    { ...good, duty: { ...source, launcher: null } },
    [],
    null,
  ]) {
    assert.equal(readRecord(JSON.stringify(wrong)), undefined);
  }
  for (const text of ['', '{', '"a"']) assert.equal(readRecord(text), undefined);
});

test('a target is the same with other ports and in any order, but not for another launcher or other roles', () => {
  const other = { ...target, ports: { '1': 49_152, '2': 0 } } as const;
  assert.ok(isSameDuty(target, other));
  assert.ok(!isSameDuty(target, { ...target, ports: { '1': 0 } }));
  assert.ok(!isSameDuty(target, { ...target, streamUid: 'u-2' }));
  assert.ok(!isSameDuty(target, { ...target, launcher: { pid: 7, startTime: '71' } }));
  assert.ok(!isSameDuty(target, source));
});

test('a source is the same only with the same address and ports', () => {
  assert.ok(isSameDuty(source, { ...source }));
  assert.ok(!isSameDuty(source, { ...source, address: '10.0.0.2' }));
  assert.ok(!isSameDuty(source, { ...source, ports: { '40000': 0 } }));
  assert.ok(!isSameDuty(source, target));
});

test('sockets have upstream’s names', () => {
  assert.equal(streamSocketName('u', 0), 'u-source.sock');
  assert.equal(streamSocketName('u', 49_153), 'u-49153-source.sock');
  assert.equal(targetSocket('u', 0), '/var/run/libvirt/virtqemud-sock');
  assert.equal(targetSocket('u', 49_152), '/var/run/kubevirt/migrationproxy/u-49152-source.sock');
});

test('a UID is one word of a path', () => {
  for (const uid of ['6d8f36ea-0000-4000-8000-000000000001', 'a']) assert.ok(isUid(uid));
  for (const uid of ['', '-a', '.', '..', 'a/b', 'a b', 'a\n', 'x'.repeat(65)]) assert.ok(!isUid(uid));
});
