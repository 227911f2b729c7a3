// Runs bundles of test files, a process each. A file that fails beside others on a busy machine gets one more try, alone; what only passes then is said as unsteady.
// Where many fail the cause is not the machine: none is tried again then.
import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';

const mostSecondTries = 5;

/**
 * `files`: [{ source, bundle, alone }], begun in this order, and those that are to be `alone` after all others; `machine`: the command, with
 * arguments, that runs each; `tries`: 1, or 2 for files that run real programs; `endMs`: a file whose turn comes after this instant is not run,
 * which is a failure; `live`: with one file at a time what it prints is shown at once, not at its end.
 * Returns `{ passed, failed, failures, unsteady, took }`: texts, texts, and `{ source, seconds }` of each file.
 */
export async function runTestFiles(files, { concurrency, timeoutMs, tries, machine, endMs, live }) {
  const total = { passed: 0, failed: 0, failures: [], unsteady: [], took: [] };
  const again = [];
  const runAll = (waiting, most) => {
    const workers = Math.min(most, waiting.length);
    const worker = async () => {
      for (let file = waiting.shift(); file; file = waiting.shift()) {
        if (Date.now() > endMs) {
          add(total, {
            passed: 0,
            failed: 1,
            failures: [`${file.source} was not run: the time of the whole run is over`],
          });
          continue;
        }
        const start = Date.now();
        const result = await runFile(file, { live: live && workers === 1, timeoutMs, machine });
        total.took.push({ source: file.source, seconds: Math.round((Date.now() - start) / 1000) });
        if (result.failures.length > 0 && tries > 1) again.push({ file, first: result });
        else add(total, result);
      }
    };
    return Promise.all(Array.from({ length: workers }, worker));
  };
  await runAll(
    files.filter(({ alone }) => !alone),
    concurrency,
  );
  await runAll(
    files.filter(({ alone }) => alone),
    1,
  );
  for (const { file, first } of again) {
    if (again.length > mostSecondTries || Date.now() > endMs) {
      add(total, first);
      continue;
    }
    console.log(`\n# once more, alone: ${file.source}`);
    const result = await runFile(file, { live, timeoutMs, machine });
    add(total, result);
    if (result.failures.length === 0) total.unsteady.push(...first.failures);
  }
  return total;
}

function add(total, { passed, failed, failures }) {
  total.passed += passed;
  total.failed += failed;
  total.failures.push(...failures);
}

async function runFile({ source, bundle }, { live, timeoutMs, machine }) {
  const summaryFile = bundle.replace(/\.mjs$/, '.summary.json');
  rmSync(summaryFile, { force: true });
  const [command, ...args] = [
    ...machine,
    process.execPath,
    '--enable-source-maps',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=./scripts/summary-reporter.mjs',
    `--test-reporter-destination=${summaryFile}`,
    bundle,
  ];
  const child = spawn(command, args, { stdio: ['ignore', live ? 'inherit' : 'pipe', 'inherit'] });
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  // A machine tidies up when it is asked to end.
  const deadlines = [
    setTimeout(() => child.kill('SIGTERM'), timeoutMs),
    setTimeout(() => child.kill('SIGKILL'), timeoutMs + 20_000),
  ];
  const [code, signal] = await new Promise((resolve) => {
    child.on('close', (...end) => resolve(end));
  });
  for (const deadline of deadlines) clearTimeout(deadline);
  process.stdout.write(output);
  return readSummary(
    summaryFile,
    source,
    signal ? `was ended by ${signal} (limit: ${timeoutMs / 1000} s)` : `ended with ${code}`,
    code,
  );
}

/** A file that ends otherwise than its tests, or runs none, has failed. */
function readSummary(summaryFile, source, end, code) {
  const { passed, failed, skipped, failures } = readJson(summaryFile) ?? {
    passed: 0,
    failed: 0,
    skipped: 0,
    failures: [],
  };
  const texts = failures.map(({ name, error }) => `${source}: ${name}\n${error.split('\n', 40).join('\n')}`);
  const whole = failed === 0 && (code !== 0 || passed + skipped === 0);
  if (whole) texts.push(`${source} ${end}, ${passed} tests had passed`);
  for (const text of texts.slice(failures.length)) console.log(`✖ ${text}`);
  return { passed, failed: failed + (whole ? 1 : 0), failures: texts };
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
