import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
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
function run(script: 'replace' | 'restore', fails: string, args: readonly string[] = ['--no-wait']) {
  const written = path.join(dir, 'written');
  const log = path.join(dir, 'calls');
  for (const file of [written, log]) rmSync(file, { force: true });
  const fake = `#!/bin/bash
echo "$*" | tr '\\n' ' ' >> ${JSON.stringify(log)}; echo >> ${JSON.stringify(log)}
[ "$1" != --context ] || shift 2
case "$*" in *${JSON.stringify(fails)}*) echo 'connection refused' >&2; exit 1 ;; esac
case "$*" in
  config*) echo 'test https://127.0.0.1:6443' ;;
  patch*) echo "$*" > ${JSON.stringify(written)} ;;
  'get kubevirts.kubevirt.io'*) echo 'kubevirt kubevirt' ;;
  *observedKubeVirtVersion*) echo v1.9.0 ;;
  *virtualmachineinstance*) ;;
  'get kubevirt '*.phase*) echo Deployed ;;
  *customizeComponents.patches*0*) echo '{"virt-handler.kubevirt.io/agent":"typescript"}' ;;
  *metadata.generation*) printf '7\\ncustomized\\nlisted\\nflags\\npatch 0 Deployment/virt-api "{}"\\n%s' '${script === 'restore' ? 'patch 1 DaemonSet/virt-handler "virt-handler.kubevirt.io/agent"' : ''}' ;;
  *metadata.name*) echo virt-handler ;;
esac
`;
  writeFileSync(path.join(dir, 'kubectl'), fake, { mode: 0o755 });
  const file = `daemonset/overlays/replace-upstream/${script}.sh`;
  const env = { ...process.env, PATH: `${dir}:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync('bash', [file, ...args], { encoding: 'utf8', env, timeout: 60_000 });
  const calls = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { status, stdout, stderr, calls, hasWritten: existsSync(written) };
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

test('restore.sh does not take a DaemonSet that it cannot read for one that is restored', () => {
  const { status, stderr } = run('restore', 'get daemonset', ['--wait-seconds', '1']);
  assert.equal(status, 1);
  assert.match(stderr, /virt-operator has not changed its DaemonSet within 1 s/);
});

test('replace.sh does not take agents that it cannot ask after for available ones', () => {
  const { status, hasWritten, stderr } = run('replace', 'numberUnavailable');
  assert.deepEqual({ status, hasWritten }, { status: 1, hasWritten: false });
  assert.match(stderr, /cannot be read/);
});

test('replace.sh does not take migrations that it cannot list for none', () => {
  const { status, hasWritten, stderr } = run('replace', 'get virtualmachineinstancemigrations.kubevirt.io');
  assert.deepEqual({ status, hasWritten }, { status: 1, hasWritten: false });
  assert.match(stderr, /cannot be read/);
});

test('replace.sh asks kubectl for the context that it is given, in every call, and says the cluster', () => {
  const { status, stdout, calls } = run('replace', 'no such call', ['--no-wait', '--context', 'other']);
  assert.equal(status, 0);
  assert.match(stdout, /^cluster: test, https:\/\/127\.0\.0\.1:6443\n/);
  assert.ok(calls.length > 5);
  assert.deepEqual(
    calls.filter((call) => !call.startsWith('--context other ')),
    [],
  );
});

test('replace.sh says what is missing where there is no kubectl', () => {
  const env = { PATH: path.join(dir, 'nothing'), HOME: dir };
  mkdirSync(env.PATH, { recursive: true });
  for (const tool of ['bash', 'dirname', 'basename', 'sed', 'wc', 'tr'])
    symlinkSync(realpathSync(`/usr/bin/${tool}`), path.join(env.PATH, tool));
  const { status, stderr } = spawnSync('bash', ['daemonset/overlays/replace-upstream/replace.sh'], {
    encoding: 'utf8',
    env,
  });
  assert.equal(status, 1);
  assert.match(stderr, /kubectl is missing/);
});

test('replace.sh writes no empty patch when its own could not be read', () => {
  const { status, hasWritten } = run('replace', 'create --dry-run');
  assert.deepEqual({ status, hasWritten }, { status: 1, hasWritten: false });
});
