import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { licensesPage } from '../../../scripts/audit/licenses.mjs';
import { lockFaults } from '../../../scripts/audit/lock-faults.mjs';

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const own = JSON.parse(readFileSync('package.json', 'utf8'));

test('every package is locked by checksum, has an allowed licence, is not given up, and runs no program that is not listed', () =>
  assert.deepEqual(lockFaults(lock, own), []));

test('the page of licences is that of the lock file', () =>
  assert.equal(readFileSync('docs/licenses.md', 'utf8'), licensesPage(lock)));

suite('a lock file is refused', () => {
  const place = 'node_modules/a/node_modules/@b/c';
  const good = { version: '1.2.3', integrity: `sha512-${'x'.repeat(86)}==`, license: '(MIT OR Apache-2.0)' };
  const listed = Object.fromEntries(
    ['@bufbuild/buf', 'classic-level', 'esbuild', 'koffi', 'protobufjs'].map((name) => [`node_modules/${name}`, good]),
  );
  const faultsOf = (entry: object, dependencies = {}) =>
    lockFaults({ packages: { '': {}, ...listed, [place]: { ...good, ...entry } } }, { dependencies });

  test('not when all is well', () => assert.deepEqual(faultsOf({}, { a: '1.2.3', b: '2.0.0-rc.1' }), []));

  const cases: readonly (readonly [what: string, entry: object, said: RegExp])[] = [
    ['without a checksum', { integrity: undefined }, /^@b\/c 1\.2\.3: no checksum/],
    ['with a weak checksum', { integrity: 'sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=' }, /no checksum/],
    ['with half a checksum', { integrity: 'sha512-abc' }, /no checksum/],
    ['without a licence', { license: undefined }, /no licence/],
    ['with a licence that nobody has allowed', { license: 'MIT AND GPL-3.0-only' }, /not among those allowed/],
    ['with a package from a place of its own', { resolved: 'https://elsewhere.example/c.tgz' }, /where it comes from/],
    ['with a package from a folder', { resolved: 'file:../c' }, /where it comes from/],
    ['with a package that was given up', { deprecated: 'use d' }, /not to be used any more/],
    ['with a package that runs a program', { hasInstallScript: true }, /runs a program/],
  ];
  for (const [what, entry, said] of cases) {
    test(what, () => {
      const faults = faultsOf(entry);
      assert.equal(faults.length, 1, faults.join());
      assert.match(faults[0] ?? '', said);
    });
  }

  const elsewhere = { dev: true, optional: true, os: ['win32'], integrity: undefined, license: undefined };

  test('not for a tool of another platform of which nothing is known', () => assert.deepEqual(faultsOf(elsewhere), []));

  const ours: readonly (readonly [what: string, entry: object])[] = [
    ['that is shipped', { ...elsewhere, dev: false }],
    ['that is needed', { ...elsewhere, optional: false }],
    ['of this platform', { ...elsewhere, os: ['linux'], cpu: ['arm64'] }],
  ];
  for (const [what, entry] of ours) {
    test(`with a package ${what} of which nothing is known`, () => assert.equal(faultsOf(entry).length, 2));
  }

  for (const range of ['^1.2.3', '~1.2.3', '1.x', '*', 'latest', 'git+ssh://elsewhere.example/a.git']) {
    test(`with a direct dependency of version ${range}`, () =>
      assert.deepEqual(faultsOf({}, { a: range }), [`a: ${range} is no exact version`]));
  }
});
