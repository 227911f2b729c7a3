// Finds or builds a real kube-apiserver and etcd for `npm run test:cluster`; prints the folder that holds both.
// KUBEBUILDER_ASSETS wins; else kube-apiserver is built once from its Go module into .cache and etcd is the distribution's.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const version = 'v1.34.4';
/** The first whose kustomize reads these manifests. */
const oldestKubectlMinor = 27;

function which(program) {
  const { status, stdout } = spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

const goEnv = { ...process.env, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local', CGO_ENABLED: '0' };

function run(command, args, cwd) {
  return execFileSync(command, args, { cwd, env: goEnv, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

/** `go build` names each package that it has compiled: one line per hundred, and whatever is no package, is shown. */
function goBuild(target, cwd, what) {
  const counted =
    '/^[^ #]+$/ { if (++n % 100 == 0) { print "  " n " packages compiled"; fflush() }; next } { print; fflush() }';
  const script = `set -o pipefail; go build -v -o "$1" "$2" 2>&1 | awk '${counted}' >&2`;
  execFileSync('bash', ['-c', script, 'bash', target, what], {
    cwd,
    env: goEnv,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
}

/**
 * Builds a package of Kubernetes, or the program in `sources`, with Kubernetes' own versions of everything. The published module
 * refers to its staging folders, which are modules of their own: each is replaced by the published version of the same release
 * (v1.34.4 → v0.34.4).
 */
export function buildFromGoModule(target, what, sources = []) {
  const work = mkdtempSync(path.join(tmpdir(), 'kubernetes-'));
  try {
    const { GoMod } = JSON.parse(run('go', ['mod', 'download', '-json', `k8s.io/kubernetes@${version}`], work));
    const source = readFileSync(GoMod, 'utf8').replace(/^module .*/m, 'module build');
    writeFileSync(path.join(work, 'go.mod'), source);
    const staging = version.replace('v1', 'v0');
    const repos = [...source.matchAll(/^\s*(k8s\.io\/[a-z-]+) => \.\/staging/gm)].map(([, repo]) => repo);
    const replaced = repos.map((repo) => `-replace=${repo}=${repo}@${staging}`);
    run('go', ['mod', 'edit', `-require=k8s.io/kubernetes@${version}`, ...replaced], work);
    for (const file of sources) copyFileSync(file, path.join(work, path.basename(file)));
    goBuild(target, work, what);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Builds a program of a module that has no staging folders, with that module's own versions of everything. */
export function buildGoProgram(target, { module, version, folder }) {
  const work = mkdtempSync(path.join(tmpdir(), 'go-program-'));
  try {
    const { GoMod } = JSON.parse(run('go', ['mod', 'download', '-json', `${module}@${version}`], work));
    writeFileSync(path.join(work, 'go.mod'), readFileSync(GoMod, 'utf8').replace(/^module .*/m, 'module build'));
    run('go', ['mod', 'edit', `-require=${module}@${version}`], work);
    goBuild(target, work, `${module}/${folder}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * The kubelet's own device plugin code as a program that a test can lead, built once; undefined where there is no `go`.
 * A minute after a kube-apiserver was built, some more before that.
 */
export function kubeletPluginsProgram() {
  const source = path.resolve('test/fixtures/kubelet-plugins/main.go');
  const digest = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12);
  const target = path.resolve('.cache', `kubelet-plugins-${version}-${digest}`);
  if (existsSync(target)) return target;
  if (!which('go')) return undefined;
  mkdirSync(path.dirname(target), { recursive: true });
  buildFromGoModule(`${target}.new`, '.', [source]);
  renameSync(`${target}.new`, target);
  return target;
}

/** Why there can be none here, in words; undefined when KUBEBUILDER_ASSETS, an earlier build or `go` can give one. */
export function whyNoKubeApiserver() {
  if (process.env.KUBEBUILDER_ASSETS || which('go')) return undefined;
  if (existsSync(path.resolve('.cache', `kube-apiserver-${version}`, 'kube-apiserver'))) return undefined;
  return 'neither KUBEBUILDER_ASSETS is set nor `go` is on PATH to build kube-apiserver with';
}

export function kubeApiserverAssets(log = console.error) {
  const given = process.env.KUBEBUILDER_ASSETS;
  if (given) return given;
  const dir = path.resolve('.cache', `kube-apiserver-${version}`);
  const target = path.join(dir, 'kube-apiserver');
  const etcd = which('etcd');
  if (!etcd) throw new Error('etcd is missing: install the package etcd-server or set KUBEBUILDER_ASSETS');
  if (!existsSync(target)) {
    if (!which('go'))
      throw new Error('no kube-apiserver: put `go` on PATH (it is built once) or set KUBEBUILDER_ASSETS');
    mkdirSync(dir, { recursive: true });
    log(`building kube-apiserver ${version} from its Go module; four to ten minutes, once`);
    buildFromGoModule(`${target}.new`, 'k8s.io/kubernetes/cmd/kube-apiserver');
    copyFileSync(`${target}.new`, target);
    rmSync(`${target}.new`);
  }
  if (!existsSync(path.join(dir, 'etcd'))) symlinkSync(etcd, path.join(dir, 'etcd'));
  return dir;
}

const kubectlMinor = /"minor":\s*"(\d+)/;

/**
 * A folder to put before PATH, with a kubectl that knows this tree's manifests; undefined when the machine's own does. That of Debian 12 is of
 * 2021 and knows neither `components` nor `patches` of kustomizations. Built once, with the sources of the kube-apiserver.
 */
export function kubectlFolder(log = console.error) {
  const { status, stdout } = spawnSync('kubectl', ['version', '--client', '-o', 'json'], { encoding: 'utf8' });
  const minor = Number(kubectlMinor.exec(status === 0 ? stdout : '')?.[1] ?? 0);
  if (minor >= oldestKubectlMinor) return undefined;
  const dir = path.resolve('.cache', `kubectl-${version}`);
  const target = path.join(dir, 'kubectl');
  if (existsSync(target)) return dir;
  if (!which('go'))
    throw new Error(`kubectl is older than 1.${oldestKubectlMinor}: put a newer one, or \`go\`, on PATH`);
  mkdirSync(dir, { recursive: true });
  log(`building kubectl ${version} from its Go module: the machine's is 1.${minor}, too old for these manifests; once`);
  buildFromGoModule(`${target}.new`, 'k8s.io/kubernetes/cmd/kubectl');
  renameSync(`${target}.new`, target);
  return dir;
}
