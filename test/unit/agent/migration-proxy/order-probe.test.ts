import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { OrderProbe } from '../../../../src/agent/migration-proxy/haproxy-process.ts';

const version = 'HAProxy version 2.6.12 2023/12/10 - https://haproxy.org/';
const withLua = `${version}\nBuilt with Lua version : Lua 5.3.6`;

/** A program that says this of itself, and counts how often it was asked. */
function aProgram(t: { after: (work: () => void) => void }) {
  const dir = mkdtempSync(path.join(tmpdir(), 'probe-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const [program, asked] = [path.join(dir, 'haproxy'), path.join(dir, 'asked')];
  const become = (does: string) => {
    writeFileSync(`${program}.new`, `#!/bin/sh\necho >> ${asked}\n${does}\n`);
    chmodSync(`${program}.new`, 0o755);
    renameSync(`${program}.new`, program);
  };
  writeFileSync(asked, '');
  return { program, become, asked: () => readFileSync(asked, 'utf8').length };
}

test('what keeps the order is asked once, and again when it is another file', async (t) => {
  const { program, become, asked } = aProgram(t);
  const probe = new OrderProbe();
  become(`echo '${withLua}'`);
  for (let each = 0; each < 3; each++) assert.equal(await probe.objection(program), undefined);
  assert.equal(asked(), 1);
  become(`echo '${version}'`);
  assert.match((await probe.objection(program)) ?? '', /older than 2\.6 or built without Lua/);
});

test('what fails in a busy moment is said, and asked again', async (t) => {
  const { program, become, asked } = aProgram(t);
  const probe = new OrderProbe();
  become(`[ $(wc -l < "$(dirname "$0")/asked") -gt 1 ] || exit 1; echo '${withLua}'`);
  assert.match((await probe.objection(program)) ?? '', /does not say what it can: .*haproxy/);
  assert.equal(await probe.objection(program), undefined);
  assert.equal(asked(), 2);
});

test('a signal ends the question with its reason', async (t) => {
  const { program, become } = aProgram(t);
  become('exec sleep 60');
  const beganMs = performance.now();
  const signal = AbortSignal.timeout(100);
  await assert.rejects(new OrderProbe().objection(program, signal), { name: 'TimeoutError' });
  assert.ok(performance.now() - beganMs < 4_000);
});
