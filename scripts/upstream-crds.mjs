// CRDs of KubeVirt and of the Prometheus operator, from their published Go modules, for `npm run test:cluster`: what a real cluster
// prunes or refuses of what the agent, or whoever installs it, writes. Nothing of them is kept in the repository.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';

const version = 'v1.9.0';
const source = 'pkg/virt-operator/resource/generate/components/validations_generated.go';

/** The published Go module, `path@version`, unpacked in Go's own cache. */
export function moduleDir(module) {
  const work = mkdtempSync(path.join(tmpdir(), 'go-module-'));
  try {
    const env = { ...process.env, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local' };
    const args = ['mod', 'download', '-json', module];
    return JSON.parse(
      execFileSync('go', args, { cwd: work, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }),
    ).Dir;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const hasGo = () => spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0;

/**
 * Upstream's validation schema of one kind (`virtualmachineinstance`), or undefined where there is no `go` to get it with.
 * @param {string} kind
 * @returns {unknown}
 */
export function upstreamSchema(kind) {
  const file = path.resolve('.cache', `kubevirt-schemas-${version}`, `${kind}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'));
  if (!hasGo()) return undefined;
  const text = readFileSync(path.join(moduleDir(`kubevirt.io/kubevirt@${version}`), source), 'utf8');
  const begin = text.indexOf(`"${kind}": \``);
  if (begin < 0) throw new Error(`${source} of ${version} has no schema of ${kind}`);
  // A Go string between back quotes; a back quote in it is written as "` + "`" + `".
  const rest = text.slice(begin + kind.length + 5);
  const body = rest.slice(0, rest.search(/`,\n\s*"|`,\n}/)).replaceAll('` + "`" + `', '`');
  const schema = parse(body).openAPIV3Schema;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(schema));
  return schema;
}

/**
 * Files of the Prometheus operator's own CRDs for what this repository has objects of, or undefined where there is no `go`.
 * @returns {string[] | undefined}
 */
export function prometheusOperatorCrds() {
  // The release whose types KubeVirt v1.9.0 is built with.
  const release = 'v0.80.1';
  const dir = path.resolve('.cache', `prometheus-operator-${release}`);
  const names = ['servicemonitors', 'prometheusrules'].map((plural) => `monitoring.coreos.com_${plural}.yaml`);
  const files = names.map((name) => path.join(dir, name));
  if (files.every((file) => existsSync(file))) return files;
  if (!hasGo()) return undefined;
  const module = moduleDir(`github.com/prometheus-operator/prometheus-operator@${release}`);
  mkdirSync(dir, { recursive: true });
  for (const name of names)
    copyFileSync(path.join(module, 'example/prometheus-operator-crd', name), path.join(dir, name));
  return files;
}
