// node scripts/compiled/compile.mjs <folder>/program.cjs   Keeps beside it what V8 makes of the program until all its parts have been read.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Script } from 'node:vm';

const filename = path.resolve(process.argv[2] ?? '');
const script = new Script(readFileSync(filename, 'latin1'), { filename });
// What each program does without a pod: it is read, says how it is used, and ends.
process.argv = [process.argv[0] ?? 'node', filename, '--help'];
process.stdout.write = () => true;
const module = { exports: { parts: [] } };
script.runInThisContext()(createRequire(filename), module, filename);
for (const read of module.exports.parts) await read();
const file = filename.replace(/cjs$/, 'cache');
writeFileSync(`${file}.new`, script.createCachedData());
renameSync(`${file}.new`, file);
