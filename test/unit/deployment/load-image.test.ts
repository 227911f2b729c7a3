import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';

/** image/load.sh registry: what is pushed where, and the name that is printed for the manifests. buildah is one that notes its calls. */

let dir: string;
let calls: string;

before(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'load-image-'));
  calls = path.join(dir, 'calls');
  for (const folder of ['image', 'bin', '.build/image']) mkdirSync(path.join(dir, folder), { recursive: true });
  copyFileSync('image/load.sh', path.join(dir, 'image/load.sh'));
  const buildah = `#!/bin/bash
echo "\${!#}" >> ${JSON.stringify(calls)}
while [ $# -gt 0 ]; do [ "$1" != --digestfile ] || printf sha256:abc > "$2"; shift; done
`;
  writeFileSync(path.join(dir, 'bin/buildah'), buildah, { mode: 0o755 });
});
after(() => rmSync(dir, { recursive: true, force: true }));

function archive(index: string): void {
  writeFileSync(path.join(dir, 'index.json'), index);
  execFileSync('tar', ['-cf', path.join(dir, '.build/image/virt-handler.tar'), '-C', dir, 'index.json']);
}

function load(...args: string[]) {
  rmSync(calls, { force: true });
  archive('{"annotations":{"org.opencontainers.image.ref.name":"localhost/virt-handler:0.1.0"}}');
  const env = { ...process.env, PATH: `${path.join(dir, 'bin')}:${process.env.PATH}` };
  const run = spawnSync('bash', [path.join(dir, 'image/load.sh'), ...args], { encoding: 'utf8', env });
  const pushed = existsSync(calls) ? readFileSync(calls, 'utf8').trim() : '';
  return { status: run.status, name: run.stdout.trim(), pushed, stderr: run.stderr };
}

suite('load.sh registry', () => {
  const targets: readonly [target: string, pushed: string, name: string][] = [
    ['registry.example:5000/virt-handler', ':0.1.0', 'registry.example:5000/virt-handler'],
    ['registry.example:5000/virt-handler:nightly', '', 'registry.example:5000/virt-handler'],
    ['registry.example/team/virt-handler', ':0.1.0', 'registry.example/team/virt-handler'],
    ['registry.example/team/virt-handler:1', '', 'registry.example/team/virt-handler'],
  ];
  for (const [target, tag, repository] of targets) {
    test(`pushes ${target}${tag} and prints it by its digest`, () => {
      const { status, name, pushed, stderr } = load('registry', target);
      assert.equal(status, 0, stderr);
      assert.deepEqual([pushed, name], [`docker://${target}${tag}`, `${repository}@sha256:abc`]);
    });
  }

  for (const target of ['', 'virt-handler', 'registry.example/a@sha256:abc', 'registry.example/', 'r:5/v:']) {
    test(`pushes nothing for the name ${JSON.stringify(target)}`, () => {
      const { status, pushed, stderr } = load('registry', target);
      assert.deepEqual({ status, pushed }, { status: 1, pushed: '' });
      assert.match(stderr, /give the name to push to/);
    });
  }
});
