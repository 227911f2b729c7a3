import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { KeyPairFiles, type PemPair } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

suite('a key pair that follows its files', () => {
  let authority: TestAuthority;
  let pairs: readonly [PemPair, PemPair];
  let dir: string;
  let files: KeyPairFiles;
  const certFile = () => path.join(dir, 'tls.crt');
  const keyFile = () => path.join(dir, 'tls.key');

  before(async () => {
    authority = await TestAuthority.make();
    pairs = await Promise.all([authority.issue({ commonName: 'first' }), authority.issue({ commonName: 'second' })]);
  });
  after(() => authority.remove());
  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'key-pair-'));
    files = new KeyPairFiles({ certFile: certFile(), keyFile: keyFile() }, { log: silentLogger, clock: systemClock });
  });
  afterEach(async () => {
    await files.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const put = async ({ cert, key }: PemPair) => {
    await writeFile(keyFile(), key);
    await writeFile(certFile(), cert);
  };
  const untilName = (name: string) => eventually(() => assert.equal(files.current?.commonName, name));
  const untilProblem = (words: RegExp) => eventually(() => assert.match(files.problem ?? '', words));
  /** As the kubelet projects a secret: links through a directory that is swapped as a whole. */
  const project = async (pair: PemPair, name: string) => {
    await mkdir(path.join(dir, name));
    await writeFile(path.join(dir, name, 'tls.crt'), pair.cert);
    await writeFile(path.join(dir, name, 'tls.key'), pair.key);
    await symlink(name, path.join(dir, '..data_tmp'));
    await rename(path.join(dir, '..data_tmp'), path.join(dir, '..data'));
  };

  test('is there after the start when the files are', async () => {
    await put(pairs[0]);
    await files.start();
    assert.equal(files.current?.commonName, 'first');
    assert.equal(files.problem, undefined);
    assert.ok(files.current.expiresAt.getTime() > Date.now());
  });

  test('is not there without files, and comes with them', async () => {
    await files.start();
    assert.equal(files.current, undefined);
    assert.match(files.problem ?? '', /is not there/);
    await put(pairs[0]);
    await untilName('first');
  });

  test('comes when its directory was not there either', async () => {
    await rm(dir, { recursive: true });
    await files.start();
    await mkdir(dir);
    await put(pairs[0]);
    await untilName('first');
  });

  test('changes when the kubelet swaps the directory behind its links', async () => {
    await project(pairs[0], '..one');
    await symlink('..data/tls.crt', certFile());
    await symlink('..data/tls.key', keyFile());
    await files.start();
    assert.equal(files.current?.commonName, 'first');
    await project(pairs[1], '..two');
    await rm(path.join(dir, '..one'), { recursive: true });
    await untilName('second');
  });

  test('stays the old one between a new key and its certificate, and is told once it matches', async () => {
    await put(pairs[0]);
    await files.start();
    let changes = 0;
    files.onChange(() => changes++);
    await writeFile(keyFile(), pairs[1].key);
    await untilProblem(/not that of the certificate/);
    assert.equal(files.current?.commonName, 'first');
    await writeFile(certFile(), pairs[1].cert);
    await untilName('second');
    assert.deepEqual([changes, files.problem], [1, undefined]);
  });

  test('stays the old one whatever the files become, and recovers', async () => {
    await put(pairs[0]);
    await files.start();
    const key = pairs[0].key;
    const spoils: readonly (readonly [string, string | Buffer, RegExp])[] = [
      ['tls.crt', pairs[1].cert.slice(0, 300), /no certificate can be read/],
      ['tls.crt', '', /no certificate can be read/],
      ['tls.crt', Buffer.alloc(2 * 1024 * 1024, 'x'), /has 2097152 bytes/],
      ['tls.key', key.slice(0, 60), /no private key can be read/],
      ['tls.key', Buffer.from([0, 255, 1, 254]), /no private key can be read/],
      ['tls.key', key.replace('PRIVATE KEY', 'ENCRYPTED PRIVATE KEY'), /no private key can be read/],
    ];
    for (const [file, content, words] of spoils) {
      await put(pairs[0]);
      await eventually(() => assert.equal(files.problem, undefined));
      await writeFile(path.join(dir, file), content);
      await untilProblem(words);
      assert.equal(files.current?.commonName, 'first', `${file} ${words}`);
      assert.ok(!files.problem?.includes(key.split('\n')[1] ?? ''), 'nothing of the key is told');
    }
    await put(pairs[1]);
    await untilName('second');
  });

  test('stays the old one when the files vanish, and when a pipe or a directory is in their place', async () => {
    await put(pairs[0]);
    await files.start();
    await unlink(certFile());
    await untilProblem(/is not there/);
    execFileSync('mkfifo', [certFile()]);
    await untilProblem(/is not a file/);
    await unlink(certFile());
    await unlink(keyFile());
    await mkdir(keyFile());
    await writeFile(certFile(), pairs[1].cert);
    await untilProblem(/tls\.key is not a file/);
    assert.equal(files.current?.commonName, 'first');
    await rm(keyFile(), { recursive: true });
    await put(pairs[1]);
    await untilName('second');
  });

  test('is followed in a directory that was taken away and made again', async () => {
    await put(pairs[0]);
    await files.start();
    await rm(dir, { recursive: true });
    await untilProblem(/is not there/);
    await mkdir(dir);
    await put(pairs[1]);
    await untilName('second');
    await put(pairs[0]);
    await untilName('first');
  });

  test('may have key and certificate in two directories', async () => {
    const other = await mkdtemp(path.join(tmpdir(), 'keys-'));
    const apart = new KeyPairFiles(
      { certFile: certFile(), keyFile: path.join(other, 'key') },
      { log: silentLogger, clock: systemClock },
    );
    try {
      await writeFile(certFile(), pairs[0].cert);
      await writeFile(path.join(other, 'key'), pairs[0].key);
      await apart.start();
      await writeFile(certFile(), pairs[1].cert);
      await eventually(() => assert.match(apart.problem ?? '', /not that/));
      await writeFile(path.join(other, 'key'), pairs[1].key);
      await eventually(() => assert.equal(apart.current?.commonName, 'second'));
    } finally {
      await apart.stop();
      await rm(other, { recursive: true });
    }
  });

  test('is read again each minute where nobody tells of changes', async () => {
    const clock = new FakeClock();
    // A link to a file elsewhere: what happens there is no event here.
    const elsewhere = await mkdtemp(path.join(tmpdir(), 'elsewhere-'));
    const target = { certFile: path.join(elsewhere, 'c'), keyFile: path.join(elsewhere, 'k') };
    await writeFile(target.certFile, pairs[0].cert);
    await writeFile(target.keyFile, pairs[0].key);
    await symlink(target.certFile, certFile());
    await symlink(target.keyFile, keyFile());
    const polled = new KeyPairFiles({ certFile: certFile(), keyFile: keyFile() }, { log: silentLogger, clock });
    try {
      await polled.start();
      await writeFile(target.certFile, pairs[1].cert);
      await writeFile(target.keyFile, pairs[1].key);
      clock.advance(59_000);
      await stays(() => assert.equal(polled.current?.commonName, 'first'), 50);
      clock.advance(2_000);
      await eventually(() => assert.equal(polled.current?.commonName, 'second'));
    } finally {
      await polled.stop();
      await rm(elsewhere, { recursive: true });
    }
  });

  test('a certificate that has expired is served on and says so: clients decide', async () => {
    await put(await authority.issue({ commonName: 'late', days: -1 }));
    await files.start();
    assert.equal(files.current?.commonName, 'late');
    assert.ok(files.current.expiresAt.getTime() < Date.now());
  });

  test('nothing of it is left after the stop', async () => {
    const watches = async () =>
      (await readdir('/proc/self/fd')).length +
      process.getActiveResourcesInfo().filter((name) => /FSEvent/.test(name)).length;
    const before = await watches();
    for (let turn = 0; turn < 20; turn++) {
      const short = new KeyPairFiles(
        { certFile: certFile(), keyFile: keyFile() },
        { log: silentLogger, clock: systemClock },
      );
      await short.start();
      await short.stop();
    }
    // libuv opens one inotify descriptor for all and keeps it.
    await eventually(async () => assert.ok((await watches()) <= before + 1));
  });
});
