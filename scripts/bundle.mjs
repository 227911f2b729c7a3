// The ways this tree is bundled; scripts and tests share them. Paths are relative to the repository.
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

/** @type {import('esbuild').BuildOptions} */
const common = { bundle: true, platform: 'node', format: 'esm', target: 'node20.19', logLevel: 'warning' };

/**
 * Of client-node a kubeconfig needs a few files, and each program speaks some of the wire's protocols. Neither says that what nobody needs may be
 * left out: of client-node that is half a megabyte of types and clients of all of Kubernetes, without effects of their own.
 * @type {import('esbuild').Plugin}
 */
const neededParts = {
  name: 'needed parts',
  setup(build) {
    const folder = path.join('node_modules', '@kubernetes', 'client-node');
    const wire = path.join('src', 'wire', 'index.ts');
    build.onResolve({ filter: /^(\.|@kubernetes\/client-node$)/ }, async ({ path: name, pluginData, ...from }) => {
      const isPart = !name.startsWith('.') || from.importer.includes(folder) || from.importer.endsWith(wire);
      if (!isPart || pluginData === 'resolved') return undefined;
      return { ...(await build.resolve(name, { ...from, pluginData: 'resolved' })), sideEffects: false };
    });
  },
};

/**
 * What packages ask for only when something is switched on that no program here does: gRPC's channelz and ORCA read protocol files, and prom-client's
 * exemplars a trace. A tenth of the agent's text.
 */
const unused = new Map([
  ['@grpc/proto-loader', `throw new Error('channelz and ORCA are not in this program: it has no @grpc/proto-loader');`],
  ['@opentelemetry/api', 'module.exports = {};'],
]);

/** @type {import('esbuild').Plugin} */
const withoutUnused = {
  name: 'without what is never used',
  setup(build) {
    const namespace = 'unused';
    build.onResolve({ filter: /^@(grpc|opentelemetry)\// }, ({ path: name }) =>
      unused.has(name) ? { path: name, namespace } : undefined,
    );
    build.onLoad({ filter: /./, namespace }, ({ path: name }) => ({ contents: unused.get(name) }));
  },
};

/** @type {import('esbuild').BuildOptions} */
const shipped = {
  ...common,
  // Node.js keeps the text of a program in memory, twice as large when comments in other alphabets are in it.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: 'none',
  // What is native or read from disk at run time stays outside the bundle.
  external: ['koffi', 'classic-level'],
  // What `ws` looks for to take masks off frames faster.
  alias: { bufferutil: './src/console/frame-masks.ts' },
  plugins: [neededParts, withoutUnused],
  // CommonJS dependencies inside an ES module bundle still call require().
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);",
  },
};

/**
 * Programs of src/bin as they are shipped: `<name>.js` in `outdir`, and in a folder `<name>` beside it the parts, of which those
 * that few need (kubeconfigs, express, YAML) are read when they are first needed. In one file their text alone would take
 * 10 MB of an agent that never runs it.
 * @param {readonly string[]} names
 * @param {string} outdir
 * @param {{ extension?: '.js' | '.mjs', sourcemap?: 'linked' | false }} options
 */
export async function bundlePrograms(names, outdir, { extension = '.js', sourcemap = 'linked' } = {}) {
  for (const name of names) {
    if (Object.hasOwn(compiledPrograms, name)) {
      await bundleCompiled(name, outdir, { extension, sourcemap });
      continue;
    }
    await build({
      ...shipped,
      entryPoints: [`src/bin/${name}.ts`],
      outdir,
      splitting: true,
      chunkNames: `${name}/[name]-[hash]`,
      outExtension: { '.js': extension },
      sourcemap,
    });
  }
}

/**
 * Programs that are started so often that their compiling counts, each with parts that are read late: `<name>.js` is a few lines that
 * run `<name>/program.cjs` by what V8 made of it here, `<name>/program.cache`. Another version of Node.js does not take that, and compiles.
 */
const compiledPrograms = { 'virt-launcher': ['src/launcher/make-parts.ts'] };

/** An expression, for scripts can be kept compiled and modules cannot. */
const asFunction = {
  banner: {
    js: "(function(require,module,__filename){const __url=require('node:url').pathToFileURL(__filename).href;",
  },
  footer: { js: '})' },
};

async function bundleCompiled(name, outdir, { extension, sourcemap }) {
  const program = path.join(outdir, name, 'program.cjs');
  const parts = compiledPrograms[name].map((file) => `() => import('./${file}')`);
  const { plugins, banner, ...options } = shipped;
  await build({
    ...options,
    ...asFunction,
    stdin: {
      contents: `export const parts = [${parts}];\nimport './src/bin/${name}.ts';`,
      resolveDir: '.',
    },
    outfile: program,
    format: 'cjs',
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': '__url' },
    sourcemap,
  });
  const text = readFileSync(program, 'utf8');
  if (/[^\0-\xff]/.test(text)) throw new Error(`${program} has characters beyond Latin-1, as which it is read`);
  writeFileSync(program, text, 'latin1');
  copyFileSync('scripts/compiled/start.mjs', path.join(outdir, `${name}${extension}`));
  chmodSync(path.join(outdir, `${name}${extension}`), 0o755);
  execFileSync(process.execPath, ['scripts/compiled/compile.mjs', program]);
}

/**
 * One program of src/bin for a test, in one file that ends with `.mjs`. Below the repository, when it needs native packages.
 * @param {string} name
 * @param {string} outfile
 */
export async function bundleProgram(name, outfile) {
  await bundleAsProgram(`src/bin/${name}.ts`, outfile);
}

/**
 * The same of any source: for a test whose child runs as another user, maybe outside of the repository, where native packages are
 * found only if they are put beside it.
 * @param {string} source
 * @param {string} outfile ends with `.mjs`
 */
export async function bundleAsProgram(source, outfile) {
  const folder = process.env.TEST_PROGRAMS;
  if (folder === undefined) await buildProgram(source, outfile);
  else await copyProgram(source, outfile, folder);
}

async function buildProgram(source, outfile) {
  await build({ ...shipped, entryPoints: [source], outfile });
}

/**
 * Files of which something is left in the bundles of sources, as paths in the repository.
 * @param {readonly string[]} sources
 */
export async function sourcesInBundles(sources) {
  const options = { ...shipped, splitting: true, outdir: 'none', write: false, metafile: true };
  const { metafile } = await build({ ...options, entryPoints: [...sources] });
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  return inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([file]) => file);
}

/** Many files of tests in a run need the same program: the first one builds it. */
async function copyProgram(source, outfile, folder) {
  const built = path.join(folder, `${path.normalize(source).replaceAll('/', '+')}.mjs`);
  if (!existsSync(built)) {
    const draft = `${built}.${randomUUID()}`;
    await buildProgram(source, draft);
    renameSync(draft, built);
  }
  mkdirSync(path.dirname(outfile), { recursive: true });
  copyFileSync(built, outfile);
}

/**
 * Tests and tools that run inside the repository, whose packages are found there: `.mjs` files in `outdir`, as deep as
 * the sources are below `outbase`.
 * @param {readonly string[]} entryPoints
 * @param {string} outdir
 * @param {string} outbase
 * @param {import('esbuild').Plugin[]} plugins
 */
export async function bundleForRepository(entryPoints, outdir, outbase, plugins = []) {
  await build({
    ...common,
    entryPoints: [...entryPoints],
    outdir,
    outbase,
    outExtension: { '.js': '.mjs' },
    packages: 'external',
    plugins,
    // What entry points share is bundled once: in each of the tests' files it would take minutes, and hundreds of megabytes that Node.js reads.
    splitting: true,
    sourcemap: 'inline',
  });
}

/** What is in the page besides ours, by its licence. */
const pageLibraries = [
  '@novnc/novnc/LICENSE.txt',
  '@novnc/novnc/vendor/pako/LICENSE',
  '@xterm/xterm/LICENSE',
  '@xterm/addon-fit/LICENSE',
  'preact/LICENSE',
  '@preact/signals/LICENSE',
  '@preact/signals-core/LICENSE',
  'yaml/LICENSE',
];

/**
 * The web page: `index.html`, and below `assets` scripts and styles whose names carry a hash of their content. Terminal and
 * screen are files of their own, fetched when they are first opened.
 * @param {string} outdir
 */
export async function bundlePage(outdir) {
  const { metafile } = await build({
    bundle: true,
    platform: 'browser',
    format: 'esm',
    splitting: true,
    // noVNC awaits at top level; the styles use light-dark().
    target: ['chrome123', 'firefox120', 'safari17.5'],
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
    entryPoints: { page: 'src/web/page/main.tsx', style: 'src/web/page/style.css' },
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    loader: { '.svg': 'dataurl' },
    outdir: path.join(outdir, 'assets'),
  });
  const nameOf = (source) => {
    const found = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint === source);
    if (!found) throw new Error(`esbuild made nothing of ${source}`);
    return path.basename(found[0]);
  };
  const html = readFileSync('src/web/page/index.html', 'utf8')
    .replace('{{script}}', `assets/${nameOf('src/web/page/main.tsx')}`)
    .replace('{{style}}', `assets/${nameOf('src/web/page/style.css')}`);
  writeFileSync(path.join(outdir, 'index.html'), html);
  const licenses = pageLibraries.map((file) => `${file}\n\n${readFileSync(path.join('node_modules', file), 'utf8')}`);
  writeFileSync(path.join(outdir, 'third-party-licenses.txt'), licenses.join('\n\n'));
}
