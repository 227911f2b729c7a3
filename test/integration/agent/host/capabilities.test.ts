import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import { bundleAsProgram } from '../../../../scripts/bundle.mjs';
import { eventually } from '../../../fixtures/eventually.ts';

/** What each capability of the overlay least-privilege is for, with real users, files and processes: without it, this is refused. */

const overlay = parse(readFileSync('daemonset/overlays/least-privilege/daemonset.yaml', 'utf8'));
const capabilities: string[] = overlay.spec.template.spec.containers[0].securityContext.capabilities.add;
const qemu = 107;
const needs: Readonly<Record<string, readonly string[]>> = {
  CHOWN: ['give away EPERM'],
  DAC_OVERRIDE: ['give away EACCES', 'change the mode EACCES', 'connect EACCES'],
  FOWNER: ['change the mode EPERM'],
  SYS_PTRACE: ['look into a launcher EACCES'],
};

const skip = process.getuid?.() !== 0 && 'capabilities are given and taken as root';
let dir: string;
let launcher: ChildProcess;
let server: Server;

const inTenants = (name: string) => path.join(dir, 'tenant', name);

before(async () => {
  if (skip) return;
  dir = mkdtempSync(path.join(os.tmpdir(), 'capabilities-'));
  chmodSync(dir, 0o755);
  await bundleAsProgram('test/fixtures/rights-probe.ts', path.join(dir, 'probe.mjs'));
  mkdirSync(path.join(dir, 'tenant'));
  for (const name of ['give', 'change']) writeFileSync(inTenants(name), '');
  chownSync(inTenants('change'), qemu, qemu);
  server = createServer((socket) => socket.resume());
  await new Promise<void>((resolve) => server.listen(inTenants('socket'), resolve));
  chmodSync(inTenants('socket'), 0o600);
  for (const name of ['socket', '']) chownSync(inTenants(name), qemu, qemu);
  chmodSync(inTenants(''), 0o700);
  launcher = spawn('setpriv', ['--reuid', `${qemu}`, '--regid', `${qemu}`, '--clear-groups', 'sleep', '300']);
  await eventually(() => assert.match(readFileSync(`/proc/${launcher.pid}/cmdline`, 'utf8'), /^sleep/));
});
after(() => {
  launcher?.kill('SIGKILL');
  server?.close();
  if (dir) rmSync(dir, { recursive: true, force: true });
});

/** What is refused to root with these capabilities only. */
function refusedWith(kept: readonly string[]): string[] {
  chownSync(inTenants('give'), 0, 0);
  const set = ['-all', ...kept.map((name) => `+${name.toLowerCase()}`)].join();
  const files = ['give', 'change', 'socket'].map(inTenants);
  const probe = [process.execPath, path.join(dir, 'probe.mjs'), `${launcher.pid}`, ...files];
  return JSON.parse(
    execFileSync('setpriv', ['--bounding-set', set, '--inh-caps', '-all', ...probe], { encoding: 'utf8' }),
  );
}

suite('of the capabilities of the overlay least-privilege', { skip }, () => {
  test('all together are enough', () => assert.deepEqual(refusedWith(capabilities), []));

  test('each has a use that is tried here', () => assert.deepEqual(Object.keys(needs), capabilities));

  for (const name of capabilities) {
    test(`without ${name} the agent's work is refused`, () =>
      assert.deepEqual(refusedWith(capabilities.filter((each) => each !== name)), needs[name]));
  }
});
