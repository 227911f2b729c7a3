import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type Database, type OpenDatabase, openLevel } from '../../../src/apiserver/store/database.ts';
import type { StoreEvent } from '../../../src/apiserver/store/entry.ts';
import { History } from '../../../src/apiserver/store/history.ts';
import { KeyLock } from '../../../src/apiserver/store/key-lock.ts';
import { stateKey } from '../../../src/apiserver/store/records.ts';
import { Store } from '../../../src/apiserver/store/store.ts';
import { silentLogger } from '../../../src/base/index.ts';

let home: string;
let dir: string;
const open: Store[] = [];

beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'store-'));
  dir = path.join(home, 'db');
});
afterEach(async () => {
  for (const store of open.splice(0)) await store.close().catch(() => undefined);
  await rm(home, { recursive: true, force: true });
});

async function openStore(openDatabase?: OpenDatabase, maxEvents = 100): Promise<Store> {
  const options = { dir, maxEvents, maxBytes: 1e6 };
  const store = await Store.open(options, { log: silentLogger, ...(openDatabase ? { openDatabase } : {}) });
  open.push(store);
  return store;
}

const address = (name: string) => ({ collection: '/configmaps', namespace: 'n', name });
const put = (name: string, data = '') => ({
  kind: 'put' as const,
  ...address(name),
  object: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data },
});
const del = (name: string) => ({ ...put(name), kind: 'delete' as const });

/** The last log file of LevelDB, where the newest writes are. */
async function logFile(): Promise<string> {
  const logs = (await readdir(dir)).filter((file) => file.endsWith('.log')).sort();
  return path.join(dir, logs.at(-1) ?? '');
}

describe('store', () => {
  test('revisions grow by one per change over all collections and go on after a restart', async () => {
    const first = await openStore();
    const start = first.revision;
    const [a, b] = await Promise.all([first.commit(put('a')), first.commit({ ...put('b'), collection: '/secrets' })]);
    assert.deepEqual([a.revision, b.revision], [start + 1, start + 2]);
    assert.equal(a.object.metadata.resourceVersion, String(start + 1));
    await first.commit(del('a'));
    await first.close();
    const second = await openStore();
    assert.equal(second.revision, start + 3);
    assert.equal(second.get(address('a')), undefined);
    assert.equal((await second.commit(put('a'))).revision, start + 4);
  });

  test('a change is visible only when it is on disk', async () => {
    let finish: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const store = await openStore(async (where) => {
      const level = await openLevel(where);
      return { ...level, write: async (operations) => gate.then(() => level.write(operations)) };
    });
    const seen: StoreEvent[] = [];
    store.subscribe('*', (event) => seen.push(event));
    const written = store.commit(put('a'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(store.get(address('a')), undefined);
    assert.deepEqual(seen, []);
    finish();
    await written;
    assert.equal(seen.length, 1);
    assert.ok(store.get(address('a')));
  });

  test('changes that wait for the disk share one batch', async () => {
    let writes = 0;
    const store = await openStore(async (where) => {
      const level = await openLevel(where);
      return {
        ...level,
        write: (operations) => {
          writes++;
          return level.write(operations);
        },
      };
    });
    await Promise.all(Array.from({ length: 200 }, (_, index) => store.commit(put(`a${index}`))));
    assert.ok(writes <= 3, `${writes} batches`);
    assert.equal(store.list('/configmaps').length, 200);
  });

  test('the past of a list can be told as long as the history reaches', async () => {
    const store = await openStore(undefined, 3);
    await store.commit(put('a', '1'));
    await store.commit(put('b', '1'));
    const then = store.revision;
    await store.commit(put('a', '2'));
    await store.commit(del('b'));
    await store.commit(put('c'));
    const past = store.listAt('/configmaps', undefined, then);
    assert.deepEqual(
      past?.map(({ name, object }) => [name, object.data]),
      [
        ['a', '1'],
        ['b', '1'],
      ],
    );
    await store.commit(put('d'));
    assert.equal(store.listAt('/configmaps', undefined, then), undefined);
  });

  test('a second server on the same directory is refused, and the message says why', async () => {
    await openStore();
    await assert.rejects(openStore(), { code: 'STORE_IN_USE', message: /stop that one first/ });
  });

  test('a torn end of the log (a write that was never acknowledged) is no damage', async () => {
    const store = await openStore();
    await store.commit(put('a'));
    await store.close();
    const file = await logFile();
    await writeFile(file, Buffer.concat([await readFile(file), Buffer.from('torn half of a record')]));
    const again = await openStore();
    assert.ok(again.get(address('a')));
  });

  test('damage in the middle of the log is noticed, and the message says what to do', async () => {
    const store = await openStore();
    for (let index = 0; index < 50; index++) await store.commit(put(`a${index}`, 'x'.repeat(2000)));
    await store.close();
    const file = await logFile();
    const bytes = await readFile(file);
    bytes.fill(0x55, 40_000, 40_100);
    await writeFile(file, bytes);
    await assert.rejects(openStore(), (error: Error & { code: string }) => {
      assert.equal(error.code, 'STORE_CORRUPT');
      assert.match(error.message, /damaged/);
      assert.match(error.message, /move its files away, leave the directory empty and start again/);
      return true;
    });
  });

  test('a CURRENT file that points nowhere is damage too', async () => {
    const store = await openStore();
    await store.commit(put('a'));
    await store.close();
    await writeFile(path.join(dir, 'CURRENT'), 'MANIFEST-999999\n');
    await assert.rejects(openStore(), { code: 'STORE_CORRUPT' });
  });

  const records: [string, string, string, string][] = [
    ['an object that is no JSON', 'o!/configmaps!n!a', '{"half', 'STORE_CORRUPT'],
    [
      'an object of another name',
      'o!/configmaps!n!a',
      '{"metadata":{"name":"b","resourceVersion":"2"}}',
      'STORE_CORRUPT',
    ],
    ['an object without version', 'o!/configmaps!n!a', '{"metadata":{"name":"a"}}', 'STORE_CORRUPT'],
    [
      'an object that the state does not count',
      'o!/configmaps!n!a',
      '{"metadata":{"name":"a","resourceVersion":"2"}}',
      'STORE_CORRUPT',
    ],
    ['a state that is no object', stateKey, '7', 'STORE_CORRUPT'],
    ['a state of a newer format', stateKey, '{"format":3,"revision":1,"count":0,"revisionSum":0}', 'STORE_TOO_NEW'],
  ];
  for (const [what, key, value, code] of records) {
    test(`${what} is refused at start`, async () => {
      const level = await openLevel(dir);
      await level.write([{ type: 'put', key, value }]);
      await level.close();
      await assert.rejects(openStore(), { code });
    });
  }

  /** Fails the next write, before or after it reached the disk. */
  function failing(when: 'before' | 'after') {
    const fault = { next: false };
    const openFailing: OpenDatabase = async (where) => {
      const level = await openLevel(where);
      const write: Database['write'] = async (operations) => {
        if (!fault.next) return level.write(operations);
        fault.next = false;
        if (when === 'after') await level.write(operations);
        throw new Error('No space left on device');
      };
      return { ...level, write };
    };
    return { fault, openFailing };
  }

  test('a write that fails is refused and invisible; the next one works again', async () => {
    const { fault, openFailing } = failing('before');
    const store = await openStore(openFailing);
    await store.commit(put('a', '1'));
    fault.next = true;
    await assert.rejects(store.commit(put('a', '2')), { code: 'STORE_WRITE_FAILED', message: /No space left/ });
    assert.equal(store.healthy, false);
    assert.equal(store.get(address('a'))?.object.data, '1');
    await store.commit(put('b'));
    assert.equal(store.healthy, true);
    assert.equal(store.get(address('a'))?.object.data, '1');
  });

  test('a write that failed after it reached the disk is shown later, and its revision is not used twice', async () => {
    const { fault, openFailing } = failing('after');
    const store = await openStore(openFailing);
    fault.next = true;
    await assert.rejects(store.commit(put('a')), { code: 'STORE_WRITE_FAILED' });
    await assert.rejects(store.commit(put('b')), { message: /try again/ });
    const revision = store.get(address('a'))?.revision;
    assert.equal(revision, store.revision);
    assert.equal((await store.commit(put('b'))).revision, Number(revision) + 1);
    await store.close();
    assert.equal((await openStore()).list('/configmaps').length, 2);
  });

  test('a database that is gone after a failed write is not made anew: nothing is written until it is back', async () => {
    const { fault, openFailing } = failing('before');
    const store = await openStore(openFailing);
    await store.commit(put('a', '1'));
    const current = path.join(dir, 'CURRENT');
    const text = await readFile(current);
    fault.next = true;
    await assert.rejects(store.commit(put('a', '2')), { code: 'STORE_WRITE_FAILED' });
    await rm(current);
    await assert.rejects(store.commit(put('b')), { code: 'STORE_WRITE_FAILED', message: /CURRENT is missing/ });
    assert.equal(store.get(address('a'))?.object.data, '1');
    await writeFile(current, text);
    await store.commit(put('b'));
    assert.equal(store.list('/configmaps').length, 2);
  });

  test('a closed store refuses writes', async () => {
    const store = await openStore();
    await store.close();
    await assert.rejects(store.commit(put('a')), { code: 'STORE_CLOSED' });
  });
});

describe('history', () => {
  const event = (revision: number, json = '{}'): StoreEvent => {
    const object = { apiVersion: 'v1', kind: 'X', metadata: { name: 'x' } };
    return { type: 'ADDED', revision, entry: { ...address('x'), revision, object, json }, previous: undefined };
  };

  test('is bounded by count and by bytes, and says from where it can tell', () => {
    const byCount = new History({ maxEvents: 3, maxBytes: 1e6 }, 0);
    for (let revision = 1; revision <= 10_000; revision++) byCount.push(event(revision));
    assert.equal(byCount.size, 3);
    assert.equal(byCount.floor, 9_997);
    assert.deepEqual(
      byCount.since(9_998)?.map(({ revision }) => revision),
      [9_999, 10_000],
    );
    assert.equal(byCount.since(9_996), undefined);
    const byBytes = new History({ maxEvents: 100, maxBytes: 10 }, 0);
    for (let revision = 1; revision <= 5; revision++) byBytes.push(event(revision, '12345'));
    assert.equal(byBytes.size, 2);
  });
});

describe('key lock', () => {
  test('one at a time per key, in order; other keys run side by side; an error frees the key', async () => {
    const lock = new KeyLock();
    const log: string[] = [];
    const step = (key: string, name: string) =>
      lock.run(key, async () => {
        log.push(`${name} in`);
        await new Promise((resolve) => setImmediate(resolve));
        log.push(`${name} out`);
        if (name === 'bad') throw new Error('bad');
      });
    const bad = step('a', 'bad');
    await Promise.all([assert.rejects(bad), step('a', 'two'), step('b', 'other')]);
    assert.ok(log.indexOf('bad out') < log.indexOf('two in'));
    assert.ok(log.indexOf('other in') < log.indexOf('bad out'));
  });
});
