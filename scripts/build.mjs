// Bundles each program of src/bin to dist/bin. What is native or read from disk at run time stays outside the bundle.
import { readdirSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

export const external = ['koffi', 'classic-level'];

const entries = readdirSync('src/bin')
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `src/bin/${file}`);

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: entries,
  outdir: 'dist/bin',
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  sourcemap: 'linked',
  legalComments: 'none',
  external,
  // CommonJS dependencies inside an ES module bundle still call require().
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);",
  },
  logLevel: 'warning',
});
