// What is in the image, with versions and licences: a table and a bill of materials for scanners, and the words of the licences.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bundledPackages } from './bundled.mjs';
import { readLock } from './parts.mjs';
import { billOfMaterials } from './sbom.mjs';

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));

function table({ own, packages, node, npm }) {
  const debian = packages.map(({ name, version }) => [name, version, `/usr/share/doc/${name}/copyright`, 'Debian']);
  const runtime = [node.name, node.version, '/usr/share/doc/nodejs/copyright', 'npm'];
  const bundled = npm.map(({ name, version, license }) => [name, version, license, 'npm']);
  const head = ['what', 'version', 'licence', 'from'];
  const rows = [head, [own.name, own.version, own.license, 'this repository'], ...debian, runtime, ...bundled];
  return `${rows.map((row) => row.join('\t')).join('\n')}\n`;
}

/** Of a package without a file of its licence its name is said, and its package.json is its word. */
function licenseWords({ own, npm }) {
  const texts = [`${own.name}\n\n${readFileSync('LICENSE', 'utf8').trim()}`];
  for (const { name, version, license, words } of npm)
    texts.push(`${name} ${version} (${license})\n\n${words ?? 'no licence file'}`);
  const page = 'dist/web/third-party-licenses.txt';
  if (existsSync(page)) texts.push(readFileSync(page, 'utf8').trim());
  return `${texts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}

/**
 * The bill of materials of the image for `arch`, from the lock files and what esbuild bundles.
 * @param {string} arch amd64 or arm64
 * @param {{ koffiFolder: string, timeSeconds: number }} options
 */
export async function imageBill(arch, { koffiFolder, timeSeconds }) {
  const { debian, node } = readLock();
  return billOfMaterials({
    own: readJson('package.json'),
    ...{ arch, timeSeconds, lock: readJson('package-lock.json') },
    debian: Object.entries(debian[arch]).map(([name, locked]) => ({ name, ...locked })),
    node: {
      name: `node-linux-${arch === 'amd64' ? 'x64' : arch}`,
      version: node.version,
      integrity: node.integrity[arch],
    },
    npm: await bundledPackages(koffiFolder),
  });
}

/**
 * `contents.tsv` (what, version, licence, where from) and `licenses.txt` in `dir`, and the bill of materials as `sbomFile`.
 * @param {{ dir: string, sbomFile: string, arch: string, timeSeconds: number }} places
 * @param {{ packages: readonly { name: string, version: string }[], node: { name: string, version: string }, koffi: { folder: string } }} parts
 */
export async function writeContents({ dir, sbomFile, arch, timeSeconds }, { packages, node, koffi }) {
  const facts = { own: readJson('package.json'), packages, node, npm: await bundledPackages(koffi.folder) };
  for (const folder of [dir, path.dirname(sbomFile)]) mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(dir, 'contents.tsv'), table(facts));
  writeFileSync(path.join(dir, 'licenses.txt'), licenseWords(facts));
  const bill = await imageBill(arch, { koffiFolder: koffi.folder, timeSeconds });
  writeFileSync(sbomFile, `${JSON.stringify(bill, null, 2)}\n`);
}
