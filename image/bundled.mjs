// The npm packages whose code is in the image: in the agent's bundle, in the web page, and beside them. Read from what esbuild bundled.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import { sourcesInBundles } from '../scripts/bundle.mjs';

const programs = ['virt-handler', 'virt-migration-relay', 'virt-controller', 'virt-exportserver'];
const page = {
  entryPoints: ['src/web/page/main.tsx'],
  platform: 'browser',
  splitting: true,
  loader: { '.svg': 'dataurl' },
};
const pageStyle = { entryPoints: ['src/web/page/style.css'], loader: { '.svg': 'dataurl' } };

/** Files of which something is left in what the page is made of. */
async function filesOfPage(options) {
  const settings = { bundle: true, write: false, format: 'esm', metafile: true, outdir: 'out', logLevel: 'error' };
  const { metafile } = await build({ target: 'es2023', ...settings, ...options });
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  return inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([file]) => file);
}

function licenseText(dir) {
  const file = readdirSync(dir).find((name) => /^licen[cs]e(\.|$)/i.test(name));
  return file ? readFileSync(path.join(dir, file), 'utf8').trim() : undefined;
}

/** What packages bring of others inside their own folders says no version and licence where programs could read them. */
const vendoredFacts = {
  // Its README and LICENSE in @novnc/novnc.
  pako: { version: '1.0.3', license: 'MIT' },
};

/** `node_modules/@novnc/novnc/vendor/pako/…` */
function vendored(files) {
  const folders = files.flatMap((file) => /.*node_modules\/.*\/vendor\/[^/]+\//.exec(file)?.[0] ?? []);
  return [...new Set(folders)].map((folder) => {
    const name = path.basename(folder);
    return { name, ...vendoredFacts[name], folder, words: licenseText(folder) };
  });
}

function packageIn(folder) {
  const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return { name, version, license, folder, words: licenseText(folder) };
}

/**
 * In the order of their folders. `words`: the text of its licence, where the package has one.
 * @param {string} koffiFolder of the package of koffi's binary, which may be another architecture's
 * @returns {Promise<{ name: string, version: string, license: string, folder: string, words?: string }[]>}
 */
export async function bundledPackages(koffiFolder) {
  const ofPrograms = sourcesInBundles(programs.map((program) => `src/bin/${program}.ts`));
  const files = (await Promise.all([ofPrograms, ...[page, pageStyle].map(filesOfPage)])).flat();
  const folders = files.flatMap((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[0] ?? []);
  const packages = [...new Set([...folders, 'node_modules/koffi/'])].map(packageIn);
  const inTree = [...packages, ...vendored(files)].sort((a, b) => (a.folder < b.folder ? -1 : 1));
  return [...inTree, packageIn(koffiFolder)];
}
