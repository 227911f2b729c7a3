import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

/** What each folder of src may import besides `base` and itself. The reason for the direction is in CONTRIBUTING.md. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  base: [],
  api: ['base'],
  host: ['base'],
  wire: ['base', 'api'],
  'nbd-tunnel': ['base'],
  instancetype: ['base', 'api'],
  reconcile: ['base', 'api'],
  'cluster-config': ['base', 'api', 'host', 'reconcile'],
  kube: ['base', 'api'],
  libvirt: ['base'],
  tls: ['base'],
  certificates: ['base', 'host', 'tls'],
  http: ['base', 'tls'],
  serving: ['base', 'reconcile', 'kube', 'tls', 'http'],
  console: ['base', 'http'],
  web: ['base', 'api', 'http'],
  apiserver: ['base', 'api', 'instancetype', 'reconcile', 'cluster-config', 'host', 'tls', 'certificates', 'http'],
  'launcher-client': ['base', 'api', 'host', 'wire'],
  'domain-cache': ['base', 'api', 'host', 'wire', 'launcher-client'],
  'device-plugin': ['base', 'reconcile', 'host', 'wire'],
  agent: [
    'base',
    'api',
    'reconcile',
    'cluster-config',
    'host',
    'kube',
    'tls',
    'http',
    'serving',
    'console',
    'web',
    'domain-cache',
    'launcher-client',
    'device-plugin',
  ],
  launcher: ['base', 'api', 'host', 'wire', 'libvirt', 'nbd-tunnel'],
  'export-server': ['base', 'host', 'tls', 'http', 'nbd-tunnel'],
  controller: [
    ...['base', 'api', 'instancetype', 'reconcile', 'cluster-config', 'kube', 'tls', 'certificates', 'http', 'serving'],
  ],
  standalone: ['base', 'api', 'reconcile', 'host', 'kube', 'tls', 'certificates', 'http', 'web', 'apiserver'],
};

/** One folder per vendor. `node:` modules are free. */
const vendorFolders: Readonly<Record<string, readonly string[]>> = {
  '@kubernetes/client-node': ['kube'],
  '@grpc/grpc-js': ['wire', 'launcher-client', 'domain-cache', 'launcher', 'device-plugin'],
  '@bufbuild/protobuf': ['wire', 'apiserver', 'nbd-tunnel'],
  express: ['apiserver', 'agent', 'web'],
  ws: ['console', 'standalone'],
  yargs: ['standalone'],
  pino: ['base'],
  '@peculiar/x509': ['certificates'],
  'reflect-metadata': ['certificates'],
  koffi: ['host'],
  'prom-client': ['agent', 'serving', 'controller'],
  'classic-level': ['apiserver'],
  rfc6902: ['apiserver', 'controller'],
  'fast-xml-parser': ['launcher', 'agent'],
  yaml: ['apiserver', 'standalone', 'kube', 'launcher', 'agent', 'web', 'export-server'],
  '@novnc/novnc': ['web'],
  '@xterm/xterm': ['web'],
  '@xterm/addon-fit': ['web'],
  preact: ['web'],
  '@preact/signals': ['web'],
};

interface Import {
  readonly file: string;
  readonly specifier: string;
}

const files = readdirSync('src', { recursive: true })
  .map(String)
  .filter((file) => /\.tsx?$/.test(file));

const imports: Import[] = files.flatMap((file) => {
  const source = readFileSync(path.join('src', file), 'utf8');
  const found = source.matchAll(
    /^\s*(?:import|export)\b[^'"`;]*?from\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
  );
  return [...found].map((match) => ({ file, specifier: match[1] ?? match[2] ?? '' }));
});

const folderOf = (file: string) => file.split(path.sep)[0] ?? '';

function targetOf({ file, specifier }: Import): string {
  return path.normalize(path.join(path.dirname(file), specifier));
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

const relative = imports.filter(({ specifier }) => specifier.startsWith('.'));
const vendor = imports.filter(({ specifier }) => !specifier.startsWith('.') && !specifier.startsWith('node:'));

test('the import rules have read the whole tree', () => {
  assert.ok(files.length > 50, `only ${files.length} files`);
  assert.ok(relative.length > 100, `only ${relative.length} relative imports`);
  const folders = readdirSync('src').filter((name) => statSync(path.join('src', name)).isDirectory());
  assert.deepEqual(folders.sort(), [...Object.keys(mayImport), 'bin'].sort(), 'a new folder needs a rule here');
});

test('folders import in one direction only', () => {
  const wrong = relative
    .map((found) => ({ ...found, from: folderOf(found.file), to: folderOf(targetOf(found)) }))
    .filter(({ from, to }) => from !== to && from !== 'bin' && !mayImport[from]?.includes(to))
    .map(({ file, from, to }) => `src/${file}: ${from} must not know ${to}`);
  assert.deepEqual(wrong, []);
});

test('a folder is entered through its index.ts', () => {
  const wrong = relative
    .filter((found) => folderOf(found.file) !== folderOf(targetOf(found)))
    .filter((found) => path.basename(targetOf(found)) !== 'index.ts')
    .map(({ file, specifier }) => `src/${file}: import ${specifier} through its index.ts`);
  assert.deepEqual(wrong, []);
});

test('each library is imported only where it belongs', () => {
  const wrong = vendor
    .filter(({ file, specifier }) => !vendorFolders[packageOf(specifier)]?.includes(folderOf(file)))
    .map(
      ({ file, specifier }) =>
        `src/${file}: ${specifier} belongs in ${vendorFolders[packageOf(specifier)]?.join(', ')}`,
    );
  assert.deepEqual(wrong, []);
});

test('only bin reads argv, the environment and signals, and ends the process', () => {
  const pattern = /process\.(argv|env\b|exit\(|exitCode|on\(\s*['"]SIG)/;
  const wrong = files
    .filter((file) => folderOf(file) !== 'bin')
    .filter((file) => pattern.test(readFileSync(path.join('src', file), 'utf8')))
    .map((file) => `src/${file}`);
  assert.deepEqual(wrong, []);
});

test('each folder opens by saying what it owns and what it must not know', () => {
  const wrong = Object.keys(mayImport).filter((folder) => {
    const opening = readFileSync(`src/${folder}/index.ts`, 'utf8').split('\n').slice(0, 16).join('\n');
    return !/Owns:/.test(opening) || !/Must not know:/.test(opening);
  });
  assert.deepEqual(wrong, []);
});

/** What is evaluated when a program starts: no types, and no `import()`. */
function loadedAtStart(program: string): Set<string> {
  const loaded = new Set<string>();
  const pending = [program];
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (loaded.has(file)) continue;
    loaded.add(file);
    const source = readFileSync(path.join('src', file), 'utf8');
    const found = source.matchAll(/^(?:import|export)\b(?!\s+type\b)[^'"`;]*?from\s*['"]([^'"]+)['"]/gm);
    for (const [, specifier = ''] of found) {
      if (specifier.startsWith('.')) pending.push(targetOf({ file, specifier }));
      else loaded.add(packageOf(specifier));
    }
  }
  return loaded;
}

test('an agent that nobody asks for a console has not loaded what serves them: that would be a sixth of its memory', () => {
  const loaded = loadedAtStart('bin/virt-handler.ts');
  assert.ok(loaded.size > 100, `only ${loaded.size} found`);
  assert.ok(loaded.has('@grpc/grpc-js'));
  assert.deepEqual(
    ['express', 'yaml', '@kubernetes/client-node', '@peculiar/x509', 'reflect-metadata'].filter((library) =>
      loaded.has(library),
    ),
    [],
  );
});

test('no files import each other in a circle', () => {
  const next = new Map<string, string[]>();
  for (const found of relative) next.set(found.file, [...(next.get(found.file) ?? []), targetOf(found)]);
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' -> '));
    if (done.has(file) || way.includes(file)) return;
    for (const target of next.get(file) ?? []) visit(target, [...way, file]);
    done.add(file);
  };
  for (const file of next.keys()) visit(file, []);
  assert.deepEqual(circles, []);
});
