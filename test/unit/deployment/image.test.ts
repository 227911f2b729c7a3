import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, suite, test } from 'node:test';
import { build } from 'esbuild';

/** The image has no programs but Node.js, ip, nft and haproxy: what the agent's program would start, or load, must not be missing in it. */

let bundle = '';
let external: Set<string>;

before(async () => {
  const { metafile, outputFiles } = await build({
    entryPoints: ['src/bin/virt-handler.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    outfile: 'virt-handler.js',
    logLevel: 'error',
  });
  bundle = outputFiles[0]?.text ?? '';
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  external = new Set(imports.map(({ path }) => path));
});

suite('the program in the image', () => {
  test('starts no other programs than those that the image has: ip, nft and haproxy', () => {
    assert.ok(bundle.length > 100_000);
    // One door: `runInNamespace` starts what runs in a pod's network, by the C library, and nothing else does.
    assert.equal([...bundle.matchAll(/"int (?:posix_spawnp?|exec\w*|v?fork|system|popen)\(/g)].length, 1);
    // HAProxy, for migrations; it is asked what it can do first.
    assert.equal([...bundle.matchAll(/from\s*["'](?:node:)?child_process["']/g)].length, 1);
    assert.match(bundle, /import \{ execFile, spawn(?: as \w+)? \} from "node:child_process"/);
    assert.equal([...bundle.matchAll(/\bspawn\w*\(\w+\.program, /g)].length, 1);
    assert.equal([...bundle.matchAll(/\bpromisify\w*\(execFile\)\(\w+, \["-vv"\], /g)].length, 1);
    assert.equal([...bundle.matchAll(/\bexecFile\b/g)].length, 2);
    assert.doesNotMatch(bundle, /require\(["'](?:node:)?child_process["']\)|import\(["'](?:node:)?child_process["']\)/);
    const programs = [...bundle.matchAll(/\{ program: ["']([\w-]+)["'],/g)].map(([, name]) => name);
    assert.deepEqual([...new Set(programs)].sort(), ['ip', 'nft']);
    assert.match(readFileSync('image/root.mjs', 'utf8'), /bin\\\/\(ip\|tar\)\|sbin\\\/\(nft\|haproxy\)/);
  });

  test('loads one native library, which the image has beside it', () => {
    const native = ['koffi', 'classic-level'].filter((name) => external.has(name));
    assert.deepEqual(native, ['koffi']);
    assert.match(readFileSync('image/root.mjs', 'utf8'), /koffi-linux-/);
  });
});

test('what is fetched is locked by checksum', () => {
  const { debian, node } = JSON.parse(readFileSync('image/lock.json', 'utf8'));
  for (const packages of Object.values<Record<string, { version: string; sha256: string }>>(debian)) {
    const linked = ['gcc-12-base', 'libc6', 'libgcc-s1', 'libstdc++6'];
    assert.deepEqual(
      [...linked, 'iproute2', 'nftables', 'haproxy', 'libssl3'].filter((name) => !(name in packages)),
      [],
    );
    for (const { version, sha256 } of Object.values(packages)) {
      assert.match(version, /^\d/);
      assert.match(sha256, /^[0-9a-f]{64}$/);
    }
  }
  assert.deepEqual(Object.keys(debian).sort(), ['amd64', 'arm64']);
  assert.deepEqual(Object.keys(node.integrity).sort(), ['amd64', 'arm64']);
  const { packages: npm } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
  for (const arch of ['x64', 'arm64'])
    assert.match(npm[`node_modules/@koromix/koffi-linux-${arch}`].integrity, /^sha512-.{88}$/);
  for (const sum of Object.values<string>(node.integrity)) assert.match(sum, /^sha512-.{88}$/);
});

test('buildah is given its policy where it builds or writes: a bare Debian has none', () => {
  const calls = ['image/build.sh', 'image/load.sh'].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => /\bbuildah .*\b(build|push) --/.test(line)),
  );
  assert.equal(calls.length, 3, calls.join('\n'));
  for (const call of calls) assert.match(call, / (build|push) --signature-policy image\/policy\.json /);
  assert.deepEqual(JSON.parse(readFileSync('image/policy.json', 'utf8')).default, [{ type: 'insecureAcceptAnything' }]);
});
