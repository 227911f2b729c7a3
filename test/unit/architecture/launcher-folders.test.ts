import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const root = 'src/launcher';

/** Which folder of the launcher may import which others. The files on top put them together and may import all. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  domain: [],
  disks: ['domain'],
  notify: ['domain'],
  'guest-agent': ['domain'],
  daemon: ['domain'],
  stats: ['domain', 'guest-agent'],
  lifecycle: ['domain', 'disks', 'guest-agent', 'notify'],
  'cmd-server': ['domain', 'stats'],
};

/** What all of them share: errors, the options, the hypervisor as they see it. The others on top only compose. */
const shared = ['errors.ts', 'options.ts', 'ports.ts'];

interface Import {
  readonly file: string;
  readonly target: string;
}

const files = readdirSync(root, { recursive: true })
  .map(String)
  .filter((file) => file.endsWith('.ts'));

const inside: Import[] = files
  .flatMap((file) => {
    const source = readFileSync(path.join(root, file), 'utf8');
    const found = source.matchAll(
      /^\s*(?:import|export)\b[^'"`;]*?from\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
    );
    return [...found].map((match) => ({ file, specifier: match[1] ?? match[2] ?? '' }));
  })
  .filter(({ specifier }) => specifier.startsWith('.'))
  .map(({ file, specifier }) => ({ file, target: path.normalize(path.join(path.dirname(file), specifier)) }))
  .filter(({ target }) => !target.startsWith('..'));

/** '' for the files on top. */
const folderOf = (file: string) => (file.includes('/') ? (file.split('/')[0] ?? '') : '');

test('every folder of the launcher has a rule', () => {
  assert.ok(inside.length > 100, `only ${inside.length} imports`);
  const folders = new Set(files.map(folderOf).filter((folder) => folder !== ''));
  assert.deepEqual([...folders].sort(), Object.keys(mayImport).sort());
});

test('the folders of the launcher import in one direction only', () => {
  const wrong = inside
    .map((found) => ({ ...found, from: folderOf(found.file), to: folderOf(found.target) }))
    .filter(({ from, to }) => from !== '' && to !== '' && from !== to && !mayImport[from]?.includes(to))
    .map(({ file, from, to }) => `${root}/${file}: ${from} must not know ${to}`);
  assert.deepEqual(wrong, []);
});

test('no folder of the launcher knows who puts it together', () => {
  const wrong = inside
    .filter(({ file, target }) => folderOf(file) !== '' && folderOf(target) === '' && !shared.includes(target))
    .map(({ file, target }) => `${root}/${file}: must not know ${target}`);
  assert.deepEqual(wrong, []);
});

test('a folder of the launcher is entered through its index.ts', () => {
  const wrong = inside
    .filter(({ file, target }) => folderOf(target) !== '' && folderOf(file) !== folderOf(target))
    .filter(({ target }) => path.basename(target) !== 'index.ts')
    .map(({ file, target }) => `${root}/${file}: import ${target} through its index.ts`);
  assert.deepEqual(wrong, []);
});

test('each folder of the launcher opens by saying what it owns and what it must not know', () => {
  const wrong = Object.keys(mayImport).filter((folder) => {
    const opening = readFileSync(`${root}/${folder}/index.ts`, 'utf8').split('\n').slice(0, 16).join('\n');
    return !/Owns:/.test(opening) || !/Must not know:/.test(opening);
  });
  assert.deepEqual(wrong, []);
});
