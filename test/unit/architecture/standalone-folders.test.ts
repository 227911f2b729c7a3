import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const root = 'src/standalone';

/** What every folder knows: errors, files and directories of the node, processes and their ports. Of themselves they know each other. */
const shared = ['errors.ts', 'files.ts', 'paths.ts', 'process-identity.ts', 'state-dir.ts', 'tcp-owner.ts'];

/** What each folder of the standalone node may import besides itself, `shared` and other folders of src. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  'agent-api': [],
  'pod-runner': [],
  page: ['agent-api'],
  supervisor: ['agent-api', 'page', 'pod-runner'],
  cli: ['agent-api', 'page', 'pod-runner', 'supervisor'],
};

interface Import {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** As from `root`. */
  readonly target: string;
}

const files = readdirSync(root, { recursive: true })
  .map(String)
  .filter((file) => file.endsWith('.ts'));

/** A folder, or a file on top. */
const placeOf = (file: string) => file.split(path.sep)[0] ?? '';

const imports = files.flatMap((file): Import[] => {
  const source = readFileSync(path.join(root, file), 'utf8');
  const found = source.matchAll(/^\s*(?:import|export)\b[^'"`;]*?from\s*['"](\.[^'"]+)['"]/gm);
  return [...found].flatMap(([, specifier = '']) => {
    const target = path.normalize(path.join(path.dirname(file), specifier));
    return target.startsWith('..') ? [] : [{ file, from: placeOf(file), to: placeOf(target), target }];
  });
});

function isAllowed({ from, to }: Import): boolean {
  if (from === to || shared.includes(to)) return true;
  if (shared.includes(from)) return false;
  return mayImport[from]?.includes(to) ?? from.endsWith('.ts');
}

test('the rules of the standalone node’s folders have read all of them', () => {
  assert.ok(imports.length > 100, `only ${imports.length} imports`);
  const folders = files.map(placeOf).filter((place) => !place.endsWith('.ts'));
  assert.deepEqual([...new Set(folders)].sort(), Object.keys(mayImport).sort(), 'a new folder needs a rule here');
  for (const file of shared) assert.ok(files.includes(file), `${file} is no more`);
});

test('folders of the standalone node import in one direction only', () => {
  const wrong = imports.filter((found) => !isAllowed(found));
  assert.deepEqual(
    wrong.map(({ file, target }) => `${file} must not know ${target}`),
    [],
  );
});

test('each rule is of use: a folder that is not imported any more is taken off the list', () => {
  const used = new Set(imports.map(({ from, to }) => `${from} -> ${to}`));
  const unused = Object.entries(mayImport).flatMap(([from, all]) =>
    all.map((to) => `${from} -> ${to}`).filter((each) => !used.has(each)),
  );
  assert.deepEqual(unused, []);
});

test('a folder of the standalone node is entered through its index.ts, which says what it owns', () => {
  const wrong = imports
    .filter(({ from, to, target }) => from !== to && !to.endsWith('.ts') && target !== path.join(to, 'index.ts'))
    .map(({ file, target }) => `${file}: import ${target} through its index.ts`);
  assert.deepEqual(wrong, []);
  const silent = Object.keys(mayImport).filter((folder) => {
    const opening = readFileSync(path.join(root, folder, 'index.ts'), 'utf8')
      .split('\n')
      .slice(0, 16)
      .join('\n');
    return !/Owns:/.test(opening) || !/Must not know:/.test(opening);
  });
  assert.deepEqual(silent, []);
});
