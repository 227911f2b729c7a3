import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { Script } from 'node:vm';
import { bundlePrograms } from '../../../scripts/bundle.mjs';

let dir = '';
let all: string[] = [];

before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'bundle-'));
  await bundlePrograms(['virt-handler'], dir, { sourcemap: false });
  all = readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(dir, name))
    .filter((file) => statSync(file).isFile());
});

after(() => rmSync(dir, { recursive: true, force: true }));

/** The files that Node.js reads before the first line runs. */
function readAtStart(file: string, known = new Set<string>()): Set<string> {
  if (known.has(file)) return known;
  known.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(/(?:from|^import|;import)\s*"(\.[^"]+)"/gm);
  for (const [, name = ''] of imports) readAtStart(path.resolve(path.dirname(file), name), known);
  return known;
}

const bytesOf = (files: Iterable<string>) => [...files].reduce((sum, file) => sum + statSync(file).size, 0);

suite('the agent’s program as it is shipped', () => {
  test('has no character beyond Latin-1: one, in a regular expression say, doubles the text that Node.js keeps', () => {
    const texts = all.map((file) => readFileSync(file, 'utf8'));
    assert.ok(texts.join('').length > 500_000);
    const beyond = texts.flatMap((text) =>
      [...text.matchAll(/.{0,40}[\u0100-\uffff].{0,10}/g)].map(([around]) => around),
    );
    assert.deepEqual(beyond, []);
  });

  test('reads what few need, two fifths of its text and more, not before it is needed: Node.js keeps all text it has read', () => {
    const first = readAtStart(path.join(dir, 'virt-handler.js'));
    assert.ok(bytesOf(first) < 1_870_000, `${bytesOf(first)} bytes are read at the start`);
    assert.ok(bytesOf(first) < bytesOf(all) * 0.6, `${bytesOf(first)} of ${bytesOf(all)} bytes`);
    const names = [...first].map((file) => path.basename(file));
    assert.deepEqual(
      names.filter((name) => /^(kubeconfig|rest-app|page)-/.test(name)),
      [],
    );
  });

  test('comes without the library that makes certificates, which it never does', () => {
    const found = all.filter((file) =>
      /x509\.|\bX509CertificateGenerator\b/.test(`${file} ${readFileSync(file, 'utf8')}`),
    );
    assert.deepEqual(found, []);
  });

  test('has its parts in one folder of its name, so that whoever takes it along knows which they are', () => {
    const places = new Set(all.map((file) => path.relative(dir, path.dirname(file))));
    assert.deepEqual([...places].sort(), ['', 'virt-handler']);
    assert.deepEqual(
      readdirSync(dir).filter((name) => name !== 'virt-handler'),
      ['virt-handler.js'],
    );
  });
});

suite('the launcher’s program as it is shipped', () => {
  let place = '';
  const program = () => path.join(place, 'virt-launcher/program.cjs');
  const cache = () => path.join(place, 'virt-launcher/program.cache');
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(place, 'virt-launcher.mjs'), ...args], {
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  };

  before(async () => {
    place = mkdtempSync(path.join(tmpdir(), 'bundle-'));
    await bundlePrograms(['virt-launcher'], place, { extension: '.mjs', sourcemap: false });
  });
  after(() => rmSync(place, { recursive: true, force: true }));

  test('comes compiled, all of its parts, and this Node.js takes it', () => {
    const script = new Script(readFileSync(program(), 'latin1'), {
      filename: program(),
      cachedData: readFileSync(cache()),
    });
    assert.equal(script.cachedDataRejected, false);
    // Functions of the parts that are read late are among it.
    assert.ok(statSync(cache()).size > 600_000, `${statSync(cache()).size} bytes`);
  });

  test('runs without what was compiled, with another’s, and with the half of it, as it does with it', () => {
    const help = run('--help');
    assert.deepEqual([help.status, help.stderr], [0, '']);
    assert.match(help.stdout, /--qemu-timeout duration/);
    const wrong = run('--no-such-flag');
    assert.equal(wrong.status, 2);
    assert.match(wrong.stderr, /no-such-flag/);
    const whole = readFileSync(cache());
    for (const bytes of [whole.subarray(0, whole.length / 2), Buffer.from('another'), undefined]) {
      if (bytes) writeFileSync(cache(), bytes);
      else rmSync(cache());
      assert.deepEqual(run('--help'), help);
      assert.deepEqual(run('--no-such-flag'), wrong);
    }
  });
});

test('virt-node as it is shipped reads the library of certificates when it makes one, with the names that it uses', async (t) => {
  const place = mkdtempSync(path.join(tmpdir(), 'bundle-'));
  t.after(() => rmSync(place, { recursive: true, force: true }));
  await bundlePrograms(['virt-node'], place, { extension: '.mjs', sourcemap: false });
  const parts = readdirSync(path.join(place, 'virt-node')).filter((name) => name.startsWith('library-'));
  assert.equal(parts.length, 1, parts.join());
  const file = path.join(place, 'virt-node', parts[0] ?? '');
  assert.ok(!readAtStart(path.join(place, 'virt-node.mjs')).has(file));
  const shipped: Record<string, unknown> = await import(file);
  const named = Object.keys(await import('../../../src/certificates/library.ts'));
  assert.deepEqual(
    named.filter((name) => shipped[name] === undefined),
    [],
  );
  assert.ok(named.length > 8);
});
