import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';

/** install.sh and what it waits for; what it makes is in test/cluster/deployment-install.test.ts. `kubectl` is one that notes its calls. */

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'install-script-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** `daemonSets`: `namespace name` of each in the folder. `fails`: the first word of a call that does not succeed. */
function install(daemonSets: readonly string[], fails = 'nothing') {
  const log = path.join(dir, 'calls');
  const fake = `#!/bin/bash
echo "$*" | tr '\\n' ' ' >> ${JSON.stringify(log)}; echo >> ${JSON.stringify(log)}
case "$*" in
  config*) echo 'test https://127.0.0.1:6443' ;;
  'create --dry-run'* | 'get --ignore-not-found'*) echo something ;;
  *'eq .kind "DaemonSet"'*) printf '${daemonSets.map((one) => `${one}\\n`).join('')}' ;;
esac
[ "$1" != ${fails} ]
`;
  writeFileSync(path.join(dir, 'kubectl'), fake, { mode: 0o755 });
  const env = { ...process.env, PATH: `${dir}:${process.env.PATH}` };
  const { status, stderr } = spawnSync('bash', ['daemonset/install.sh'], { encoding: 'utf8', env, timeout: 60_000 });
  const calls = readFileSync(log, 'utf8').trim().split('\n');
  const callsOf = (verb: string) => calls.filter((call) => call.startsWith(verb)).map((call) => call.trim());
  return { status, stderr, waits: callsOf('rollout'), writes: [...callsOf('create -f'), ...callsOf('apply')] };
}

test('the agents of the folder are waited for, of an overlay with several each', () => {
  const { status, stderr, waits } = install(['kubevirt virt-handler', 'other virt-handler-arm']);
  assert.equal(status, 0, stderr);
  assert.deepEqual(waits, [
    'rollout status -n kubevirt daemonset/virt-handler --timeout=300s',
    'rollout status -n other daemonset/virt-handler-arm --timeout=300s',
  ]);
});

test('a folder without agents, policies for example, is applied and not waited for', () => {
  const { status, stderr, waits } = install([]);
  assert.deepEqual({ status, stderr, waits }, { status: 0, stderr: '', waits: [] });
});

test('agents that do not become ready are a failure that says where to look', () => {
  const { status, stderr } = install(['kubevirt virt-handler'], 'rollout');
  assert.equal(status, 1);
  assert.match(stderr, /troubleshooting\.md/);
});

test('where kubectl cannot read the folder, being too old, nothing is made', () => {
  const { status, stderr, writes } = install([], 'kustomize');
  assert.deepEqual({ status, writes }, { status: 1, writes: [] });
  assert.match(stderr, /cannot read .*1\.20 or older/);
});
