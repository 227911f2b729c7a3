import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

/** replace.sh and restore.sh when an answer fails to come; what they do with answers is in test/cluster/deployment-replace.test.ts. */

let dir: string;
before(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'replace-scripts-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

/** `kubectl` answers as a settled installation whose KubeVirt object has flags and patches of others; `fails`: words of a call that does not. */
function run(script: 'replace' | 'restore', fails: string) {
  const written = path.join(dir, 'written');
  rmSync(written, { force: true });
  const fake = `#!/bin/bash
case "$*" in *${JSON.stringify(fails)}*) echo 'connection refused' >&2; exit 1 ;; esac
case "$*" in
  patch*) echo "$*" > ${JSON.stringify(written)} ;;
  'get kubevirts.kubevirt.io'*) echo 'kubevirt kubevirt' ;;
  *observedKubeVirtVersion*) echo v1.9.0 ;;
  *virtualmachineinstance*) ;;
  'get kubevirt '*.phase*) echo Deployed ;;
  *customizeComponents.patches*0*) echo '{"virt-handler.kubevirt.io/agent":"typescript"}' ;;
  *resourceVersion*) printf '7\\ncustomized\\nflags\\npatch 0 Deployment/virt-api "{}"\\n%s' '${script === 'restore' ? 'patch 1 DaemonSet/virt-handler "virt-handler.kubevirt.io/agent"' : ''}' ;;
  *metadata.name*) echo virt-handler ;;
esac
`;
  writeFileSync(path.join(dir, 'kubectl'), fake, { mode: 0o755 });
  const file = `daemonset/overlays/replace-upstream/${script}.sh`;
  const env = { ...process.env, PATH: `${dir}:${process.env.PATH}` };
  const { status, stderr } = spawnSync('bash', [file, '--no-wait'], { encoding: 'utf8', env, timeout: 60_000 });
  return { status, stderr, hasWritten: existsSync(written) };
}

for (const script of ['replace', 'restore'] as const) {
  test(`${script}.sh writes when all answers come`, () => {
    const { status, stderr, hasWritten } = run(script, 'no such call');
    assert.deepEqual({ status, stderr, hasWritten }, { status: 0, stderr: '', hasWritten: true });
  });

  test(`${script}.sh writes nothing over patches of others that it could not read`, () => {
    const { status, hasWritten } = run(script, 'customizeComponents');
    assert.deepEqual({ status, hasWritten }, { status: 1, hasWritten: false });
  });
}

test('replace.sh writes no empty patch when its own could not be read', () => {
  const { status, hasWritten } = run('replace', 'create --dry-run');
  assert.deepEqual({ status, hasWritten }, { status: 1, hasWritten: false });
});
