import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import {
  ensureSshKey,
  NodeError,
  nodePaths,
  parseCommand,
  readSshPublicKey,
  scpFilesOf,
  serverAdvice,
  sshAdvice,
  sshKeyFile,
  sshOptions,
  waitingText,
} from '../../../src/standalone/index.ts';

const vm = { namespace: 'n', name: 'vm' };

test('who waits for a VM that may never run is told where the reason is', () => {
  const text = (phase: string) => waitingText(vm, { status: { phase } } as VirtualMachineInstance);
  assert.equal(text('Running'), 'waiting for the SSH server of n/vm');
  assert.match(text('Pending'), /n\/vm, which is Pending: virt-node explain vm -n n says what it waits for$/);
});

test('of a guest that nobody finds at its address it is not asked whether it has a server', () => {
  const advice = (said: string) =>
    serverAdvice(new NodeError('GUEST_PORT', `port 22 of the guest (10.1.0.2) does not answer: ${said}`), { port: 22 });
  assert.match(advice('connect EHOSTUNREACH 10.1.0.2:22'), /still boot, or has it not taken its address/);
  assert.match(advice('no answer in 10 s'), /still boot, or has it not taken its address/);
  assert.match(advice('connect ECONNREFUSED 10.1.0.2:22'), /is an SSH server installed .*port 22\?/);
});

describe('virt-node ssh and scp on the command line', () => {
  test('what follows -- is the guest’s, flags and all', () => {
    const parsed = parseCommand(['ssh', 'me@vm', '-n', 'n', '--', 'ls', '--', '-l', '--state-dir']);
    assert.deepEqual(parsed.command === 'ssh' && [parsed.user, parsed.name, parsed.namespace, parsed.remote], [
      'me',
      'vm',
      'n',
      ['ls', '--', '-l', '--state-dir'],
    ]);
    assert.equal(parsed.command === 'ssh' && parsed.port, 22);
    const plain = parseCommand(['ssh', 'vm', '-i', '/k', '-l', 'debian']);
    assert.deepEqual(plain.command === 'ssh' && [plain.user, plain.identity, plain.remote], ['debian', '/k', []]);
  });

  test('files of a copy are of the guest, or local', () => {
    const parsed = parseCommand(['scp', '-r', './a:b', 'me@vm:/tmp/x y']);
    assert.deepEqual(parsed.command === 'scp' && [parsed.user, parsed.name, parsed.recursive, parsed.files], [
      'me',
      'vm',
      true,
      [
        { inGuest: false, file: './a:b' },
        { inGuest: true, file: '/tmp/x y' },
      ],
    ]);
    assert.deepEqual(scpFilesOf('vm:', '.').files, [
      { inGuest: true, file: '' },
      { inGuest: false, file: '.' },
    ]);
  });

  for (const [argv, message] of [
    [['scp', 'a', 'b'], /one of SOURCE and TARGET is of a VM/],
    [['scp', 'vm:a', 'vm:b'], /one of SOURCE and TARGET is of a VM/],
    [['scp', 'vm:a', 'b', 'c'], /takes no further word "c"/],
    [['scp', 'vm:a'], /virt-node scp needs 2 words behind it/],
    [['scp', '@vm:a', 'b'], /neither NAME nor USER@NAME/],
    [['ssh', 'me@'], /neither NAME nor USER@NAME/],
    [['ssh', 'vm', 'ls'], /takes no further word "ls"/],
    [['ssh', 'vm', '--port', 'x'], /--port: "x" is no number/],
    [['ssh'], /virt-node ssh needs a name behind it/],
  ] as const) {
    test(`virt-node ${argv.join(' ')} is refused`, () => {
      assert.throws(() => parseCommand(argv), { code: 'USAGE', message });
    });
  }
});

test('OpenSSH reads a state directory with blanks, quotes and percent signs as it is written', async (t) => {
  const parent = await mkdtemp(path.join(tmpdir(), 'virt-key-'));
  t.after(() => rm(parent, { recursive: true, force: true }));
  const dir = path.join(parent, `it's a "%h"`);
  await mkdir(dir);
  const [proxy, identity, heard] = ['proxy', 'id', 'heard'].map((name) => path.join(dir, name)) as [
    string,
    string,
    string,
  ];
  await writeFile(proxy, '#!/bin/sh\nprintf "%s\\n" "$@" >"$(dirname "$0")/heard"\n', { mode: 0o700 });
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', identity]);
  const words = ['ssh-proxy', 'vm', '--state-dir', dir];
  const options = sshOptions({ proxy: [proxy, ...words], identity, knownHosts: path.join(dir, 'known'), wish: vm });
  const ran = spawnSync('ssh', ['-F', '/dev/null', ...options, '-o', 'LogLevel=DEBUG1', '--', 'vm'], {
    encoding: 'utf8',
  });
  const said =
    ran.stderr + execFileSync('ssh', ['-G', '-F', '/dev/null', ...options, '--', 'vm'], { encoding: 'utf8' });
  assert.equal(await readFile(heard, 'utf8'), words.map((word) => `${word}\n`).join(''), said);
  assert.ok(said.includes(`identityfile ${identity.replaceAll('%', '%%')}\n`), said);
  assert.match(said, /hostkeyalias vm\.n\n/);
  assert.match(said, /stricthostkeychecking accept-new\n/);
});

test('a server that says nothing is not waited for without end, and it is said what to do', async (t) => {
  const dir = await mkdtemp(path.join(tmpdir(), 'virt-silent-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const [proxy, identity] = [path.join(dir, 'proxy'), path.join(dir, 'id')];
  await writeFile(proxy, '#!/bin/sh\nwhile read -r heard; do :; done\n', { mode: 0o700 });
  const options = sshOptions({ proxy: [proxy], identity, knownHosts: path.join(dir, 'known'), wish: vm });
  const bound = options.find((option) => option.startsWith('ConnectTimeout='));
  assert.equal(bound, 'ConnectTimeout=30');
  const shorter = options.map((option) => (option === bound ? 'ConnectTimeout=1' : option));
  const { status, stderr } = spawnSync('ssh', ['-F', '/dev/null', ...shorter, '--', 'vm'], { encoding: 'utf8' });
  assert.equal(status, 255);
  const wish = { ...vm, user: 'root', identity: undefined, port: 22 };
  assert.match(sshAdvice(nodePaths('/s'), wish, stderr) ?? stderr, /said nothing.*virt-node console vm -n n/);
});

test('what OpenSSH says becomes what to do', () => {
  const paths = nodePaths('/s');
  const wish = { ...vm, user: 'root', identity: undefined, port: 22 };
  const denied = 'root@vm: Permission denied (publickey).';
  assert.match(sshAdvice(paths, wish, denied) ?? '', /node's key for the user root.*virt-node-ssh-key.*--identity/);
  assert.match(sshAdvice(paths, { ...wish, identity: '/k' }, denied) ?? '', /does not take \/k for the user root/);
  const changed = 'WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!';
  assert.match(sshAdvice(paths, wish, changed) ?? '', /another host key.*\/s\/ssh\/known-hosts\/n_vm_\*/);
  assert.equal(sshAdvice(paths, wish, 'ls: no such file'), undefined);
});

test('the node’s key pair is made once, for its user alone', async () => {
  const dir = await mkdtemp(path.join(tmpdir(), 'virt-key-'));
  const paths = { ...nodePaths(dir), sshDir: dir };
  try {
    assert.equal(await readSshPublicKey(paths), undefined);
    const [first, second] = [await ensureSshKey(paths, 'one'), await ensureSshKey(paths, 'two')];
    assert.match(first ?? '', /^ssh-ed25519 \S+ one$/);
    assert.equal(second, first);
    assert.equal((await stat(sshKeyFile(paths))).mode & 0o777, 0o600);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
