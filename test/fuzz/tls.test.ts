import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { silentLogger, systemClock } from '../../src/base/index.ts';
import { entryIdentity, PathWatch } from '../../src/host/index.ts';
import { KeyPairFiles, readAuthorities, readKeyPair, readTlsSettings, TlsInputError } from '../../src/tls/index.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import { changedText, changedValue, fuzz, judged, repeated, together, type Verdict } from './kit/index.ts';

/** Certificates and keys as they lie on disks and in ConfigMaps, and the files that they are followed in. */

const isTlsInputError = (error: unknown) => error instanceof TlsInputError;
const authority = await TestAuthority.make();
const [one, other] = [await authority.issue(), await authority.issue()];
await authority.remove();
const { cert: root } = authority.pair;
const pemWords = [
  '-----BEGIN CERTIFICATE-----',
  '-----END CERTIFICATE-----',
  '-----BEGIN A-----',
  '\n\n',
  '=',
  'AAAA',
  '-----BEGIN EC PRIVATE KEY-----',
];

fuzz('tls: bundles of authorities', {
  input: changedText([root, root + one.cert, `words\n${root}${one.key}`], pemWords),
  parse: (text) =>
    judged(isTlsInputError, () => {
      const { certificates, pems } = readAuthorities(text);
      assert.ok(certificates.length > 0);
      // What is read is read again as the same.
      assert.deepEqual(readAuthorities(pems.join('\n')).pems, pems);
    }),
  growing: {
    'beginnings of one kind': repeated('-----BEGIN A-----\n'),
    'beginnings of certificates': repeated('-----BEGIN CERTIFICATE-----\n'),
    'beginnings that differ': (bytes) =>
      Array.from({ length: bytes / 24 }, (_, index) => `-----BEGIN A${index}-----\n`).join(''),
    dashes: repeated('-'),
    ends: repeated('-----END A-----\n'),
    'a long certificate': repeated('A', '-----BEGIN CERTIFICATE-----\n', '\n-----END CERTIFICATE-----\n'),
  },
});

fuzz('tls: key pairs', {
  input: fc.tuple(changedText([one.cert, one.cert + root], pemWords), changedText([one.key, other.key], pemWords)),
  parse: ([cert, key]) =>
    judged(isTlsInputError, () => {
      assert.match(readKeyPair(cert, key).fingerprint, /^[0-9A-F:]{95}$/);
    }),
  growing: { 'no end': (bytes) => together(`-----BEGIN CERTIFICATE-----\n${'A'.repeat(bytes)}`, one.key) },
});

fuzz('tls: settings', {
  input: changedValue([
    { minTLSVersion: 'VersionTLS12', ciphers: ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'TLS_AES_128_GCM_SHA256'] },
  ]),
  parse: (value) => {
    const { minVersion, ciphers } = readTlsSettings(value);
    assert.match(minVersion, /^TLSv1(?:\.[123])?$/);
    assert.match(ciphers, /^[\w!:+@=-]+$/);
    return 'accepted';
  },
  refusesNothing: true,
});

type Act =
  | { readonly act: 'write' | 'replace' | 'tear'; readonly file: 'tls.crt' | 'tls.key'; readonly which: 0 | 1 }
  | { readonly act: 'remove' | 'directory' | 'link'; readonly file: 'tls.crt' | 'tls.key' }
  | { readonly act: 'swap'; readonly which: 0 | 1 }
  | { readonly act: 'turn' };

const files = fc.constantFrom('tls.crt' as const, 'tls.key' as const);
const which = fc.constantFrom(0 as const, 1 as const);
const acts: fc.Arbitrary<Act[]> = fc.array(
  fc.oneof(
    fc.record({ act: fc.constantFrom('write' as const, 'replace' as const, 'tear' as const), file: files, which }),
    fc.record({ act: fc.constantFrom('remove' as const, 'directory' as const, 'link' as const), file: files }),
    fc.record({ act: fc.constant('swap' as const), which }),
    fc.constant({ act: 'turn' as const }),
  ),
  { maxLength: 12, size: 'max' },
);

const pairs = [one, other];
const contentOf = (file: string, index: 0 | 1) =>
  file === 'tls.crt' ? (pairs[index]?.cert ?? '') : (pairs[index]?.key ?? '');
let made = 0;

/** As a kubelet does it: a new directory, and a link that is put in the place of the old one. */
function swap(dir: string, index: 0 | 1): void {
  const fresh = path.join(dir, `..data_${made++}`);
  mkdirSync(fresh);
  for (const file of ['tls.crt', 'tls.key']) {
    writeFileSync(path.join(fresh, file), contentOf(file, index));
    rmSync(path.join(dir, file), { recursive: true, force: true });
    symlinkSync(path.join('..data', file), path.join(dir, file));
  }
  symlinkSync(path.basename(fresh), path.join(dir, '..data_tmp'));
  renameSync(path.join(dir, '..data_tmp'), path.join(dir, '..data'));
}

async function perform(dir: string, act: Act): Promise<void> {
  if (act.act === 'turn') return nextTurn();
  if (act.act === 'swap') return swap(dir, act.which);
  const file = path.join(dir, act.file);
  if (act.act !== 'replace') rmSync(file, { recursive: true, force: true });
  if (act.act === 'directory') mkdirSync(file);
  if (act.act === 'link') symlinkSync('nowhere', file);
  if (act.act === 'write') writeFileSync(file, contentOf(act.file, act.which));
  if (act.act === 'tear') writeFileSync(file, contentOf(act.file, act.which).slice(0, 100));
  if (act.act !== 'replace') return undefined;
  rmSync(file, { recursive: true, force: true });
  writeFileSync(`${file}.new`, contentOf(act.file, act.which));
  renameSync(`${file}.new`, file);
  return undefined;
}

/** A clock on which a second is a turn or two: the follower's waits are not what is tried. */
const fastClock = {
  ...systemClock,
  now: () => systemClock.now(),
  monotonicMs: () => systemClock.monotonicMs(),
  schedule: (ms: number, callback: () => void) => systemClock.schedule(Math.min(ms, 20), callback),
};

async function until(condition: () => boolean, what: () => string): Promise<void> {
  for (let tries = 0; tries < 5_000; tries++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  assert.fail(what());
}

fuzz('tls: a key pair that is followed ends as its files do', {
  input: fc.tuple(acts, which, fc.boolean()),
  parse: async ([list, last, isSwap]): Promise<Verdict> => {
    const dir = mkdtempSync(path.join(tmpdir(), 'fuzz-pair-'));
    const paths = { certFile: path.join(dir, 'tls.crt'), keyFile: path.join(dir, 'tls.key') };
    const followed = new KeyPairFiles(paths, { log: silentLogger, clock: fastClock });
    try {
      await followed.start();
      for (const act of list) await perform(dir, act);
      if (isSwap) swap(dir, last);
      else
        for (const file of ['tls.crt', 'tls.key'] as const) await perform(dir, { act: 'replace', file, which: last });
      await until(
        () => followed.current?.cert === pairs[last]?.cert && followed.problem === undefined,
        () => `${followed.problem}`,
      );
      assert.equal(followed.current?.key, readFileSync(paths.keyFile, 'utf8'));
    } finally {
      await followed.stop();
      rmSync(dir, { recursive: true });
    }
    return 'accepted';
  },
  refusesNothing: true,
});

fuzz('host: a watched path is told of, whatever came before', {
  input: fc.tuple(acts, which),
  parse: async ([list, last]): Promise<Verdict> => {
    const top = mkdtempSync(path.join(tmpdir(), 'fuzz-path-'));
    const dir = path.join(top, 'a');
    const file = path.join(dir, 'tls.crt');
    const watch = new PathWatch({ recheckMs: 60_000 }, { clock: systemClock });
    let reported = entryIdentity(file);
    const end = watch.watch(file, () => {
      reported = entryIdentity(file);
    });
    try {
      mkdirSync(dir);
      for (const act of list) await perform(dir, act);
      if (list.length % 3 === 0) {
        renameSync(dir, path.join(top, 'b'));
        mkdirSync(dir);
      }
      await perform(dir, { act: 'replace', file: 'tls.crt', which: last });
      await until(
        () => reported === entryIdentity(file),
        () => `${reported} is not ${entryIdentity(file)}`,
      );
    } finally {
      end();
      watch.close();
      rmSync(top, { recursive: true });
    }
    return 'accepted';
  },
  refusesNothing: true,
});
