import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { MountNamespace } from '../../fixtures/mount-namespace.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'another user and mounts need root';
const trace = /^\s+at |\.js:\d+|node:internal/m;

describe('virt-node says why it fails, without a trace', () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'failures-'));
  const stateDir = path.join(dir, 'state');
  let program: string;
  let built: string;

  before(async () => {
    mkdirSync('.build', { recursive: true });
    // Below the repository, so that native packages are found.
    built = mkdtempSync(path.resolve('.build', 'failures-'));
    program = path.join(built, 'virt-node.mjs');
    await bundleProgram('virt-node', program);
    mkdirSync(stateDir, { mode: 0o700 });
    for (const made of [dir, built]) chmodSync(made, 0o755);
  });
  after(() => {
    for (const made of [dir, built]) rmSync(made, { recursive: true, force: true });
  });

  interface Ends {
    readonly prefix?: readonly string[];
    /** What becomes of standard output. */
    readonly stdout?: 'closed' | 'read' | number;
    readonly stderr?: 'closed';
  }

  async function run(args: readonly string[], { prefix = [], stdout = 'read', stderr }: Ends = {}) {
    const [file = '', ...rest] = [...prefix, process.execPath, program, ...args];
    const child = spawn(file, rest, {
      stdio: ['ignore', typeof stdout === 'number' ? stdout : 'pipe', 'pipe'],
      cwd: '/',
    });
    const said = { out: '', err: '' };
    if (stdout === 'closed') child.stdout?.destroy();
    if (stderr === 'closed') child.stderr?.destroy();
    child.stdout?.on('data', (chunk) => {
      said.out += chunk;
    });
    child.stderr?.on('data', (chunk) => {
      said.err += chunk;
    });
    const [code] = await once(child, 'close');
    return { code, ...said };
  }

  for (const command of ['--help', 'version', 'completion', 'help explain', `status --state-dir ${stateDir}`]) {
    test(`${command}: nobody reads the output`, async () => {
      const { code, err } = await run(command.split(' '), { stdout: 'closed' });
      assert.deepEqual([code, err], [141, '']);
    });
  }

  test('a wrong command, and nobody reads what is right', async () => {
    const { code, out } = await run(['explaim'], { stderr: 'closed' });
    assert.deepEqual([code, out], [2, '']);
  });

  test('the output is a file on a full disk', async () => {
    const full = openSync('/dev/full', 'w');
    const { code, err } = await run(['--help'], { stdout: full });
    closeSync(full);
    assert.equal(code, 1);
    assert.match(err, /^virt-node: the output could not be written: ENOSPC: no space left on device.*\n$/);
  });

  for (const place of ['/dev/null', '/dev/null/below']) {
    test(`${place} is no state directory`, async () => {
      const { code, out, err } = await run(['status', '--state-dir', place]);
      assert.deepEqual([code, out], [5, '']);
      assert.equal(err, `virt-node: ${place} is a file, or below one: choose another directory with --state-dir\n`);
    });
  }

  describe('on the state directory of another user', { skip: needsRoot }, () => {
    const asNobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
    const commands = [
      ['status'],
      ['console', 'demo'],
      ['pause', 'demo'],
      ['explain', 'vm/'],
      ['image', 'list'],
      ['image', 'add', 'a/b', '/x'],
    ];
    for (const command of [...commands, ['stop'], ['start']]) {
      test(`${command.join(' ')}: sudo`, async () => {
        const { code, out, err } = await run([...command, '--state-dir', stateDir], { prefix: asNobody });
        assert.deepEqual([code, out], [5, '']);
        assert.match(err, /^virt-node: .* is for (?:its owner \(root\)|root) only: use sudo\n$/);
      });
    }
  });

  describe('on a disk that takes nothing', { skip: needsRoot }, () => {
    let machine: MountNamespace;
    const full = path.join(dir, 'full');
    const readOnly = path.join(dir, 'read-only');

    before(async () => {
      for (const made of [full, readOnly]) mkdirSync(made, { mode: 0o700 });
      machine = await MountNamespace.start(
        `mount -t tmpfs -o size=4k,mode=700 tmpfs ${full}; echo ballast >${full}/ballast; mount -t tmpfs -o ro,mode=700 tmpfs ${readOnly}`,
      );
    });
    after(() => machine.stop());

    for (const [where, reason] of [
      [
        full,
        /(ENOSPC: no space left on device.*: the disk is full: free some space there|and 0 are free in .*: free some space)\n$/,
      ],
      [readOnly, /EROFS: read-only file system.*: its file system is mounted read-only: .* --state-dir\n$/],
    ] as const) {
      for (const command of [['start'], ['apiserver'], ['image', 'add', 'a/b', process.execPath]]) {
        test(`${command.join(' ')} on ${path.basename(where)}`, async () => {
          const prefix = ['nsenter', `--mount=/proc/${machine.pid}/ns/mnt`];
          const { code, err } = await run([...command, '--state-dir', where], { prefix });
          assert.equal(code, 1, err);
          assert.match(err, /^virt-node: /);
          assert.match(err, reason);
          assert.doesNotMatch(err, trace);
        });
      }
    }
  });
});
