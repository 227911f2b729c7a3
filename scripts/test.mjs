// node scripts/test.mjs <suite>... [path filter...] [--fuzz-seconds=N]
// suites: check unit fuzz simulator integration contract system security browser guests losses cluster kubelet upstream all
// Bundles test files with esbuild and runs them with node:test; prints `N passed, N failed` last.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleForRepository } from './bundle.mjs';
import { kubeApiserverAssets, kubectlFolder, whyNoKubeApiserver } from './kube-apiserver.mjs';
import { kubeletParts, whyNoKubelet } from './kubelet-parts.mjs';
import { runTestFiles } from './run-test-files.mjs';
import { trySetUp } from './setup.mjs';
import { folderOfRun } from './test-folder.mjs';
import { isAlone, longestFirst, machineOfOwn, whyNoMachineOfOwn } from './test-machines.mjs';
import { upstreamParts, whyNoUpstream } from './upstream-parts.mjs';

const outDir = folderOfRun('.build/test');
/**
 * Files of suites that are `apart` have a machine of their own each, where that is possible; else one runs at a time. A suite that runs `behind`
 * has the processor when those after it leave it idle: it only computes, and they wait half of the time. Where none comes after it, it runs as any other.
 */
const suites = {
  unit: { dir: 'test/unit', concurrency: 2, timeoutMs: 180_000 },
  fuzz: { dir: 'test/fuzz', concurrency: 2, timeoutMs: 7_200_000 },
  simulator: { dir: 'test/simulator', concurrency: 1, behind: true, timeoutMs: 3_600_000 },
  integration: { dir: 'test/integration', concurrency: 3, timeoutMs: 240_000 },
  contract: { dir: 'test/contract', concurrency: 1, timeoutMs: 180_000 },
  system: { dir: 'test/system', concurrency: 2, apart: true, timeoutMs: 600_000 },
  security: { dir: 'test/security', concurrency: 2, apart: true, timeoutMs: 600_000 },
  browser: { dir: 'test/browser', concurrency: 2, apart: true, timeoutMs: 600_000 },
  guests: { dir: 'test/guests', concurrency: 1, timeoutMs: 1_800_000 },
  losses: { dir: 'test/losses', concurrency: 1, timeoutMs: 1_200_000 },
  cluster: { dir: 'test/cluster', concurrency: 2, timeoutMs: 600_000 },
  kubelet: { dir: 'test/kubelet', concurrency: 1, timeoutMs: 900_000 },
  upstream: { dir: 'test/upstream', concurrency: 1, timeoutMs: 1_200_000 },
};
/** CI ends a run without a word after 90 minutes; one that takes 40 on a sound tree tells what failed before that. */
const endMs = Date.now() + 75 * 60_000;
/** Without programs, networks and clocks of the machine: a second try would only hide a fault. */
const sameEachTime = ['unit', 'fuzz', 'simulator'];
/** A machine of its own for each file. */
const onMachines = ['kubelet', 'upstream'];

const fuzzFlag = /^--fuzz-seconds=(\d+)$/;
const args = process.argv.slice(2).filter((arg) => {
  const seconds = fuzzFlag.exec(arg)?.[1];
  if (seconds) process.env.FUZZ_SECONDS = seconds;
  return !seconds;
});
const filters = args.filter((arg) => arg.includes('/'));
const asked = args.filter((arg) => !arg.includes('/'));
const wanted = new Set(
  asked.flatMap((name) =>
    name === 'all'
      ? ['check', 'fuzz', 'simulator', 'integration', 'contract', 'system', 'security', 'browser']
      : [name],
  ),
);
if (wanted.has('check')) wanted.add('unit');

const totals = { passed: 0, failed: 0 };
/** What the end of the run says of each: a log may be cut to its end. */
const failures = [];
/** What failed, and passed when its file ran once more alone: no failure of this run, but a defect of the test or of what it tests. */
const unsteady = [];
let notRun = false;
/** What the end of the run says of time. */
const suitesTook = [];
const filesTook = [];
const slowestShown = 30;

function step(title, command, commandArgs) {
  console.log(`\n# ${title}`);
  const start = Date.now();
  const { status } = spawnSync(command, commandArgs, { stdio: 'inherit' });
  suitesTook.push({ title, seconds: secondsSince(start) });
  if (status === 0) totals.passed++;
  else {
    totals.failed++;
    failures.push(`${title}: ${command} ${commandArgs.join(' ')} ended with ${status}`);
  }
}

function testFiles(dir) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { recursive: true })
    .map((file) => path.join(dir, file))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => filters.length === 0 || filters.some((filter) => file.startsWith(filter)))
    .sort();
}

/** `machine`: the command, with arguments, that runs a command on it. `isBehind`: other suites run meanwhile. */
async function runSuite(name, { within = '', machine = [], isBehind = false } = {}) {
  const { dir, timeoutMs } = suites[name];
  const files = longestFirst(testFiles(dir).filter((file) => file.startsWith(within)));
  if (files.length === 0) return;
  const { concurrency, ...place } = placeFor(suites[name], { machine, isBehind });
  const start = Date.now();
  console.log(`\n# ${name}: ${files.length} files`);
  const suiteDir = path.join(outDir, name);
  rmSync(suiteDir, { recursive: true, force: true });
  await bundleForRepository(files, suiteDir, dir);
  const { passed, failed, ...result } = await runTestFiles(
    files.map((file) => ({
      source: file,
      bundle: path.join(suiteDir, path.relative(dir, file).replace(/\.ts$/, '.mjs')),
      alone: isAlone(file),
    })),
    {
      ...{ concurrency, timeoutMs, tries: sameEachTime.includes(name) ? 1 : 2, ...place, endMs },
      live: !isBehind,
    },
  );
  totals.passed += passed;
  totals.failed += failed;
  failures.push(...result.failures);
  unsteady.push(...result.unsteady);
  filesTook.push(...result.took);
  const seconds = secondsSince(start);
  suitesTook.push({ title: `${name}, ${files.length} files`, seconds });
  console.log(`\n# ${name}: ${passed} passed, ${failed} failed in ${seconds} s`);
}

/** What goes wrong with it is told when it is waited for. */
function runBehind(name) {
  const running = runSuite(name, { isBehind: true });
  running.catch(() => undefined);
  return running;
}

/** How many files run side by side, and where. */
function placeFor({ concurrency, apart }, { machine, isBehind }) {
  if (isBehind) return { concurrency, machine: ['chrt', '--idle', '0'] };
  if (!apart) return { concurrency, machine };
  const reason = whyNoMachineOfOwn();
  if (reason === undefined) return { concurrency, machine: machineOfOwn };
  console.log(`\n# one file at a time, as none can have a machine of its own: ${reason}`);
  return { concurrency: 1, machine };
}

function tellSeconds() {
  const line = (seconds, text) => console.log(`${String(seconds).padStart(5)} s ${text}`);
  console.log('\n# how long it took');
  for (const { title, seconds } of suitesTook) line(seconds, title);
  console.log('\n# the slowest files');
  filesTook.sort((a, b) => b.seconds - a.seconds);
  for (const { source, seconds } of filesTook.slice(0, slowestShown)) line(seconds, source);
}

function secondsSince(startMs) {
  return Math.round((Date.now() - startMs) / 1000);
}

/** In a run of everything: without a kube-apiserver the rest counts, and it is said aloud what was not run. */
async function runClusterIfPossible() {
  const reason = whyNoKubeApiserver() ?? (await clusterProblem());
  if (reason === undefined) await runCluster();
  else console.log(`\n# cluster: NOT RUN: ${reason}`);
}

async function clusterProblem() {
  if (!process.env.KUBEBUILDER_ASSETS && !(await trySetUp('cluster'))) return 'etcd could not be installed';
  try {
    kubeApiserverAssets();
    kubectlFolder();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The agent, and the contract of the embedded API, against a real kube-apiserver. */
async function runCluster() {
  process.env.KUBEBUILDER_ASSETS = kubeApiserverAssets();
  useKubectlOfTheseManifests();
  await runSuite('cluster');
  const dir = path.join(outDir, 'server');
  await bundleForRepository(['test/fixtures/serve-kube-apiserver.ts'], dir, 'test/fixtures');
  const server = spawn(process.execPath, [path.join(dir, 'serve-kube-apiserver.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = await Promise.race([once(server.stdout, 'data'), once(server, 'exit').then(() => [''])]);
  process.env.CONTRACT_KUBECONFIG = String(line).trim();
  if (process.env.CONTRACT_KUBECONFIG) await runSuite('contract', { within: 'test/contract/apiserver/' });
  else totals.failed++;
  server.stdin.end();
}

function useKubectlOfTheseManifests() {
  const folder = kubectlFolder();
  if (folder) process.env.PATH = `${folder}:${process.env.PATH}`;
}

/**
 * Under a real kubelet and containerd, a machine for each file; without its parts nothing is run, and that is said aloud. `kubelet` runs our programs,
 * `upstream` KubeVirt's own beside ours.
 */
async function runOnMachines(name) {
  const reason = name === 'kubelet' ? whyNoKubelet() : whyNoUpstream();
  if (reason) {
    notRun = true;
    console.log(`\n# ${name}: NOT RUN: ${reason}`);
    return;
  }
  process.env.KUBELET_PARTS = JSON.stringify(await (name === 'kubelet' ? kubeletParts() : upstreamParts()));
  useKubectlOfTheseManifests();
  for (const file of testFiles(suites[name].dir)) {
    const machine = mkdtempSync(path.join(tmpdir(), 'kubelet-machine-'));
    process.env.KUBELET_MACHINE = machine;
    await runSuite(name, { within: file, machine: ['scripts/kubelet-machine.sh', machine] });
  }
}

process.env.TEST_PROGRAMS = path.resolve(outDir, 'programs');
mkdirSync(process.env.TEST_PROGRAMS);
if (wanted.has('check')) {
  step('format and lint', 'node_modules/.bin/biome', ['check', '.']);
  step('types', 'node_modules/.bin/tsc', []);
  step('types of the web page', 'node_modules/.bin/tsc', ['-p', 'src/web/page']);
  step('types of its tests', 'node_modules/.bin/tsc', ['-p', 'test/unit/web/page']);
  step('unused files, exports and dependencies', 'node_modules/.bin/knip', ['--no-progress']);
}
/** In their order. */
const toRun = Object.keys(suites).filter(
  (name) =>
    (wanted.has(name) || (name === 'cluster' && asked.includes('all'))) && testFiles(suites[name].dir).length > 0,
);
const behind = [];
try {
  for (const name of toRun) {
    if (name === 'cluster' || onMachines.includes(name)) continue;
    if (suites[name].behind && name !== toRun.at(-1)) behind.push(runBehind(name));
    else await runSuite(name);
  }
  if (wanted.has('cluster')) await runCluster();
  else if (asked.includes('all')) await runClusterIfPossible();
  for (const name of onMachines) if (wanted.has(name)) await runOnMachines(name);
  await Promise.all(behind);
} finally {
  // Also when one in front could not be run: processes of tests do not outlive this one.
  await Promise.allSettled(behind);
}

tellSeconds();
for (const text of unsteady) console.log(`\nunsteady, passed alone: ${text}`);
for (const text of failures) console.log(`\n✖ ${text}`);
console.log(`\n${totals.passed} passed, ${totals.failed} failed`);
process.exitCode = totals.failed > 0 || (totals.passed === 0 && !notRun) ? 1 : 0;
