import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite, test } from 'node:test';
import type {
  ControllerDecision,
  ExplainDecision,
  TimelineRow,
  VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { timelineLines } from '../../../src/standalone/cli/timeline-text.ts';
import { parseCommand } from '../../../src/standalone/index.ts';
import { readSandboxTimes } from '../../../src/standalone/pod-runner/index.ts';
import { guestTimes, launcherTimes, qemuStart } from '../../../src/standalone/timeline/facts.ts';
import { type TimelineFacts, timelineRows } from '../../../src/standalone/timeline/rows.ts';

const startMs = Date.parse('2026-01-02T03:04:05.100Z');
const after = (ms: number) => new Date(startMs + ms).toISOString();

const vmi = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstance',
  metadata: { name: 'demo', namespace: 'default', uid: 'u', creationTimestamp: '2026-01-02T03:04:05Z' },
  spec: { domain: { devices: {} } },
  status: { phaseTransitionTimestamps: [{ phase: 'Running', phaseTransitionTimestamp: '2026-01-02T03:04:06Z' }] },
} satisfies VirtualMachineInstance;

const decided = (atMs: number, more: Partial<ExplainDecision>) => ({
  ...{ firstAt: after(atMs), lastAt: after(atMs), times: 1, uid: 'u', route: '', rule: 'r', why: 'w', steps: [] },
  ...{ write: { outcome: 'written' } },
  ...more,
});
const ofController = (atMs: number, more: Partial<ExplainDecision>): ControllerDecision => ({
  ...decided(atMs, more),
  seen: {},
});
const ofAgent = (atMs: number, more: Partial<ExplainDecision>): ExplainDecision => ({
  ...decided(atMs, more),
  seen: {
    vmi: { kind: 'present' },
    domain: { kind: 'gone' },
    launcher: { kind: 'ready' },
    memory: {},
  },
});

const facts: TimelineFacts = {
  vmi,
  controller: [
    ofController(0, { steps: [{ step: 'createPod', outcome: 'done', tookMs: 20 }] }),
    ofController(-5_000, { uid: 'the one before', steps: [{ step: 'createPod', outcome: 'done', tookMs: 20 }] }),
  ],
  machine: [],
  agent: [
    ofAgent(600, {
      steps: [
        { step: 'prepareHost', outcome: 'done', tookMs: 20 },
        { step: 'syncVirtualMachine', outcome: 'failed', tookMs: 400, because: 'b' },
        { step: 'adjustHost', outcome: 'not-reached' },
      ],
    }),
    ofAgent(1_030, { newPhase: 'Running' }),
    ofAgent(9_000, { steps: [{ step: 'syncVirtualMachine', outcome: 'done', tookMs: 5 }] }),
  ],
  sandbox: {
    begunMs: startMs + 50,
    preparedMs: startMs + 100,
    process1Ms: startMs + 120,
    rootMadeMs: startMs + 250,
  },
  launcher: new Map([
    ['libvirt daemon started', startMs + 350],
    ['ready', startMs + 500],
    ['domain defined', startMs + 650],
    ['domain started', startMs + 1_000],
  ]),
  qemuMs: startMs + 700,
  guest: { firstMs: startMs + 4_000, promptMs: startMs + 4_000 },
};

const told = (rows: readonly TimelineRow[]) =>
  rows.map(({ part, what, from, to }) => {
    const ms = (time: string) => Date.parse(time) - startMs;
    return `${part}: ${what}: ${from === undefined ? '' : ms(from)}-${part === 'phase' ? to : ms(to)}`;
  });

const whole = [
  'controller: createPod: 0-20',
  'scheduler: a node, until its pod runner begins: 20-50',
  'pod: volumes, network, scripts: 50-100',
  'pod: process 1 in namespaces of its own: 100-120',
  'pod: its root directory: 120-250',
  'launcher: its program, until it starts libvirt: 250-350',
  'launcher: until libvirt and its command socket answer: 350-500',
  'agent: prepareHost: 600-620',
  'agent: syncVirtualMachine (failed): 620-1020',
  'libvirt: domain defined: -650',
  'libvirt: until it starts QEMU: 650-700',
  'QEMU: until its CPUs run: 700-1000',
  'guest: until its login prompt: 1000-4000',
  'agent: sees the guest run: -1030',
  'phase: Running: -2026-01-02T03:04:06Z',
];

suite('the rows of a timeline', () => {
  test('are in the order in which they began, of this VMI alone, and end where its guest runs', () => {
    assert.deepEqual(told(timelineRows(facts)), whole);
  });

  test('are none of what is not known, and a row whose beginning is not known has its end', () => {
    const { begunMs: _, ...sandbox } = facts.sandbox ?? assert.fail();
    const less = { ...facts, controller: [], agent: [], sandbox: { ...sandbox, begunMs: undefined }, guest: {} };
    assert.deepEqual(told(timelineRows({ ...less, launcher: new Map(), qemuMs: undefined })), [
      'pod: volumes, network, scripts: -100',
      'pod: process 1 in namespaces of its own: 100-120',
      'pod: its root directory: 120-250',
      'phase: Running: -2026-01-02T03:04:06Z',
    ]);
  });

  test('begin with the last start of its machine, where it has one', () => {
    const owner = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: 'demo', uid: 'm', controller: true };
    const metadata = { ...vmi.metadata, ownerReferences: [owner] };
    const start = { uid: 'm', steps: [{ step: 'startVmi', outcome: 'done', tookMs: 10 }] } as const;
    const later = { uid: 'm', steps: [{ step: 'changeVmi', outcome: 'done', tookMs: 10 }] } as const;
    const foreign = { ...start, uid: 'the one before' };
    const machine = [ofController(-9_000, start), ofController(-30, start), ofController(-20, foreign)];
    const rows = timelineRows({ ...facts, vmi: { ...vmi, metadata }, machine: [...machine, ofController(9, later)] });
    assert.deepEqual(told(rows).slice(0, 2), ['controller: startVmi: -30--20', 'controller: createPod: 0-20']);
  });

  test('have no beginning that is later than their end', () => {
    const rows = timelineRows({ ...facts, qemuMs: startMs + 5_000 });
    assert.ok(told(rows).includes('QEMU: until its CPUs run: -1000'));
  });

  test('tell the first words of a guest apart from its prompt', () => {
    const rows = told(timelineRows({ ...facts, guest: { firstMs: startMs + 2_000, promptMs: startMs + 4_000 } }));
    assert.deepEqual(
      rows.filter((row) => row.startsWith('guest')),
      ['guest: firmware and kernel, until its first words: 1000-2000', 'guest: until its login prompt: 2000-4000'],
    );
  });
});

test('a waterfall has a bar per row, as long as it took, and each is seen', () => {
  const rows = timelineRows({ ...facts, controller: [], agent: [], launcher: new Map(), qemuMs: undefined, guest: {} });
  const report = {
    kind: 'Timeline',
    at: after(0),
    namespace: 'default',
    name: 'demo',
    uid: 'u',
    node: 'laptop',
  } as const;
  assert.deepEqual(timelineLines({ ...report, created: '2026-01-02T03:04:05Z', rows }), [
    'default/demo on node laptop, created 2026-01-02T03:04:05Z',
    '  phases   Running 2026-01-02T03:04:06Z (to the second)',
    '  in all   200 ms',
    '',
    'AFTER  TOOK    WHEN                                      PART  WHAT',
    '0 ms   50 ms   ##########..............................  pod   volumes, network, scripts',
    '50 ms  20 ms   ..........####..........................  pod   process 1 in namespaces of its own',
    '70 ms  130 ms  ..............##########################  pod   its root directory',
  ]);
  assert.deepEqual(timelineLines({ ...report, created: 'c', rows: [] }).slice(1), [
    '  nothing is known of how it started: virt-node explain demo says what it waits for',
  ]);
});

suite('what a timeline reads', () => {
  test('of a launcher’s log is when each thing was said first; lines of others are no times', () => {
    const line = (msg: unknown, timestamp: unknown) => JSON.stringify({ msg, timestamp });
    const log = [
      line('ready', after(1)),
      'QEMU: no JSON',
      line('ready', after(9)),
      line(7, after(2)),
      line('x', 'soon'),
    ];
    assert.deepEqual([...launcherTimes(log.join('\n'))], [['ready', startMs + 1]]);
  });

  test('of QEMU’s log is libvirt’s own first line', () => {
    const line = '2026-01-02 03:04:05.147+0000: starting up libvirt version: 9.0.0';
    assert.equal(qemuStart(`${line}\nLC_ALL=C \\\n`), Date.parse('2026-01-02T03:04:05.147Z'));
    assert.equal(qemuStart('2026-01-02 03:04:05.147+0000: shutting down'), undefined);
  });

  test('of a guest is by when its console had first words, and a prompt', () => {
    const log = (text: string) => ({ bytes: Buffer.from(text, 'latin1'), endMs: 4 });
    // Of two bytes in UTF-8.
    const booting = 'boot\u00e9\r\ndemo login: ';
    const times = [
      { bytes: 0, atMs: 1 },
      { bytes: 7, atMs: 2 },
      { bytes: booting.length, atMs: 3 },
    ];
    assert.deepEqual(guestTimes(log(booting), times), { firstMs: 2, promptMs: 3 });
    assert.deepEqual(guestTimes(log(booting.slice(0, -3)), times), { firstMs: 2 });
    const early = times.slice(0, 2);
    assert.deepEqual(guestTimes(log(booting), early), { firstMs: 2, promptMs: 4 }, 'what came last is not noted yet');
    const loggedIn = `${booting}root\r\nroot@demo:~# `;
    const later = [...early, { bytes: loggedIn.length, atMs: 5 }];
    assert.deepEqual(guestTimes(log(`${loggedIn}ls`), later), { firstMs: 2, promptMs: 5 }, 'somebody has logged in');
    assert.deepEqual(guestTimes(log(''), []), {});
  });

  test('of a pod is what its files tell', async (t) => {
    const dir = await mkdtemp(path.join(tmpdir(), 'pod-'));
    t.after(() => rm(dir, { recursive: true, force: true }));
    await mkdir(path.join(dir, 'sandbox'));
    for (const [name, ms] of Object.entries({ 'init.sh': 100_001, pid1: 100_002, 'root-made': 100_003 })) {
      await writeFile(path.join(dir, 'sandbox', name), '');
      await utimes(path.join(dir, 'sandbox', name), ms / 1_000, ms / 1_000);
    }
    const { begunMs, ...times } = await readSandboxTimes(dir);
    assert.equal(begunMs, (await stat(dir)).birthtimeMs || undefined);
    const rounded = Object.entries(times).map(([name, ms]) => [name, Math.round(ms ?? 0)]);
    assert.deepEqual(Object.fromEntries(rounded), { preparedMs: 100_001, process1Ms: 100_002, rootMadeMs: 100_003 });
    const none = await readSandboxTimes(path.join(dir, 'none'));
    assert.deepEqual(none, { begunMs: undefined, preparedMs: undefined, process1Ms: undefined, rootMadeMs: undefined });
  });
});

test('--timeline is of one VM of this machine; of anything else it is refused in words', () => {
  for (const name of ['demo', 'vm/demo', 'vmi/demo']) {
    const asked = parseCommand(['explain', name, '--timeline', '--state-dir', '/s']);
    assert.ok(asked.command === 'explain' && asked.timeline === true && asked.name === 'demo', name);
  }
  for (const words of [[], ['vm/'], ['node/demo'], ['vmim/demo'], ['demo', '--labels'], ['demo', '--socket', '/x']]) {
    assert.throws(() => parseCommand(['explain', ...words, '--timeline']), {
      code: 'USAGE',
      message: /one VM of this node/,
    });
  }
});
