import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { planLabels } from '../../../../../src/agent/node/labels/plan.ts';
import { defaults, factsOf, hostsDir } from './facts.ts';

const hosts: readonly [host: string, arch: string, what: string][] = [
  ['intel-cascadelake', 'amd64', 'an Intel server'],
  ['intel-nested', 'amd64', 'an Intel virtual machine with nested virtualisation'],
  ['amd-milan-snp', 'amd64', 'an AMD server with SEV, SEV-ES and SEV-SNP'],
  ['arm64-ampere', 'arm64', 'an arm64 server'],
  ['s390x-z16', 's390x', 'an IBM Z machine with Secure Execution'],
  ['real-tcg', 'amd64', 'a machine without KVM, as libvirt 9.0 told'],
  ['real-nested-kvm', 'amd64', 'a virtual machine with KVM, as libvirt 9.0 told'],
];

for (const [host, arch, what] of hosts) {
  test(`the labels of ${what} are those of its files`, () => {
    const { labels } = planLabels(factsOf(host, arch), defaults);
    const text = [...labels]
      .map(([key, value]) => `${key}=${value}\n`)
      .sort()
      .join('');
    const golden = path.join(hostsDir, host, 'labels.txt');
    if (process.env.UPDATE_GOLDEN) writeFileSync(golden, text);
    assert.equal(text, readFileSync(golden, 'utf8'));
  });
}

test('every label that is ever wished for has a key that the admission policy lets pass, and a valid name and value', () => {
  const name = /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
  for (const [host, arch] of hosts) {
    const { labels } = planLabels(factsOf(host, arch), { ...defaults, crossArchitecture: true });
    assert.ok(labels.size > 0);
    for (const [key, value] of labels) {
      const [domain = '', rest = '', ...more] = key.split('/');
      assert.match(domain, /(^|\.)kubevirt\.io$/, key);
      assert.match(rest, name, key);
      assert.match(value, name, key);
      assert.deepEqual(more, []);
    }
  }
});
