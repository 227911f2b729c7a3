// The schemas of KubeVirt's own CRDs, from its published Go module, for `npm run test:cluster`: what a real cluster prunes or
// refuses of what the agent writes. Nothing of them is kept in the repository.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';

const version = 'v1.9.0';
const source = 'pkg/virt-operator/resource/generate/components/validations_generated.go';

function moduleDir() {
  const work = mkdtempSync(path.join(tmpdir(), 'kubevirt-module-'));
  try {
    const env = { ...process.env, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local' };
    const args = ['mod', 'download', '-json', `kubevirt.io/kubevirt@${version}`];
    return JSON.parse(
      execFileSync('go', args, { cwd: work, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }),
    ).Dir;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * Upstream's validation schema of one kind (`virtualmachineinstance`), or undefined where there is no `go` to get it with.
 * @param {string} kind
 * @returns {unknown}
 */
export function upstreamSchema(kind) {
  const file = path.resolve('.cache', `kubevirt-schemas-${version}`, `${kind}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'));
  if (spawnSync('go', ['version'], { stdio: 'ignore' }).status !== 0) return undefined;
  const text = readFileSync(path.join(moduleDir(), source), 'utf8');
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
