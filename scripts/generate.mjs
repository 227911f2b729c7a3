// node scripts/generate.mjs [--check]
// proto/*.proto -> src/wire/gen/*.ts with buf and ts-proto, without network. --check changes nothing and fails on a difference.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const genDir = path.resolve('src/wire/gen');
const options = [
  'outputServices=grpc-js',
  'env=node',
  'esModuleInterop=true',
  'importSuffix=.ts',
  'forceLong=bigint',
  // Wire names have mixed case (`MemBalloonStatsPeriod`, `numa_cells`): keep them as they are.
  'snakeToCamel=none',
  'outputJsonMethods=false',
  'useExactTypes=false',
  'annotateFilesWithVersion=false',
];

function generate(outDir) {
  const template = {
    version: 'v2',
    inputs: [{ directory: path.resolve('proto') }],
    plugins: [{ local: path.resolve('node_modules/.bin/protoc-gen-ts_proto'), out: outDir, opt: options }],
  };
  const { status, error } = spawnSync(
    path.resolve('node_modules/.bin/buf'),
    ['generate', '--template', JSON.stringify(template)],
    { stdio: ['ignore', 'inherit', 'inherit'], cwd: path.resolve('proto') },
  );
  if (error) throw error;
  if (status !== 0) throw new Error(`buf generate failed with status ${status}`);
}

const contents = (dir) => new Map(readdirSync(dir).map((file) => [file, readFileSync(path.join(dir, file), 'utf8')]));

function check() {
  const scratch = mkdtempSync(path.join(tmpdir(), 'generate-'));
  try {
    generate(scratch);
    const wanted = contents(scratch);
    const found = contents(genDir);
    const files = [...new Set([...wanted.keys(), ...found.keys()])];
    return files.filter((file) => wanted.get(file) !== found.get(file));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

if (process.argv.includes('--check')) {
  const stale = check();
  for (const file of stale) console.error(`src/wire/gen/${file} differs from proto/: run npm run generate`);
  process.exitCode = stale.length > 0 ? 1 : 0;
} else {
  rmSync(genDir, { recursive: true, force: true });
  mkdirSync(genDir, { recursive: true });
  generate(genDir);
}
