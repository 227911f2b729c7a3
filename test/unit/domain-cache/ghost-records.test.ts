import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { Logger } from '../../../src/base/index.ts';
import { GhostRecords } from '../../../src/domain-cache/index.ts';
import { recordDirectory } from '../../../src/host/record-files.ts';

const record = { name: 'vm1', namespace: 'default', socketFile: '/pods/p/launcher-sock', uid: 'uid-1' };
let directory: string;

beforeEach(() => {
  directory = path.join(mkdtempSync(path.join(tmpdir(), 'ghosts-')), 'ghost-records');
});
afterEach(() => rmSync(path.dirname(directory), { recursive: true, force: true }));

async function loaded(logger?: Logger): Promise<GhostRecords> {
  const records = new GhostRecords({ directory }, logger ? { logger } : {});
  await records.load();
  return records;
}

describe('ghost records', () => {
  it('are files with upstream’s JSON, a version, and mode 0600, named by the UID', async () => {
    await (await loaded()).add(record);
    const file = path.join(directory, 'uid-1');
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { ...record, version: 1 });
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(directory), ['uid-1']);
  });

  it('are there again after a restart, also those that upstream wrote', async () => {
    await (await loaded()).add(record);
    writeFileSync(path.join(directory, 'uid-2'), JSON.stringify({ ...record, uid: 'uid-2', name: 'vm2' }));
    const records = await loaded();
    assert.deepEqual(records.byUid('uid-1'), record);
    assert.equal(records.get('default/vm2')?.uid, 'uid-2');
    assert.deepEqual([...records.keys()].sort(), ['default/vm1', 'default/vm2']);
  });

  it('of two VMIs of one name are kept side by side; the key gives the later', async () => {
    const records = await loaded();
    await records.add(record);
    await records.add({ ...record, uid: 'uid-2' });
    assert.equal(records.get('default/vm1')?.uid, 'uid-2');
    assert.deepEqual(readdirSync(directory).sort(), ['uid-1', 'uid-2']);
  });

  it('take a new socket for the same UID', async () => {
    const records = await loaded();
    await records.add(record);
    await records.add({ ...record, socketFile: '/pods/q/launcher-sock' });
    assert.equal((await loaded()).byUid('uid-1')?.socketFile, '/pods/q/launcher-sock');
  });

  it('are not written again when nothing changed', async () => {
    const records = await loaded();
    await records.add(record);
    const before = statSync(path.join(directory, 'uid-1')).ino;
    await records.add({ ...record });
    assert.equal(statSync(path.join(directory, 'uid-1')).ino, before);
  });

  it('go with remove, also when the file is gone already', async () => {
    const records = await loaded();
    await records.add(record);
    rmSync(path.join(directory, 'uid-1'));
    await records.remove('uid-1');
    await records.remove('uid-1');
    assert.deepEqual(records.all(), []);
  });

  it('added and removed at the same time end as asked last', async () => {
    const records = await loaded();
    await Promise.all([records.add(record), records.remove('uid-1'), records.add(record), records.remove('uid-1')]);
    assert.deepEqual(readdirSync(directory), []);
  });
});

describe('bad records', () => {
  const torn: Record<string, string> = {
    'uid-empty': '',
    'uid-half': '{"name":"vm1","na',
    'uid-null': 'null',
    'uid-list': '[]',
    'uid-no-name': JSON.stringify({ ...record, uid: 'uid-no-name', name: '' }),
    'uid-number': JSON.stringify({ ...record, uid: 'uid-number', socketFile: 7 }),
    'uid-relative': JSON.stringify({ ...record, uid: 'uid-relative', socketFile: 'x/launcher-sock' }),
    'uid-other': JSON.stringify(record),
    'uid-binary': '\0\xff\xfe',
    'uid-huge': JSON.stringify({ ...record, uid: 'uid-huge', name: 'x'.repeat(70_000) }),
  };

  it('are set aside with one warning each, and the good ones are loaded', async () => {
    mkdirSync(directory, { recursive: true });
    for (const [file, content] of Object.entries(torn)) writeFileSync(path.join(directory, file), content);
    mkdirSync(path.join(directory, 'uid-directory'));
    writeFileSync(path.join(directory, 'uid-1'), JSON.stringify(record));
    const warnings: unknown[] = [];
    const logger = { warn: (fields: unknown) => warnings.push(fields) } as unknown as Logger;
    const records = await loaded(logger);
    assert.deepEqual(records.all(), [record]);
    const aside = [...Object.keys(torn), 'uid-directory'].map((file) => `${file}.corrupt`);
    assert.deepEqual(readdirSync(directory).sort(), ['uid-1', ...aside].sort());
    assert.equal(warnings.length, aside.length);
    await loaded(logger);
    assert.equal(warnings.length, aside.length, 'the second start does not warn again');
  });

  it('that are links or named pipes are set aside unread, and the start goes on', async () => {
    mkdirSync(directory, { recursive: true });
    const outside = path.join(directory, '../outside');
    writeFileSync(outside, JSON.stringify({ ...record, uid: 'uid-link' }));
    symlinkSync(outside, path.join(directory, 'uid-link'));
    execFileSync('mkfifo', [path.join(directory, 'uid-pipe')]);
    const records = await loaded();
    assert.deepEqual(records.all(), []);
    assert.deepEqual(readdirSync(directory).sort(), ['uid-link.corrupt', 'uid-pipe.corrupt']);
    assert.ok(existsSync(outside));
  });

  it('that the disk does not give are asked for again, and stay where they are: nobody knows that they are torn', async () => {
    await (await loaded()).add(record);
    const real = recordDirectory(directory);
    let failures = 2;
    const read = (file: string, maxBytes: number) =>
      failures-- > 0
        ? Promise.reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' }))
        : real.read(file, maxBytes);
    const patient = new GhostRecords({ directory }, { files: { ...real, read } });
    await patient.load();
    assert.deepEqual(patient.all(), [record]);
    failures = Number.POSITIVE_INFINITY;
    const unlucky = new GhostRecords({ directory }, { files: { ...real, read } });
    await unlucky.load();
    assert.deepEqual([unlucky.all(), readdirSync(directory)], [[], ['uid-1']]);
    assert.deepEqual((await loaded()).all(), [record]);
  });

  it('left-over temporary files of a killed agent are removed', async () => {
    mkdirSync(directory, { recursive: true });
    writeFileSync(path.join(directory, '.uid-1.0.tmp'), '{"na');
    await loaded();
    assert.deepEqual(readdirSync(directory), []);
  });

  it('with a UID that is no file name, or an empty field, are refused and not kept', async () => {
    const records = await loaded();
    for (const uid of ['../../etc/passwd', '', '.', '..', 'a/b', 'x'.repeat(200), '.hidden', 'a\0b']) {
      await assert.rejects(records.add({ ...record, uid }), { code: 'RECORD_INVALID' }, uid);
    }
    await assert.rejects(records.add({ ...record, namespace: '' }), { code: 'RECORD_INVALID' });
    assert.deepEqual(records.all(), []);
    assert.equal(existsSync(path.join(directory, '../../etc')), false);
  });

  it('a directory that cannot be written gives a typed error; the record stays and is written later', async () => {
    const records = await loaded();
    rmSync(directory, { recursive: true });
    writeFileSync(directory, 'in the way');
    await assert.rejects(records.add(record), { code: 'RECORD_NOT_SAVED' });
    assert.deepEqual(records.byUid('uid-1'), record);
    assert.deepEqual(records.unsaved(), ['uid-1']);
    rmSync(directory);
    mkdirSync(directory);
    chmodSync(directory, 0o700);
    await records.saveUnsaved();
    assert.deepEqual(records.unsaved(), []);
    assert.deepEqual((await loaded()).byUid('uid-1'), record);
  });
});
