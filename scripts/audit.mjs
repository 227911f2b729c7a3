// npm run audit [-- --write]   what is known against the packages of package-lock.json
//
//   --write   first: checksums and licences that the lock file lacks, from the registry, and docs/licenses.md
//
// The lock file by itself is looked at here and in the unit tests; known faults and signatures take a registry that answers such
// questions. What could not be asked is said, and is no success: "not known" is not "nothing known". Ends with 1 when anything is wrong.
import { readFileSync, writeFileSync } from 'node:fs';
import { licensesPage } from './audit/licenses.mjs';
import { isElsewhere, lockFaults, packageName } from './audit/lock-faults.mjs';
import { completeLock, knownFaults, signatureFaults } from './audit/registry.mjs';

const lockFile = 'package-lock.json';
const lock = JSON.parse(readFileSync(lockFile, 'utf8'));
const own = JSON.parse(readFileSync('package.json', 'utf8'));

if (process.argv.includes('--write')) {
  const { completed, unknown } = completeLock(lock);
  console.log(`completed from the registry: ${completed.join(', ') || 'none'}`);
  if (unknown.length > 0) console.log(`the registry does not have: ${unknown.join(', ')}`);
  writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
  writeFileSync('docs/licenses.md', licensesPage(lock));
}

function report(what, { problem, faults }) {
  if (problem) console.log(`${what}: NOT KNOWN: ${problem}`);
  else console.log(`${what}: ${faults.length === 0 ? 'none' : ''}`);
  for (const fault of faults) console.log(`  ${fault}`);
  return faults.length;
}

const unlocked = Object.entries(lock.packages).filter(
  ([place, entry]) => place !== '' && !entry.integrity && isElsewhere(entry, packageName(place)),
);
console.log(`without checksum, for platforms on which nothing is built or run: ${unlocked.length}`);
const stale =
  readFileSync('docs/licenses.md', 'utf8') === licensesPage(lock)
    ? []
    : ['docs/licenses.md is old: npm run audit -- --write'];
const found =
  report(`faults of ${lockFile} itself (${Object.keys(lock.packages).length - 1} packages)`, {
    faults: [...lockFaults(lock, own), ...stale],
  }) +
  report('known faults of these versions (npm audit)', knownFaults()) +
  report('packages without a good signature (npm audit signatures)', signatureFaults());
process.exitCode = found > 0 ? 1 : 0;
