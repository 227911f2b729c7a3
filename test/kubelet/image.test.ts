import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';

/** What is in the image that was built: read from its archive, layer by layer. */

/** Every file that can be run, and who runs it. */
const programs: readonly (readonly [file: RegExp, reason: string])[] = [
  [/^usr\/bin\/node$/, 'the agent runs on it'],
  [/^usr\/lib\/virt-handler\/bin\/virt-handler\.js$/, 'the agent'],
  [
    /^usr\/lib\/virt-handler\/bin\/virt-migration-relay\.js$/,
    'keeps streams of migrations for agents that come and go',
  ],
  [/^usr\/lib\/virt-handler\/bin\/virt-controller\.js$/, 'the controller, whose image is the same'],
  [/^usr\/lib\/virt-handler\/bin\/virt-exportserver\.js$/, 'what exporter pods of the controller run'],
  [/^usr\/bin\/tar$/, 'archives of exported file systems'],
  [/^usr\/bin\/ip$/, 'links of pods'],
  [/^usr\/sbin\/nft$/, 'address translation in pods'],
  [/^usr\/sbin\/haproxy$/, 'streams of live migrations'],
  [/^usr\/lib\/[\w-]+-linux-gnu\/ld-linux-[\w-]+\.so\.\d$/, 'the kernel starts Node.js with it'],
  [/^usr\/lib\/[\w-]+-linux-gnu\/libc\.so\.6$/, 'a library; as a program it says its version'],
];

interface Entry {
  readonly mode: string;
  readonly owner: string;
  readonly file: string;
}

const parts = JSON.parse(process.env.KUBELET_PARTS ?? '{}') as { readonly archives: readonly string[] };
let dir: string;
let layers: readonly string[];
let entries: readonly Entry[];

const blob = (digest: string) => path.join(dir, 'blobs', digest.replace(':', '/'));
const readJson = (file: string) => JSON.parse(readFileSync(file, 'utf8'));
const contentOf = (file: string) =>
  execFileSync('tar', ['-xzOf', layers.at(-1) ?? '', file], { encoding: 'utf8', maxBuffer: 1 << 26 });

before(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'image-'));
  execFileSync('tar', ['-xf', parts.archives[0] ?? '', '-C', dir]);
  const [manifest] = readJson(path.join(dir, 'index.json')).manifests;
  layers = readJson(blob(manifest.digest)).layers.map(({ digest }: { digest: string }) => blob(digest));
  const options = { encoding: 'utf8', maxBuffer: 1 << 26 } as const;
  const lines = layers.flatMap((layer) =>
    execFileSync('tar', ['-tvzf', layer, '--numeric-owner'], options).split('\n'),
  );
  entries = lines
    .filter((line) => line !== '')
    .map((line) => line.split(/\s+/))
    .map(([mode = '', owner = '', , , , file = '']) => ({ mode, owner, file }));
});
after(() => rmSync(dir, { recursive: true, force: true }));

suite('the image', () => {
  test('has the programs that the agent is made of, and no others: no shell, no package manager', () => {
    const found = entries.filter(({ mode }) => /^-.*x/.test(mode)).map(({ file }) => file);
    const known = found.filter((file) => programs.some(([pattern]) => pattern.test(file)));
    assert.deepEqual(found, known);
    for (const [pattern, reason] of programs)
      assert.equal(found.filter((file) => pattern.test(file)).length, 1, reason);
  });

  test('has nothing that gives rights to who runs it, and nothing that others than root own or may write', () => {
    assert.ok(entries.length > 50);
    const isOpen = ({ mode, owner, file }: Entry) =>
      /^.{3}s|^.{6}s/i.test(mode) || (/^[-d].{7}w/.test(mode) && file !== 'tmp/') || owner !== '0/0';
    assert.deepEqual(entries.filter(isOpen), []);
  });

  test('has its bill of materials, which names what the table of its contents names', () => {
    const bill = JSON.parse(contentOf('usr/share/sbom/virt-handler.cdx.json'));
    const named = new Set(
      bill.components.map(({ group, name, version }: { group?: string; name: string; version: string }) =>
        [group ? `${group}/${name}` : name, version].join(' '),
      ),
    );
    const rows = contentOf('usr/share/doc/virt-handler/contents.tsv').trim().split('\n').slice(2);
    const wanted = rows.map((row) =>
      row
        .split('\t')
        .slice(0, 2)
        .join(' ')
        .replace(/^node-linux-\w+ /, 'node.js '),
    );
    assert.ok(wanted.length > 100);
    assert.deepEqual(
      wanted.filter((name) => !named.has(name)),
      [],
    );
    const debian = bill.components.filter(({ purl }: { purl: string }) => purl.startsWith('pkg:deb/'));
    for (const { name } of debian)
      assert.ok(
        entries.some(({ file }) => file.startsWith(`usr/share/doc/${name}`)),
        `${name} has no copyright`,
      );
  });
});
