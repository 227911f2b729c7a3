// What is in the image, with versions and licences: a table for people and scanners, and the words of the licences.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

/** The npm packages whose code is in the agent's bundle or beside it. */
async function npmPackages() {
  const { metafile } = await build({
    entryPoints: ['src/bin/virt-handler.ts'],
    bundle: true,
    write: false,
    platform: 'node',
    format: 'esm',
    external: ['koffi', 'classic-level'],
    metafile: true,
    outfile: 'virt-handler.js',
    logLevel: 'error',
  });
  const [output] = Object.values(metafile.outputs);
  const used = Object.entries(output.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  const names = used.flatMap(([file]) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[0] ?? []);
  return [...new Set([...names, 'node_modules/koffi/'])].sort();
}

function licenseOf(dir) {
  const file = readdirSync(dir).find((name) => /^licen[cs]e(\.|$)/i.test(name));
  return file ? readFileSync(path.join(dir, file), 'utf8').trim() : undefined;
}

/**
 * `contents.tsv` (what, version, licence, where from) and `licenses.txt` in `dir`.
 * @param {string} dir
 * @param {{ packages: readonly { name: string, version: string }[], node: { name: string, version: string } }} parts
 */
export async function writeContents(dir, { packages, node }) {
  const debian = packages.map(({ name, version }) => [name, version, `/usr/share/doc/${name}/copyright`, 'Debian']);
  const runtime = [node.name, node.version, '/usr/share/doc/nodejs/copyright', 'npm'];
  const own = JSON.parse(readFileSync('package.json', 'utf8'));
  const rows = [['virt-handler', own.version, own.license, 'this repository'], ...debian, runtime];
  const words = [`virt-handler\n\n${readFileSync('LICENSE', 'utf8').trim()}`];
  for (const folder of await npmPackages()) {
    const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    rows.push([name, version, license ?? '', 'npm']);
    words.push(`${name} ${version} (${license ?? 'see its repository'})\n\n${licenseOf(folder) ?? 'no licence file'}`);
  }
  const page = 'dist/web/third-party-licenses.txt';
  if (existsSync(page)) words.push(readFileSync(page, 'utf8').trim());
  mkdirSync(dir, { recursive: true });
  const table = [['what', 'version', 'licence', 'from'], ...rows].map((row) => row.join('\t')).join('\n');
  writeFileSync(path.join(dir, 'contents.tsv'), `${table}\n`);
  writeFileSync(path.join(dir, 'licenses.txt'), `${words.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`);
}
