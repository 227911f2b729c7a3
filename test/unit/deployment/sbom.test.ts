import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, suite, test } from 'node:test';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { bundledPackages } from '../../../image/bundled.mjs';
import { imageBill } from '../../../image/contents.mjs';
import { sourcesInBundles } from '../../../scripts/bundle.mjs';

/** The bill of materials of the image, made of what this tree has: no image is built for it. */

type Bill = Awaited<ReturnType<typeof imageBill>>;

const options = { koffiFolder: 'node_modules/@koromix/koffi-linux-x64', timeSeconds: 1_700_000_000 };
let bill: Bill;

before(async () => {
  bill = await imageBill('amd64', options);
});

suite('the bill of materials', () => {
  test('is valid CycloneDX', async () => {
    const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);
    assert.equal(await validator.validate(JSON.stringify(bill)), null);
    const spoilt = { ...bill, components: [{ ...bill.components[0], type: 'thing' }] };
    assert.notEqual(await validator.validate(JSON.stringify(spoilt)), null);
  });

  test('is the same, byte for byte, when it is made again', async () =>
    assert.equal(JSON.stringify(await imageBill('amd64', options)), JSON.stringify(bill)));

  test('has every Debian package and Node.js as they are locked, with their checksums', () => {
    const { debian, node } = JSON.parse(readFileSync('image/lock.json', 'utf8'));
    for (const [name, { version, sha256 }] of Object.entries<{ version: string; sha256: string }>(debian.amd64)) {
      const found = bill.components.filter((each) => each.name === name && each.purl.startsWith('pkg:deb/debian/'));
      assert.deepEqual(
        found.map((each) => [each.version, each.hashes]),
        [[version, [{ alg: 'SHA-256', content: sha256 }]]],
      );
    }
    const [runtime, ...others] = bill.components.filter(({ name }) => name === 'node.js');
    assert.deepEqual([runtime?.version, others], [node.version, []]);
  });

  test('has every package that esbuild took into the agent, as package-lock.json has it', async () => {
    const used = (await sourcesInBundles(['src/bin/virt-handler.ts'])).filter((file) => file.includes('node_modules/'));
    const folders = new Set(used.map((file) => file.replace(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\/.*$/, '$1')));
    assert.ok(folders.size > 80, `${folders.size}`);
    const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
    const missing = [...folders].filter((folder) => {
      const purl = `pkg:npm/${folder.slice(folder.lastIndexOf('node_modules/') + 13).replace('@', '%40')}@${packages[folder].version}`;
      return !bill.components.some((each) => each.purl === purl && each.hashes?.[0].alg === 'SHA-512');
    });
    assert.deepEqual(missing, []);
  });

  test('has what is beside the bundle: the web page’s packages, what they bring, and koffi with its binary', () => {
    const names = new Set(bill.components.map(({ group, name }) => (group ? `${group}/${name}` : name)));
    const beside = ['@novnc/novnc', '@xterm/xterm', '@xterm/addon-fit', 'pako', 'koffi', '@koromix/koffi-linux-x64'];
    assert.deepEqual(
      beside.filter((name) => !names.has(name)),
      [],
    );
  });

  test('has nothing that the programs leave out', () => {
    const names = bill.components.map(({ group, name }) => (group ? `${group}/${name}` : name));
    assert.deepEqual(
      ['protobufjs', '@grpc/proto-loader', '@opentelemetry/api', 'long'].filter((name) => names.includes(name)),
      [],
    );
  });

  test('says of each part its version and licence', async () => {
    for (const { name, version, license } of await bundledPackages(options.koffiFolder))
      assert.ok(version && license, `${name} ${version} ${license}`);
    assert.ok(!JSON.stringify(bill).includes('undefined'));
  });

  test('names nothing twice, and only what it has', () => {
    const refs = bill.components.map((each) => each['bom-ref']);
    assert.equal(new Set(refs).size, refs.length);
    const [root, ...others] = bill.dependencies;
    assert.deepEqual(root?.dependsOn, refs);
    assert.deepEqual(
      others.map(({ ref }) => ref),
      refs,
    );
  });
});
