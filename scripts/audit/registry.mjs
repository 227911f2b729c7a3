// What the npm registry says: known faults of what is locked, and what the lock file lacks.
import { spawnSync } from 'node:child_process';
import { packageName } from './lock-faults.mjs';

function npm(...args) {
  const { status, stdout, stderr } = spawnSync('npm', args, { encoding: 'utf8', maxBuffer: 1 << 26, timeout: 120_000 });
  return { status, stdout: stdout ?? '', stderr: stderr ?? '' };
}

const firstLine = (text) => text.split('\n').find((line) => /error/i.test(line)) ?? 'no answer';

/**
 * Known faults, by `npm audit`. `problem`: why nothing is known, in npm's words; a registry need not have that question.
 * @returns {{ problem?: string, faults: string[] }}
 */
export function knownFaults() {
  const { stdout, stderr } = npm('audit', '--json');
  let answer = {};
  try {
    answer = JSON.parse(stdout);
  } catch {
    return { problem: firstLine(stderr), faults: [] };
  }
  if (!answer.vulnerabilities) return { problem: answer.message ?? firstLine(stderr), faults: [] };
  const faults = Object.values(answer.vulnerabilities).map(({ name, severity, range, via }) => {
    const titles = via.map((one) => (typeof one === 'string' ? `by ${one}` : `${one.title} ${one.url}`));
    return `${name} ${range}: ${severity}: ${titles.join('; ')}`;
  });
  return { faults };
}

/**
 * Whether what is installed was signed by the registry, by `npm audit signatures`.
 * @returns {{ problem?: string, faults: string[] }}
 */
export function signatureFaults() {
  const { status, stdout, stderr } = npm('audit', 'signatures', '--json');
  if (status === 0) return { faults: [] };
  try {
    const { invalid = [], missing = [], error } = JSON.parse(stdout);
    if (error) return { problem: error.summary || error.code, faults: [] };
    const words = (list, what) => list.map(({ name, version }) => `${name} ${version}: ${what}`);
    return { faults: [...words(invalid, 'its signature is wrong'), ...words(missing, 'it has no signature')] };
  } catch {
    return { problem: firstLine(stderr), faults: [] };
  }
}

/**
 * Checksums and licences that the lock file lacks, from the registry: npm leaves them out of packages for other platforms than that
 * of whoever wrote the file when its registry did not have them. Changes `lock`.
 * @param {{ packages: Record<string, { version?: string, integrity?: string, license?: string }> }} lock
 * @returns {{ completed: string[], unknown: string[] }} packages with their versions; unknown: the registry does not have them
 */
export function completeLock(lock) {
  const isOpen = ([place, { integrity, license }]) => place !== '' && !(integrity && license);
  const result = { completed: [], unknown: [] };
  for (const [place, entry] of Object.entries(lock.packages).filter(isOpen)) {
    const wanted = `${packageName(place)}@${entry.version}`;
    const { status, stdout } = npm('view', wanted, 'dist.integrity', 'license', '--json');
    result[status === 0 ? 'completed' : 'unknown'].push(wanted);
    if (status !== 0) continue;
    const answer = JSON.parse(stdout);
    entry.integrity ??= answer['dist.integrity'];
    entry.license ??= answer.license;
  }
  return result;
}
