import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Duplex, PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import {
  accountFiles,
  attachConsole,
  consoleGreeting,
  findKvmSupport,
  formatIdentity,
  identifyProcess,
  isAlive,
  lockNode,
  nodePaths,
  parseCommand,
  parseIdentity,
  runningSupervisor,
  shellQuote,
} from '../../../src/standalone/index.ts';

describe('process identity', () => {
  test('is read back as written; torn or foreign text is none', async () => {
    const self = await identifyProcess(process.pid);
    assert.ok(self);
    assert.deepEqual(parseIdentity(formatIdentity(self)), self);
    assert.equal(await isAlive(self), true);
    for (const text of ['', '1', '1 2', 'x 2 3', '0 1 00000000-0000-0000-0000-000000000000', '-1 2 3', '1 2 3 4']) {
      assert.equal(parseIdentity(text), undefined, text);
    }
  });

  test('another start time, another boot or no process is not alive', async () => {
    const self = await identifyProcess(process.pid);
    assert.ok(self);
    assert.equal(await isAlive({ ...self, startTicks: '1' }), false);
    assert.equal(await isAlive({ ...self, bootId: '00000000-0000-0000-0000-000000000000' }), false);
    assert.equal(await isAlive({ ...self, pid: 4_194_305 }), false);
  });
});

describe('accounts of a pod', () => {
  test('qemu is 107:107 whatever the host has, and may use /dev/kvm', () => {
    const { passwd, group } = accountFiles(
      'root:x:0:0::/root:/bin/sh\nqemu:x:5:5::/:/x\nother:x:107:1::/:/x\n',
      'root:x:0:\nkvm:x:104:\nkvm2:x:9:\nother:x:107:a\n',
    );
    assert.equal(passwd, 'root:x:0:0::/root:/bin/sh\nqemu:x:107:107:qemu:/:/usr/sbin/nologin\n');
    assert.equal(group, 'root:x:0:\nkvm:x:104:qemu\nkvm2:x:9:\nqemu:x:107:\n');
    assert.match(accountFiles('', 'kvm:x:104:alice\n').group, /^kvm:x:104:alice,qemu$/m);
  });
});

test('a word for the shell stays one word', () => {
  assert.equal(shellQuote(`it's $HOME`), `'it'\\''s $HOME'`);
});

/** Commands and flags that are offered where a line ends. */
function completions(...words: string[]): readonly string[] {
  const parsed = parseCommand(['--get-yargs-completions', 'virt-node', ...words]);
  assert.equal(parsed.command, 'complete');
  return parsed.command === 'complete' ? parsed.words : [];
}

describe('command line', () => {
  test('flags have their defaults, in both spellings', () => {
    const vm = { stateDir: '/s', name: 'vm', namespace: 'n' };
    const command = { command: 'console', access: 'take-if-free', ...vm };
    assert.deepEqual(parseCommand(['console', 'vm', '-n', 'n', '--state-dir=/s']), command);
    assert.deepEqual(parseCommand(['console', '--state-dir', '/s', 'vm', '--namespace', 'n']), command);
    const up = parseCommand(['up', '--once']);
    assert.equal(up.command === 'up' && up.once, true);
    assert.deepEqual(parseCommand(['console', 'vm', '--view', '-n', 'n', '--state-dir=/s']), {
      ...command,
      access: 'view',
    });
    const screen = { command: 'vnc', ...vm, access: 'take', port: 5900 };
    assert.deepEqual(parseCommand(['vnc', 'vm', '--take', '--port', '5900', '-n=n', '--state-dir=/s']), screen);
    assert.equal(parseCommand([]).command, 'print');
    assert.equal(parseCommand(['--version']).command, 'version');
    const help = parseCommand(['console', '--help']);
    assert.match(help.command === 'print' ? help.text : '', /--take +take it over/);
    assert.deepEqual(parseCommand(['completion', 'fish']), { command: 'completion', shell: 'fish' });
    assert.deepEqual(completions('image', ''), ['add', 'list', 'info', 'rm']);
  });

  for (const line of ['console v', 'stop --keep-vms=', 'explain vm']) {
    test(`completion of virt-node ${line} offers no line of the help`, () => {
      assert.doesNotMatch(completions(...line.split(' ')).join('\n'), / /);
    });
  }

  test('completion goes on after a value that is wrong', () => {
    const words = completions('start', '--api-port', 'x', '--');
    assert.ok(words.includes('--web-port'), words.join());
    assert.doesNotMatch(words.join('\n'), / /);
  });

  test('help of a command is asked for in two ways', () => {
    assert.deepEqual(parseCommand(['help', 'stop']), parseCommand(['stop', '--help']));
    assert.deepEqual(parseCommand(['help']), parseCommand(['--help']));
    assert.deepEqual(parseCommand(['help', 'image', 'add']), parseCommand(['image', 'add', '--help']));
  });

  for (const word of ['true', 'false']) {
    test(`${word} after a flag that is on or off is a name`, () => {
      const reboot = parseCommand(['reboot', '--force', word]);
      assert.deepEqual(reboot.command === 'act' && [reboot.name, reboot.action], [word, 'reset']);
      const explain = parseCommand(['explain', '--labels', word]);
      assert.deepEqual(explain.command === 'explain' && [explain.name, explain.labels], [word, true]);
      const off = parseCommand(['reboot', '--force=false', 'vm']);
      assert.equal(off.command === 'act' && off.action, 'softreboot');
    });
  }

  for (const [argv, action] of [
    [['pause', 'vm'], 'pause'],
    [['unpause', 'vm'], 'unpause'],
    [['reboot', 'vm'], 'softreboot'],
    [['reboot', 'vm', '--force'], 'reset'],
    [['reset', 'vm'], 'reset'],
  ] as const) {
    test(`virt-node ${argv.join(' ')} is ${action}`, () => {
      const parsed = parseCommand([...argv]);
      assert.equal(parsed.command === 'act' && parsed.action, action);
    });
  }
  const wrong: readonly [readonly string[], RegExp][] = [
    [['dance'], /"dance" is no command of virt-node \(see virt-node --help\)$/],
    [['image'], /image: add, list, info or rm/],
    [['constructor'], /"constructor" is no command of virt-node/],
    [['console'], /virt-node console needs a name behind it.*see virt-node console --help/],
    [['console', 'a', 'b'], /takes no further word "b".*see virt-node console --help/],
    [['--versoin'], /--versoin is no flag of virt-node: did you mean --version\?/],
    [['--version', '--state-dir', '/x'], /^--state-dir is no flag of virt-node/],
    [['up', '--twice'], /--twice is no flag of virt-node up/],
    [['start', '--api-port', 'x'], /--api-port: "x" is no number/],
    [['start', '--api-port'], /Not enough arguments following: api-port/],
    [['stop', '--keep-vms=maybe'], /neither true nor false/],
    [['console', 'vm', '--view', '--take'], /--view and --take: choose one/],
    [['screenshot'], /virt-node screenshot needs a name/],
    [['pause', 'a', 'b'], /virt-node pause takes no further word "b"/],
    [['stop', '--no-keep-vms'], /--no-keep-vms is no flag of virt-node stop: did you mean --keep-vms\?/],
    [['image', 'add', 'a'], /virt-node image add needs 2 words behind it, and has 1/],
    [['start', '--host-disk-dirs', '/a,b'], /"b" is no absolute path/],
    [['explain', '--__proto__', 'x'], /"?_+proto_+"? .*see virt-node explain --help/],
    [['stop', '--', '--keep-vms'], /no command takes words after it/],
    [['reset', 'a', '--name', 'b'], /--name is no flag of virt-node reset/],
    [['reset', 'a', '--name=b'], /--name is no flag of virt-node reset/],
    [['image', 'add', 'a', 'b', '--source', 'c'], /--source is no flag of virt-node image add/],
    [['status', '--_', 'x'], /--_ is no flag of virt-node status/],
    [['status', '--$0=x'], /--\$0 is no flag of virt-node status/],
    [['status', '--state-dir', ''], /--state-dir: no directory is given/],
    [['stop', '--state-dir='], /--state-dir: no directory is given/],
    [['explain', '--socket', ''], /--socket: no socket is given/],
    [['statsu'], /"statsu" is no command of virt-node: did you mean status\? \(see virt-node --help\)$/],
    [['statsu', '--state-dir', '/s'], /"statsu" is no command of virt-node: did you mean status\?/],
    [['--state-dir', '/s', 'statsu'], /"statsu" is no command of virt-node: did you mean status\?/],
    [['--state-dir', '/s', 'stop', '--keep'], /--keep is no flag of virt-node stop: did you mean --keep-vms\?/],
    [['image', 'ad', 'x', 'y'], /"ad" is no command of virt-node image: did you mean add\?/],
    [['why', '--labls'], /--labls is no flag of virt-node why: did you mean --labels\?/],
    [['help', 'statsu'], /"statsu" is no command of virt-node: did you mean status\?/],
    [['up', '--onec'], /--onec is no flag of virt-node up: did you mean --once\?/],
    [['list', '--ouput=json'], /--ouput is no flag of virt-node list: did you mean --output\?/],
    [['list', '-o', 'xml'], /--output: "xml" is none of "table", "wide", "json", "yaml", "name" \(see/],
    [
      ['completion', 'tcsh'],
      /shell: "tcsh" is none of "bash", "zsh", "fish": did you mean zsh\?|shell: "tcsh" is none of "bash", "zsh", "fish" \(see/,
    ],
    [['kubeconfig', '--revoke'], /--revoke: --user says whose right ends/],
    [['kubeconfig', '--read-only'], /--read-only is of an ordinary user: --user says which/],
    [['kubeconfig', '--user', 'a', '--revoke', '-n', 'x'], /--revoke and --namespace: choose one/],
    [['kubeconfig', '--user', 'a', '--duration', '0d'], /--duration: "0d" is no time such as 90m, 12h or 30d/],
    [['kubeconfig', '--user', 'a', '--duration', '-1h'], /--duration/],
    [['kubeconfig', '--user'], /Not enough arguments following: user/],
  ];
  for (const [argv, message] of wrong) {
    test(`virt-node ${argv.join(' ')} is refused with the right usage`, () => {
      assert.throws(() => parseCommand(argv), { code: 'USAGE', message });
    });
  }
});

describe('console session', () => {
  function session() {
    const sent: string[] = [];
    const serial = Object.assign(
      new Duplex({
        read: () => undefined,
        write: (chunk: Buffer, _encoding, done) => {
          sent.push(chunk.toString());
          done();
        },
      }),
      { takeOver: () => void sent.push('(take)') },
    );
    const input = Object.assign(new PassThrough(), { isTTY: true, raw: [] as boolean[] });
    const setRawMode = (on: boolean) => input.raw.push(on);
    const reported: string[] = [];
    const report = (line: string) => void reported.push(line);
    const ends = { input: Object.assign(input, { setRawMode }), output: new PassThrough(), report };
    return { serial, sent, reported, input, ends };
  }

  test('Ctrl-] leaves, and what follows it is not sent; the terminal gets its mode back', async () => {
    const { serial, sent, input, ends } = session();
    const ended = attachConsole(serial, ends, { viewOnly: false }, new AbortController().signal);
    input.write('ls\r');
    input.write('secret\x1dafter');
    assert.equal(await ended, 'left');
    assert.deepEqual(sent, ['ls\r', 'secret']);
    assert.deepEqual(input.raw, [true, false]);
  });

  test('a console that the VM closes ends the session', async () => {
    const { serial, input, ends } = session();
    const ended = attachConsole(serial, ends, { viewOnly: false }, new AbortController().signal);
    serial.emit('close');
    assert.equal(await ended, 'closed');
    assert.deepEqual(input.raw, [true, false]);
  });

  test('who is taken over at a terminal looks on, types nothing, and takes it back with Ctrl-T', async () => {
    const { serial, sent, reported, input, ends } = session();
    const ended = attachConsole(serial, ends, { viewOnly: false }, new AbortController().signal);
    input.write('a\x14');
    serial.emit('role', 'viewer', 'taken over by another session');
    input.write('lost');
    input.write('\x14');
    serial.emit('role', 'writer', '');
    input.write('b\x1d');
    assert.equal(await ended, 'left');
    assert.deepEqual(sent, ['a\x14', '(take)', 'b']);
    assert.match(reported.join('\n'), /taken over by another session.*Ctrl-T.*Ctrl-\][\s\S]*you type again/);
  });

  test('piped input has nobody to decide: taken over, it ends with the reason', async () => {
    const { serial, input, ends } = session();
    input.isTTY = false;
    const ended = attachConsole(serial, ends, { viewOnly: false }, new AbortController().signal);
    serial.emit('role', 'viewer', 'taken over by another session');
    await assert.rejects(ended, { code: 'NO_CONSOLE', message: /taken over by another session/ });
    assert.deepEqual(input.raw, []);
  });

  test('who looks on sends nothing, and the end of the input does not end it', async () => {
    const { serial, sent, input, ends } = session();
    input.isTTY = false;
    const leave = new AbortController();
    const ended = attachConsole(serial, ends, { viewOnly: true }, leave.signal);
    input.end('typed');
    await once(input, 'end');
    assert.deepEqual(sent, []);
    leave.abort();
    assert.equal(await ended, 'left');
  });

  test('who looks on without a terminal is told what ends it', () => {
    const look = (isTerminal: boolean) => consoleGreeting({ namespace: 'n', name: 'vm', viewOnly: true, isTerminal });
    assert.equal(look(true), 'looking on: n/vm; Ctrl-] leaves');
    assert.equal(look(false), 'looking on: n/vm, until it ends, Ctrl-C, or nobody reads the output any more');
    const typing = consoleGreeting({ namespace: 'n', name: 'vm', viewOnly: false, isTerminal: true });
    assert.equal(typing, 'connected: n/vm, press Enter for a prompt; Ctrl-] leaves');
  });

  for (const viewOnly of [true, false]) {
    test(`an output that nobody reads any more ends it, as \`| head -1\` does${viewOnly ? ', for who looks on, too' : ''}`, async () => {
      const { serial, input, ends } = session();
      input.isTTY = false;
      const broken = () => ends.output.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
      const ended = attachConsole(serial, ends, { viewOnly }, new AbortController().signal);
      broken();
      assert.equal(await ended, 'left');
      // What was on its way fails after it.
      broken();
    });
  }

  test('an output that cannot be written is an error', async () => {
    const { serial, ends } = session();
    const ended = attachConsole(serial, ends, { viewOnly: true }, new AbortController().signal);
    ends.output.emit('error', Object.assign(new Error('no space left'), { code: 'ENOSPC' }));
    await assert.rejects(ended, { code: 'ENOSPC' });
  });
});

describe('files of the node', () => {
  async function withPaths(work: (paths: ReturnType<typeof nodePaths>) => Promise<void>) {
    const dir = await mkdtemp(path.join(tmpdir(), 'virt-node-unit-'));
    try {
      await work(nodePaths(dir));
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }

  test('one supervisor holds a state directory; the lock of a dead one, or a torn one, does not count', () =>
    withPaths(async (paths) => {
      const release = await lockNode(paths, process.pid);
      await assert.rejects(lockNode(paths, process.ppid), { code: 'ALREADY_RUNNING' });
      await release();
      assert.equal(await runningSupervisor(paths), undefined);
      await lockNode(paths, process.pid);
      await writeFile(path.join(paths.runDir, 'virt-node.pid'), `${process.pid} 1 00000000-`);
      await lockNode(paths, process.ppid);
    }));

  test('"KVM hangs" is remembered until the machine changes, "works" is asked again', () =>
    withPaths(async (paths) => {
      let probes = 0;
      const probe = (usable: boolean) => async () => {
        probes++;
        return { usable, reason: 'r', tookMs: 1 };
      };
      assert.equal((await findKvmSupport(paths, probe(true))).kvm, 'works');
      assert.equal((await findKvmSupport(paths, probe(true))).kvm, 'works');
      assert.equal(probes, 2);
      assert.deepEqual(await findKvmSupport(paths, probe(false)), { kvm: 'fails', reason: 'r' });
      assert.equal((await findKvmSupport(paths, probe(false))).kvm, 'fails');
    }));
});
