import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { openLevel } from '../../../src/apiserver/store/database.ts';
import { emptyState, recordKey, stateKey } from '../../../src/apiserver/store/records.ts';
import { Store } from '../../../src/apiserver/store/store.ts';
import { silentLogger } from '../../../src/base/index.ts';

let home: string;
let dir: string;
let watermark: string;
const open: Store[] = [];

beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'store-'));
  dir = path.join(home, 'db');
  watermark = `${dir}.watermark`;
});
afterEach(async () => {
  for (const store of open.splice(0)) await store.close().catch(() => undefined);
  await rm(home, { recursive: true, force: true });
});

async function openStore(where = dir): Promise<Store> {
  const store = await Store.open({ dir: where, maxEvents: 100, maxBytes: 1e6 }, { log: silentLogger });
  open.push(store);
  return store;
}

const address = (name: string) => ({ collection: '/configmaps', namespace: 'n', name });
const put = (name: string, data = '') => ({
  kind: 'put' as const,
  ...address(name),
  object: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data },
});

async function filesOf(pattern: RegExp, where = dir): Promise<string[]> {
  const names = (await readdir(where)).filter((name) => pattern.test(name)).sort();
  assert.ok(names.length > 0, `no file ${pattern} in ${where}`);
  return names.map((name) => path.join(where, name));
}

async function newestLog(where = dir): Promise<string> {
  return (await filesOf(/\.log$/, where)).at(-1) ?? '';
}

/** A store with some objects whose program was killed: a copy of its files as they are while it runs. */
async function killed(objects: number): Promise<{ acknowledged: number }> {
  const original = path.join(home, 'original', 'db');
  await mkdir(path.dirname(original));
  const store = await openStore(original);
  for (let index = 0; index < objects; index++) await store.commit(put(`a${index}`, `${index}`.padEnd(100, 'x')));
  const acknowledged = store.revision;
  await cp(path.dirname(original), home, { recursive: true });
  await store.close();
  return { acknowledged };
}

/** Gives the number of objects, each as it was written. */
async function checkLoss(store: Store, acknowledged: number): Promise<number> {
  assert.equal(store.loss?.acknowledged, acknowledged, 'a loss that nobody was told of');
  assert.ok(store.loss.found < acknowledged);
  assert.ok(store.revision >= acknowledged, `back from ${acknowledged} to ${store.revision}`);
  const found = store.list('/configmaps').map(({ object }) => object.data);
  assert.deepEqual(
    found,
    found.map((_, index) => `${index}`.padEnd(100, 'x')),
  );
  await store.close();
  return found.length;
}

const codeOf = (error: { readonly code: string }) => error.code;

describe('a store that comes back with less than was acknowledged', () => {
  test('whatever is missing at the end of the log, the loss is told, no revision is used twice, no object is half', async () => {
    const { acknowledged } = await killed(6);
    const { size } = await stat(await newestLog());
    const found = new Set<number | string>();
    // Each length is another torn end; 7 is no divisor of a record's length.
    for (let cut = 1; cut < size; cut += 7) {
      const where = path.join(home, `cut-${cut}`, 'db');
      await cp(dir, where, { recursive: true });
      await cp(watermark, `${where}.watermark`);
      await truncate(await newestLog(where), size - cut);
      found.add(await openStore(where).then((store) => checkLoss(store, acknowledged), codeOf));
    }
    // With nothing left it is refused: an empty API would end all that runs.
    assert.deepEqual([...found], [5, 4, 3, 2, 1, 'STORE_CORRUPT']);
  });

  test('the same for bytes that are damaged in the newest change', async () => {
    const { acknowledged } = await killed(6);
    const file = await newestLog();
    const bytes = await readFile(file);
    bytes.fill(0x55, bytes.length - 20, bytes.length - 10);
    await writeFile(file, bytes);
    const store = await openStore();
    assert.deepEqual(store.loss, { kind: 'changes', acknowledged, found: acknowledged - 1 });
    assert.ok(store.revision >= acknowledged);
  });

  test('a loss is told again until a change was stored after it', async () => {
    await killed(6);
    await truncate(await newestLog(), 600);
    const first = await openStore();
    assert.ok(first.loss);
    await first.close();
    const second = await openStore();
    assert.deepEqual(second.loss, first.loss);
    await second.commit(put('b'));
    await second.close();
    assert.equal((await openStore()).loss, undefined);
  });

  test('a client that saw what is lost has to list again; one that saw just what is there goes on', async () => {
    const { acknowledged } = await killed(6);
    const file = await newestLog();
    await truncate(file, (await stat(file)).size - 1);
    const store = await openStore();
    const later = await store.commit(put('b'));
    assert.equal(store.changesSince(acknowledged), undefined);
    assert.equal(store.changesSince(acknowledged - 2), undefined);
    const since = store.changesSince(acknowledged - 1);
    assert.deepEqual(
      since?.map(({ revision }) => revision),
      [later.revision],
    );
  });

  test('a copy of an older state that is put back is told as a loss', async () => {
    const first = await openStore();
    await first.commit(put('a'));
    await first.close();
    await cp(dir, path.join(home, 'copy'), { recursive: true });
    const second = await openStore();
    const { revision } = await second.commit(put('b'));
    await second.close();
    await rm(dir, { recursive: true });
    await rename(path.join(home, 'copy'), dir);
    const third = await openStore();
    assert.equal(third.loss?.acknowledged, revision);
    assert.ok((await third.commit(put('b'))).revision > revision);
  });

  test('an emptied directory begins anew, says so, and goes on above all revisions', async () => {
    const { acknowledged } = await killed(3);
    await rm(dir, { recursive: true });
    await mkdir(dir);
    const store = await openStore();
    assert.deepEqual(store.loss, { kind: 'everything', acknowledged, found: 0 });
    assert.ok((await store.commit(put('a'))).revision > acknowledged);
  });

  test('a start in an emptied directory that ends before its first change is begun anew, and the loss is told again', async () => {
    const { acknowledged } = await killed(3);
    await rm(dir, { recursive: true });
    await mkdir(dir);
    for (let start = 0; start < 3; start++) {
      const store = await openStore();
      assert.deepEqual(store.loss, { kind: 'everything', acknowledged, found: 0 });
      await store.close();
    }
    const store = await openStore();
    assert.ok((await store.commit(put('a'))).revision > acknowledged);
    await store.close();
    assert.equal((await openStore()).loss, undefined);
    await rm(dir, { recursive: true });
    await assert.rejects(openStore(), { code: 'STORE_CORRUPT' }, 'from its first change on it is watched as before');
  });
});

describe('a store that lost nothing', () => {
  test('killed without warning it tells no loss, and a client goes on where it was', async () => {
    const { acknowledged } = await killed(6);
    const store = await openStore();
    assert.equal(store.loss, undefined);
    assert.deepEqual(store.changesSince(acknowledged), []);
    const { revision } = await store.commit(put('b'));
    assert.ok(revision > acknowledged);
    assert.equal(store.changesSince(acknowledged)?.length, 1);
  });

  test('ended in order it goes on with the very next revision, however often', async () => {
    let revision = 0;
    for (let round = 0; round < 3; round++) {
      const store = await openStore();
      const next = (await store.commit(put('a', String(round)))).revision;
      assert.equal(next, round === 0 ? next : revision + 1);
      revision = next;
      await store.close();
    }
  });

  test('more changes than are reserved at once', async () => {
    const store = await openStore();
    await Promise.all(Array.from({ length: 2_500 }, (_, index) => store.commit(put(`a${index % 10}`, String(index)))));
    const { revision } = store;
    const copy = path.join(home, 'copy');
    await mkdir(copy);
    for (const name of ['db', 'db.watermark'])
      await cp(path.join(home, name), path.join(copy, name), { recursive: true });
    const again = await openStore(path.join(copy, 'db'));
    assert.equal(again.loss, undefined);
    assert.ok(again.revision >= revision);
  });

  test('of a version without seals and without a watermark is read, and what is written is sealed', async () => {
    const level = await openLevel(dir);
    const json = '{"metadata":{"name":"old","resourceVersion":"7"}}';
    await level.write([
      { type: 'put', key: recordKey(address('old')), value: json },
      {
        type: 'put',
        key: stateKey,
        value: JSON.stringify({ ...emptyState, format: 1, revision: 7, count: 1, revisionSum: 7 }),
      },
    ]);
    await level.close();
    const store = await openStore();
    assert.equal(store.get(address('old'))?.json, json);
    assert.ok((await store.commit(put('new'))).revision > 7);
    await store.close();
    const again = await openStore();
    assert.equal(again.loss, undefined);
    assert.equal(again.list('/configmaps').length, 2);
  });
});

/** A store that was ended in order, with its objects in a table and the newest in the log. */
async function ended(): Promise<{ acknowledged: number; texts: readonly string[] }> {
  const texts = ['a0', 'a1', 'a2'].map((seed) => noise(seed));
  const first = await openStore();
  for (const [index, text] of texts.entries()) await first.commit(put(`a${index}`, text));
  await first.close();
  const second = await openStore();
  const { revision } = second;
  await second.close();
  return { acknowledged: revision, texts };
}

/** 20 kB that no compression shortens: each bit of the table counts. */
function noise(seed: string): string {
  const parts = Array.from({ length: 500 }, (_, index) =>
    createHash('sha256').update(`${seed}/${index}`).digest('base64'),
  );
  return parts.join('');
}

describe('a spoilt file', () => {
  const spoils: [string, () => Promise<unknown>][] = [
    ['without CURRENT', () => rm(path.join(dir, 'CURRENT'))],
    ['with an empty CURRENT', () => writeFile(path.join(dir, 'CURRENT'), '')],
    ['with a CURRENT of garbage', () => writeFile(path.join(dir, 'CURRENT'), Buffer.alloc(4096, 0x5a))],
    ['without MANIFEST', async () => Promise.all((await filesOf(/^MANIFEST/)).map((file) => rm(file)))],
    ['with an empty MANIFEST', async () => Promise.all((await filesOf(/^MANIFEST/)).map((file) => truncate(file, 0)))],
    ['with an empty table', async () => Promise.all((await filesOf(/\.ldb$/)).map((file) => truncate(file, 0)))],
    ['without a table', async () => rm((await filesOf(/\.ldb$/))[0] ?? '')],
    ['that is gone', () => rm(dir, { recursive: true })],
  ];
  for (const [what, spoil] of spoils) {
    test(`a database ${what} is refused with what to do, and is never an empty one`, async () => {
      await ended();
      await spoil();
      await assert.rejects(openStore(), (error: Error & { code: string }) => {
        assert.equal(error.code, 'STORE_CORRUPT', error.message);
        assert.match(error.message, /Put back a copy of this directory/);
        return true;
      });
      await assert.rejects(openStore(), { code: 'STORE_CORRUPT' }, 'the second try is no better');
    });
  }

  test('a database without CURRENT is left as it is: with that file back it is whole', async () => {
    const { texts } = await ended();
    const current = path.join(dir, 'CURRENT');
    const text = await readFile(current);
    await rm(current);
    await rm(watermark);
    await assert.rejects(openStore(), { code: 'STORE_CORRUPT', message: /CURRENT is missing/ });
    await writeFile(current, text);
    const store = await openStore();
    assert.deepEqual(
      store.list('/configmaps').map(({ object }) => object.data),
      texts,
    );
  });

  test('a flipped bit anywhere in a table is never read as if it were what was written', async () => {
    const { acknowledged, texts } = await ended();
    const [file = ''] = await filesOf(/\.ldb$/);
    const name = path.basename(file);
    const bytes = await readFile(file);
    const answers = new Set<string>();
    for (let part = 0; part < 40; part++) {
      const where = path.join(home, `flip-${part}`, 'db');
      await cp(dir, where, { recursive: true });
      await cp(watermark, `${where}.watermark`);
      const spoilt = Buffer.from(bytes);
      const at = Math.floor((bytes.length * part) / 40);
      spoilt.writeUInt8(spoilt.readUInt8(at) ^ 1, at);
      await writeFile(path.join(where, name), spoilt);
      const read = async (store: Store) => {
        assert.ok(store.revision >= acknowledged);
        return store.list('/configmaps').every(({ object }, index) => object.data === texts[index]) ? 'right' : 'wrong';
      };
      answers.add(await openStore(where).then(read, codeOf));
    }
    answers.delete('right');
    assert.deepEqual([...answers], ['STORE_CORRUPT']);
  });

  const torn: [string, () => Promise<unknown>][] = [
    ['empty', () => writeFile(watermark, '')],
    ['garbage', () => writeFile(watermark, Buffer.alloc(9000, 0xff))],
    ['cut off', () => truncate(watermark, 10)],
    [
      'changed',
      async () => writeFile(watermark, (await readFile(watermark, 'utf8')).replaceAll('"count":', '"count":1')),
    ],
  ];
  for (const [what, tear] of torn) {
    test(`a watermark that is ${what} stops nothing and is told, and the revision is far above`, async () => {
      const { acknowledged } = await killed(6);
      await tear();
      const store = await openStore();
      assert.equal(store.loss?.kind, 'unknown');
      assert.equal(store.list('/configmaps').length, 6);
      assert.ok(store.revision > acknowledged);
      await store.commit(put('b'));
      await store.close();
      assert.equal((await openStore()).loss, undefined);
    });
  }

  test('a start that was torn before anything was acknowledged is begun anew', async () => {
    await mkdir(dir);
    await writeFile(path.join(dir, 'CURRENT'), 'MANIFEST-000001\n');
    await writeFile(path.join(dir, 'MANIFEST-000001'), '');
    const store = await openStore();
    assert.equal(store.loss, undefined);
    await store.commit(put('a'));
  });

  test('a directory where the watermark should be is said with its name', async () => {
    await mkdir(watermark);
    await assert.rejects(openStore(), { code: 'STORE_UNAVAILABLE', message: /db\.watermark/ });
  });
});
