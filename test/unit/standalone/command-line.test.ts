import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { VirtualMachine, VirtualMachineInstance } from '../../../src/api/index.ts';
import { KubeError } from '../../../src/kube/index.ts';
import { printed } from '../../../src/standalone/cli/answer-format.ts';
import { completionScript, dynamicWords, wantedAt } from '../../../src/standalone/cli/completion.ts';
import { missingText } from '../../../src/standalone/cli/find-vmi.ts';
import { joined, shownVms } from '../../../src/standalone/cli/list.ts';
import { painted, plain } from '../../../src/standalone/cli/style.ts';
import { nearest } from '../../../src/standalone/cli/suggest.ts';
import {
  exitCodeOf,
  NodeError,
  type NodeStatus,
  nodePaths,
  Progress,
  paintFor,
  parseCommand,
  statusLines,
  versionText,
} from '../../../src/standalone/index.ts';

describe('what was probably meant', () => {
  const known = ['status', 'start', 'stop', 'list', 'migrate', 'migrate-cancel', 'kubeconfig'];
  for (const [written, meant] of [
    ['statsu', 'status'],
    ['sotp', 'stop'],
    ['lst', 'list'],
    ['STATUS', 'status'],
    ['kubeconf', 'kubeconfig'],
    ['migrate-cancle', 'migrate-cancel'],
    ['dance', undefined],
    ['', undefined],
    ['x'.repeat(10_000), undefined],
  ] as const) {
    test(`${written.slice(0, 20)}: ${meant ?? 'nothing'}`, () => assert.equal(nearest(written, known), meant));
  }
});

describe('a VM that is not found', () => {
  const vm = (namespace: string, name: string) => ({ metadata: { namespace, name } }) as VirtualMachine;
  const all = [vm('default', 'debian'), vm('other', 'fedora')];
  const text = (name: string, namespace = 'default') => missingText({ namespace, name }, all, []);

  test('has the name of another one, is elsewhere, or does not run', () => {
    assert.match(text('debain'), /no VM debain in namespace default: did you mean debian\?/);
    assert.match(text('fedora'), /in namespace default, but in other: -n other/);
    assert.match(text('debian'), /default\/debian does not run: virt-node explain debian says why/);
    assert.match(text('fedora', 'other'), /virt-node explain fedora -n other/);
    assert.match(text('qqqqqqq'), /virt-node list -A shows all/);
  });
});

test('exit codes tell what went wrong', () => {
  const codes = [
    exitCodeOf(new NodeError('USAGE', '')),
    exitCodeOf(new NodeError('NOT_RUNNING', '')),
    exitCodeOf(new NodeError('NOT_FOUND', '')),
    exitCodeOf(new NodeError('NO_PERMISSION', '')),
    exitCodeOf(new NodeError('NO_CONSOLE', '')),
    exitCodeOf(new NodeError('TIMEOUT', '')),
    exitCodeOf(new KubeError('UNREACHABLE', '')),
    exitCodeOf(new NodeError('CHILD_FAILED', '')),
    exitCodeOf(new Error('')),
  ];
  assert.deepEqual(codes, [2, 3, 4, 5, 6, 7, 3, 1, 1]);
});

describe('colours', () => {
  const terminal = { isTTY: true };
  const hasColour = (...args: Parameters<typeof paintFor>) => paintFor(...args)('x', 'bad') !== 'x';

  test('are on a terminal only, and not where they are not wanted', () => {
    assert.equal(hasColour(terminal, {}, []), true);
    assert.equal(hasColour({}, {}, []), false);
    assert.equal(hasColour({ isTTY: false }, { FORCE_COLOR: '1' }, []), false);
    assert.equal(hasColour(terminal, { NO_COLOR: '1' }, []), false);
    assert.equal(hasColour(terminal, { NO_COLOR: '' }, []), true);
    assert.equal(hasColour(terminal, { TERM: 'dumb' }, []), false);
    assert.equal(hasColour(terminal, {}, ['list', '--no-color']), false);
    assert.equal(hasColour(terminal, {}, ['--no-color=true', 'list']), false);
    assert.equal(hasColour(terminal, {}, ['--no-color=false', 'list']), true);
  });

  test('are of words about states, and change no width', () => {
    const marked = (text: string) => painted((word, tone) => `<${tone} ${word}>`, text);
    assert.equal(marked('Running  '), '<good Running  >');
    assert.equal(marked('ErrorUnschedulable'), '<bad ErrorUnschedulable>');
    assert.equal(marked('not running'), '<bad not running>');
    assert.equal(marked('Scheduling'), '<waiting Scheduling>');
    assert.equal(marked('demo'), 'demo');
  });

  test('--no-color may stand at every command', () => {
    for (const argv of [
      ['list', '--no-color'],
      ['--no-color', 'list'],
      ['status', '--no-color'],
    ]) {
      assert.ok(['list', 'status'].includes(parseCommand(argv).command));
    }
  });
});

describe('progress', () => {
  const clear = '\r\x1b[K';

  function on(isLive: boolean) {
    let text = '';
    let nowMs = 0;
    const write = (more: string) => {
      text += more;
    };
    const deps = { write, isLive, columns: () => 40, paint: plain, nowMs: () => nowMs };
    return { progress: new Progress(deps), text: () => text, pass: (ms: number) => (nowMs += ms) };
  }

  test('elsewhere than on a terminal is whole lines, and nothing that is written over', () => {
    const { progress, text } = on(false);
    progress.busy('the node starts');
    progress.step('Running: 1 MiB sent');
    progress.line('done');
    progress.busy(undefined);
    progress.busyWith('download', 0.5);
    progress.busy(undefined);
    assert.equal(text(), 'Running: 1 MiB sent\ndone\n');
  });

  test('says how much is done, where that is known, and for how long it has gone on over all steps', () => {
    const { progress, text, pass } = on(true);
    progress.busyWith('download', 0.429);
    pass(3_000);
    progress.busyWith('checksum');
    progress.busy(undefined);
    const shown = text().replaceAll(clear, '<clear>');
    assert.match(shown, /<clear>. download 42 % \(0 s\)<clear>. checksum \(3 s\)<clear>$/);
  });

  test('on a terminal is one line below the others, which is gone at the end', () => {
    const { progress, text, pass } = on(true);
    progress.busy('the node starts');
    pass(3_000);
    progress.line('Kubernetes API');
    progress.step('x'.repeat(200));
    progress.busy(undefined);
    assert.match(text(), /the node starts \(0 s\)/);
    assert.match(text().replaceAll(clear, '<clear>'), /<clear>Kubernetes API\n<clear>. the node starts \(3 s\)/);
    assert.ok(text().endsWith(clear));
    assert.ok(
      Math.max(
        ...text()
          .split(/[\r\n]/)
          .map((line) => line.replaceAll('\x1b[K', '').length),
      ) < 40,
    );
  });
});

describe('list', () => {
  const vm = (name: string, status: VirtualMachine['status'] = {}) =>
    ({
      kind: 'VirtualMachine',
      metadata: { namespace: 'a', name, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: { runStrategy: 'Always', template: { spec: { domain: {} } } },
      status,
    }) as VirtualMachine;
  const vmi = (name: string) =>
    ({
      metadata: { namespace: 'a', name, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: { domain: { cpu: { cores: 2, sockets: 2 }, memory: { guest: '1Gi' } } },
      status: {
        phase: 'Running',
        nodeName: 'one',
        interfaces: [{ ipAddress: '10.0.0.2' }],
        conditions: [{ type: 'Ready', status: 'True' }],
      },
    }) as unknown as VirtualMachineInstance;
  const now = new Date('2026-01-01T01:00:00Z');
  const failure = { type: 'Failure', status: 'True', reason: 'FailedCreate', message: 'no\u001b[2J room' } as const;
  const listed = joined(
    [vm('up', { printableStatus: 'Running' }), vm('down', { printableStatus: 'Stopped', conditions: [failure] })],
    [vmi('up'), vmi('alone')],
  );
  const shown = shownVms(listed, undefined, now);

  test('is a table for people, by name', () => {
    assert.deepEqual(printed('table', shown).split('\n'), [
      'NAMESPACE  NAME   STATUS   READY  NODE  ADDRESS   AGE',
      'a          alone  Running  True   one   10.0.0.2  60 min',
      'a          down   Stopped  -      -     -         60 min',
      'a          up     Running  True   one   10.0.0.2  60 min',
    ]);
  });

  test('wide says more, and no message moves the cursor', () => {
    const wide = printed('wide', shown);
    assert.match(wide, /^a +up .* Always +4 +1Gi +- +-$/m);
    assert.match(wide, /FailedCreate: no\ufffd\[2J room$/m);
    assert.ok(!wide.includes('\u001b'));
  });

  test('wide says why one is on no node yet', () => {
    for (const type of ['PodScheduled', 'DataVolumesReady', 'Synchronized']) {
      const waits = { type, status: 'False', reason: 'Waits', message: 'for room' } as const;
      const unplaced = { ...vmi('up'), status: { phase: 'Scheduling' as const, conditions: [waits] } };
      const wide = printed('wide', shownVms(joined([vm('up')], [unplaced]), undefined, now));
      assert.match(wide, /Waits: for room$/m);
    }
  });

  test('name, json and yaml are for programs', () => {
    const names = ['virtualmachineinstance.kubevirt.io/alone', 'virtualmachine.kubevirt.io/down'];
    assert.deepEqual(printed('name', shown).split('\n'), [...names, 'virtualmachine.kubevirt.io/up']);
    const document = JSON.parse(printed('json', shown));
    assert.deepEqual(
      document.items.map(({ kind, metadata }: { kind: string; metadata: { name: string } }) => [kind, metadata.name]),
      [
        ['VirtualMachineInstance', 'alone'],
        ['VirtualMachine', 'down'],
        ['VirtualMachine', 'up'],
      ],
    );
    assert.deepEqual(parse(printed('yaml', shown)), document);
  });

  test('without VMs it says so, and a program gets an empty list', () => {
    const none = shownVms([], 'a', now);
    assert.match(printed('table', none), /no virtual machines in the namespace a \(all: virt-node list -A\)/);
    assert.equal(printed('name', none), '');
    assert.deepEqual(JSON.parse(printed('json', none)).items, []);
  });
});

test('the status is lines for people; of a node that does not run it is short', () => {
  const status: NodeStatus = {
    kind: 'NodeStatus',
    running: true,
    pid: 7,
    programs: [
      { name: 'apiserver', running: true, pid: 8 },
      { name: 'virt-controller', running: false },
    ],
    stateDir: '/s',
    logDir: '/s/log',
    kubeconfig: '/s/k',
    page: 'http://vms.localhost:1/',
    objects: {
      problems: ['lost \u001b[2J'],
      nodes: [{ name: 'one', address: '127.0.0.1', takesVms: false, cordoned: true }],
      vmis: [{ namespace: 'a', name: 'v', phase: 'Running', node: 'one' }],
    },
  };
  assert.deepEqual(statusLines(status), [
    'virt-node        running (pid 7)',
    'apiserver        running (pid 8)',
    'virt-controller  not running',
    'state            /s',
    'logs             /s/log',
    'KUBECONFIG       /s/k',
    'web page         http://vms.localhost:1/ (`virt-node url` prints it with its token)',
    'PROBLEM          lost \ufffd[2J',
    'node             one 127.0.0.1 cordoned, takes no VMs',
    'VMI              a/v Running',
  ]);
  const { objects: _, ...away } = status;
  assert.equal(statusLines(away).at(-1), 'the Kubernetes API does not answer');
  assert.equal(statusLines({ ...status, running: false }).length, 6);
});

describe('completion', () => {
  for (const [line, wanted] of [
    ['console ', { kind: 'vms', namespace: 'default' }],
    ['console -n team ', { kind: 'vms', namespace: 'team' }],
    ['console --namespace=team de', { kind: 'vms', namespace: 'team' }],
    ['console --namespace = team de', { kind: 'vms', namespace: 'team' }],
    ['console --view de', { kind: 'vms', namespace: 'default' }],
    ['explain ', { kind: 'vms', namespace: 'default' }],
    ['scp -r de', { kind: 'nothing' }],
    ['console --help de', { kind: 'vms', namespace: 'default' }],
    ['kubeconfig --revoke --user ', { kind: 'users' }],
    ['kubeconfig --read-only ', { kind: 'nothing' }],
    ['list -A ', { kind: 'nothing' }],
    ['stop --keep-vms ', { kind: 'nothing' }],
    ['reboot --force de', { kind: 'vms', namespace: 'default' }],
    ['console demo ', { kind: 'nothing' }],
    ['console --', { kind: 'nothing' }],
    ['status ', { kind: 'nothing' }],
    ['', { kind: 'nothing' }],
    ['console -n ', { kind: 'namespaces' }],
    ['console --namespace=t', { kind: 'namespaces' }],
    ['migrate demo --to ', { kind: 'nodes' }],
    ['kubeconfig --user ', { kind: 'users' }],
    ['screenshot demo -o ', { kind: 'files' }],
    ['start --state-dir /v', { kind: 'files' }],
  ] as const) {
    test(`behind virt-node ${line}| come ${wanted.kind}`, () => assert.deepEqual(wantedAt(line.split(' ')), wanted));
  }

  test('behind a flag that takes a value no command is offered', () => {
    const parsed = parseCommand(['--get-yargs-completions', 'virt-node', 'console', '-n', '']);
    assert.deepEqual(parsed.command === 'complete' && parsed.words, []);
  });

  test('a node that does not run adds nothing, and no error', async () => {
    const paths = nodePaths('/nowhere/at/all');
    for (const kind of ['nodes', 'namespaces', 'users', 'files', 'nothing'] as const) {
      assert.deepEqual(await dynamicWords(paths, { kind }), []);
    }
    assert.deepEqual(await dynamicWords(paths, { kind: 'vms', namespace: 'default' }), []);
  });

  test('the script of bash asks this program for the words so far, and offers those that fit', async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "it's a dir "));
    try {
      const program = path.join(dir, 'program');
      await writeFile(program, `#!/bin/sh\nprintf '%s\\n' "$@" > "${dir}/asked"\nprintf 'demo\\ndebian\\nother\\n'\n`, {
        mode: 0o755,
      });
      const words = 'COMP_WORDS=(virt-node console -n "a b" de); COMP_CWORD=4; _virt_node';
      const script = `${completionScript('bash', [program])}\n${words}; printf '%s|' "\${COMPREPLY[@]}"`;
      const said = execFileSync('bash', ['-c', script], { encoding: 'utf8' });
      assert.equal(said, 'demo|debian|');
      const asked = await readFile(path.join(dir, 'asked'), 'utf8');
      assert.deepEqual(asked.trim().split('\n'), [
        '--get-yargs-completions',
        'virt-node',
        'console',
        '-n',
        'a b',
        'de',
      ]);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});

describe('version', () => {
  test('names commit, Node.js and KubeVirt; without a build it says that the commit is unknown', async () => {
    const dir = await mkdtemp(path.join(tmpdir(), 'version-'));
    try {
      await writeFile(path.join(dir, 'package.json'), '{"version":"1.2.3"}');
      assert.equal(
        await versionText(dir, 'v20.19.0'),
        'virt-node 1.2.3 (commit unknown, Node.js v20.19.0, KubeVirt v1.9.0 API)',
      );
      await mkdir(path.join(dir, 'dist'));
      await writeFile(path.join(dir, 'dist/commit'), '0123456789ab-changed\n');
      assert.match(await versionText(dir, 'v20.19.0'), /commit 0123456789ab-changed,/);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});
