import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const root = 'src/apiserver';

/** What every folder knows: what a resource, an object, an error and a right are. */
const shared = ['access.ts', 'api-type.ts', 'errors.ts', 'object.ts'];
/** The outside as requests see it. */
const ports = ['pod-logs.ts', 'vm-subresources.ts'];

/** What each folder of the embedded API may import besides itself, `shared` and other folders of src. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  patch: [],
  print: [],
  admission: [],
  store: [],
  types: ['admission', 'patch', 'print'],
  objects: ['admission', 'store'],
  controllers: ['objects', 'store', 'types'],
  rest: [...ports, 'objects', 'patch', 'print', 'store', 'types'],
};

/** The shared files themselves: the contract of a type names its patch schema. All other files on top put the folders together. */
const sharedMayImport = ['patch'];

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
  if (shared.includes(from)) return sharedMayImport.includes(to);
  return mayImport[from]?.includes(to) ?? from.endsWith('.ts');
}

test('the rules of the embedded API’s folders have read all of them', () => {
  assert.ok(imports.length > 150, `only ${imports.length} imports`);
  const folders = files.map(placeOf).filter((place) => !place.endsWith('.ts'));
  assert.deepEqual([...new Set(folders)].sort(), Object.keys(mayImport).sort(), 'a new folder needs a rule here');
  for (const file of [...shared, ...ports]) assert.ok(files.includes(file), `${file} is no more`);
});

test('folders of the embedded API import in one direction only', () => {
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

test('a folder of the embedded API is entered through its index.ts, which says what it owns', () => {
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
