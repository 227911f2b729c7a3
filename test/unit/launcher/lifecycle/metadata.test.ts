import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { pino } from 'pino';
import { silentLogger } from '../../../../src/base/index.ts';
import { MetadataCache } from '../../../../src/launcher/lifecycle/metadata.ts';
import { hasRun, pausedOnPurpose } from '../../../../src/launcher/lifecycle/run-record.ts';

let dir: string;
let file: string;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'metadata-'));
  file = path.join(dir, 'state.json');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const open = () => new MetadataCache({ file }, { log: silentLogger });

test('metadata and marks survive a restart of the launcher', () => {
  const before = open();
  before.updateMetadata({ UID: 'u1' });
  before.updateGracePeriod({ DeletionGracePeriodSeconds: 30 });
  before.updateGracePeriod({ MarkedForGracefulShutdown: true });
  before.record(pausedOnPurpose(true));
  before.record(hasRun);
  const after = open();
  assert.deepEqual(after.state, before.state);
  assert.deepEqual(after.metadata.GracePeriod, {
    DeletionGracePeriodSeconds: 30,
    DeletionTimestamp: null,
    MarkedForGracefulShutdown: true,
  });
});

test('listeners hear of a change, not of a repetition, nor of the UID alone', () => {
  const cache = open();
  let heard = 0;
  const stop = cache.onChange(() => heard++);
  cache.updateMetadata({ UID: 'u1' });
  assert.equal(heard, 0);
  cache.updateGracePeriod({ DeletionGracePeriodSeconds: 5 });
  cache.updateGracePeriod({ DeletionGracePeriodSeconds: 5 });
  assert.equal(heard, 1);
  cache.record(pausedOnPurpose(true));
  assert.equal(heard, 1);
  stop();
  cache.updateGracePeriod({ DeletionGracePeriodSeconds: 6 });
  assert.equal(heard, 1);
});

for (const [what, content] of [
  ['a torn file', '{"version":1,"metadata":{"UID":"u'],
  ['an empty file', ''],
  ['another shape', '{"version":1,"metadata":null}'],
  ['a version of the future', '{"version":2,"metadata":{"UID":"u"}}'],
] as const) {
  test(`${what} is set aside with one warning, and the cache starts empty`, () => {
    writeFileSync(file, content);
    const lines: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) });
    const cache = new MetadataCache({ file }, { log });
    assert.equal(cache.metadata.UID, '');
    assert.equal(lines.length, 1);
    assert.equal(readFileSync(`${file}.broken`, 'utf8'), content);
    cache.updateMetadata({ UID: 'u2' });
    assert.equal(open().metadata.UID, 'u2');
  });
}

test('a directory that takes no files costs the persistence, not the launcher', () => {
  const cache = new MetadataCache({ file: '/dev/null/none/state.json' }, { log: silentLogger });
  cache.updateMetadata({ UID: 'u1' });
  assert.equal(cache.metadata.UID, 'u1');
});
