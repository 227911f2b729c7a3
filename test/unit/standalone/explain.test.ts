import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import {
  type ExplainDecision,
  type ExplainList,
  type ExplainReport,
  explainApiVersion,
} from '../../../src/api/index.ts';
import { askExplain, memberPaths, nodePaths, parseCommand } from '../../../src/standalone/index.ts';

const at = '2026-01-02T03:10:00.000Z';

function decision(rule: string, why: string, more: Partial<ExplainDecision> = {}): ExplainDecision {
  return {
    firstAt: '2026-01-02T03:00:00.000Z',
    lastAt: '2026-01-02T03:00:00.000Z',
    times: 1,
    uid: 'uid-1',
    route: 'default',
    rule,
    why,
    seen: {
      vmi: { kind: 'present', phase: 'Scheduled', resourceVersion: '10' },
      domain: { kind: 'gone', proof: 'launcher-says-none', ageMs: 2 },
      launcher: { kind: 'ready', connected: true },
      memory: {},
    },
    steps: [],
    write: { outcome: 'unchanged' },
    ...more,
  };
}

const report: ExplainReport = {
  apiVersion: explainApiVersion,
  kind: 'Why',
  node: 'laptop',
  at,
  namespace: 'default',
  name: 'demo',
  problem: 'no such disk\u001b[2J: look at the log of its launcher pod',
  nextTry: { state: 'waiting', inMs: 51_400, because: 'back-off after a failure: no such disk', failuresInARow: 12 },
  quarantine: { since: '2026-01-02T03:04:00.000Z', failures: 12, where: 'syncVirtualMachine', problem: 'no such disk' },
  decisions: [
    decision('launcher-not-probed', 'Its launcher was not asked yet.', {
      steps: [{ step: 'ensureLauncherConnection', outcome: 'done', tookMs: 12.3 }],
    }),
    decision('start-due', 'The guest is to run and does not run yet, so its launcher is told to start it.', {
      lastAt: '2026-01-02T03:09:52.000Z',
      times: 12,
      steps: [
        { step: 'prepareHost', outcome: 'done', tookMs: 0.4 },
        { step: 'syncVirtualMachine', outcome: 'failed', tookMs: 1_530, because: 'REFUSED: no such disk' },
        { step: 'adjustHost', outcome: 'not-reached' },
      ],
      events: ['SyncFailed', 'Quarantined'],
      write: { outcome: 'written' },
      problem: 'no such disk\u001b[2J: look at the log of its launcher pod',
    }),
  ],
};

const story = `default/demo on node laptop
  is       Scheduled; guest gone (launcher-says-none), heard of 2 ms before; launcher ready
  because  The guest is to run and does not run yet, so its launcher is told to start it.
           rule start-due, decided 12 times, first 10 min ago, last 8 s ago
  next     in 51 s: back-off after a failure: no such disk; 12 failures in a row
  problem  no such disk\ufffd[2J: look at the log of its launcher pod
  quarantine since 6 min ago: syncVirtualMachine failed 12 times in a row; it is tried at long intervals, and at once when the VMI or its guest changes

AGO     TIMES  RULE                 PHASE      GUEST  LAUNCHER  DID
10 min  1      launcher-not-probed  Scheduled  gone   ready     ensureLauncherConnection 12 ms
8 s     12     start-due            Scheduled  gone   ready     prepareHost <1 ms, syncVirtualMachine failed 1 s, (adjustHost), wrote status, event SyncFailed, event Quarantined
        syncVirtualMachine failed: REFUSED: no such disk`;

const list: ExplainList = {
  apiVersion: explainApiVersion,
  kind: 'WhyList',
  node: 'laptop',
  at,
  items: [
    {
      namespace: 'default',
      name: 'demo',
      uid: 'uid-1',
      phase: 'Scheduled',
      domain: 'gone',
      rule: 'start-due',
      why: 'w',
      since: '2026-01-02T03:00:00.000Z',
      problem: 'no such disk',
      nextTry: { state: 'waiting', inMs: 51_400, because: 'b', failuresInARow: 12 },
      quarantined: true,
    },
    {
      namespace: 'default',
      name: 'old',
      uid: 'uid-0',
      goneAt: '2026-01-02T02:10:00.000Z',
      phase: '',
      domain: 'absent',
      rule: 'finished-nothing-left',
      why: 'w',
      since: '2026-01-02T02:10:00.000Z',
      nextTry: { state: 'idle', because: 'b', failuresInARow: 0 },
      quarantined: false,
    },
    {
      namespace: 'default',
      name: 'went',
      uid: '',
      goneAt: '2026-01-02T02:10:00.000Z',
      moved: { node: 'tower', at: '2026-01-02T02:09:58Z', migration: 'm1' },
      phase: '',
      domain: 'absent',
      rule: 'moved-nothing-left',
      why: 'w',
      since: '2026-01-02T02:10:00.000Z',
      nextTry: { state: 'idle', because: 'b', failuresInARow: 0 },
      quarantined: false,
    },
  ],
};

const overview = `NAMESPACE  NAME  PHASE                GUEST   RULE                   SINCE       NEXT                  PROBLEM
default    demo  Scheduled            gone    start-due              10 min ago  in 51 s (quarantine)  no such disk
default    old   gone 60 min ago      absent  finished-nothing-left  60 min ago  on change             -
default    went  on tower 60 min ago  absent  moved-nothing-left     60 min ago  on change             -`;

interface Given {
  readonly httpStatus?: number;
  readonly body: string;
}

/** An agent that gives this answer to every question. */
async function answering(t: { after(fn: () => Promise<void>): void }, { httpStatus = 200, body }: Given) {
  const dir = await mkdtemp(path.join(tmpdir(), 'why-'));
  const socket = path.join(dir, 's');
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(httpStatus).end(body);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.after(async () => {
    await new Promise((resolve) => server.close(resolve));
    await rm(dir, { recursive: true });
  });
  return { socket, asked };
}

test('a VM has a story: what is, why, what is awaited and how it came about; no message moves the cursor', async (t) => {
  const { socket, asked } = await answering(t, { body: JSON.stringify(report) });
  const text = await askExplain({ socket, namespace: 'default', name: 'demo', output: 'text' });
  assert.equal(text, story);
  assert.deepEqual(asked, ['/why/default/demo']);
});

test('a VM that moved away has the node that it went to, when, and by which migration', async (t) => {
  const moved = { node: 'tower', at: '2026-01-02T03:09:58Z', migration: 'm1' };
  const { seen } = decision('', '');
  const gone = decision('moved-nothing-left', 'It has moved.', { seen: { ...seen, vmi: { kind: 'moved', moved } } });
  const { problem: _problem, quarantine: _quarantine, ...calm } = report;
  const body = JSON.stringify({ ...calm, goneAt: '2026-01-02T03:09:59.000Z', decisions: [gone] });
  const { socket } = await answering(t, { body });
  const text = await askExplain({ socket, namespace: 'default', name: 'demo', output: 'text' });
  const [head, is] = text.split('\n');
  assert.equal(head, 'default/demo on node laptop, moved away 1 s ago');
  assert.match(is ?? '', /^ {2}is {7}VMI moved to node tower at 2026-01-02T03:09:58Z by migration m1; guest gone/);
});

test('each hook of a step has a line of its own below the decision: what it gave, how long it took, or why not', async (t) => {
  const parts = [
    { step: 'host-disk-images', outcome: 'done', tookMs: 3.2, gave: 'data of 1024 bytes' },
    { step: 'checkpoint', outcome: 'failed', tookMs: 0, because: 'CHECKPOINT_NOT_SAVED: no space\u001b[2J' },
    { step: 'network', outcome: 'waits', tookMs: 1, because: 'no link yet' },
  ] as const;
  const steps = [{ step: 'prepareHost', outcome: 'waits', tookMs: 5, because: 'no link yet', parts }] as const;
  const body = JSON.stringify({ ...report, decisions: [decision('start-due', 'It is to run.', { steps })] });
  const { socket } = await answering(t, { body });
  const text = await askExplain({ socket, namespace: 'default', name: 'demo', output: 'text' });
  assert.deepEqual(text.split('\n').slice(-5), [
    '10 min  1      start-due  Scheduled  gone   ready     prepareHost waits 5 ms',
    '        prepareHost waits: no link yet',
    '        prepareHost:host-disk-images done 3 ms: data of 1024 bytes',
    '        prepareHost:checkpoint failed <1 ms: CHECKPOINT_NOT_SAVED: no space\ufffd[2J',
    '        prepareHost:network waits 1 ms: no link yet',
  ]);
});

test('without a name all VMs are listed, those that are gone among them', async (t) => {
  const { socket, asked } = await answering(t, { body: JSON.stringify(list) });
  assert.equal(await askExplain({ socket, namespace: 'default', output: 'text' }), overview);
  assert.deepEqual(asked, ['/why']);
});

test('-o json gives what the agent said', async (t) => {
  const { socket } = await answering(t, { body: JSON.stringify(report) });
  assert.deepEqual(JSON.parse(await askExplain({ socket, namespace: 'x', name: 'demo', output: 'json' })), report);
});

test('-o json of several nodes tells which of them did not answer, too', async (t) => {
  const stateDir = await mkdtemp(path.join(tmpdir(), 'why-'));
  const first = nodePaths(stateDir);
  for (const paths of [first, memberPaths(first, 2)]) {
    await mkdir(path.dirname(paths.agentAddress), { recursive: true });
    await mkdir(path.dirname(paths.agentSocket), { recursive: true });
    await writeFile(paths.agentAddress, JSON.stringify({ host: '127.0.0.1', port: 1 }));
  }
  const server = createServer((_request, response) => response.end(JSON.stringify(report)));
  await new Promise<void>((resolve) => server.listen(first.agentSocket, resolve));
  t.after(async () => {
    await new Promise((resolve) => server.close(resolve));
    await rm(stateDir, { recursive: true });
  });
  const question = { socket: first.agentSocket, stateDir, namespace: 'default', name: 'demo', output: 'json' } as const;
  const [answer, away, ...more] = JSON.parse(await askExplain(question));
  assert.deepEqual([answer, more], [report, []]);
  assert.deepEqual([away.kind, away.code], ['Error', 'AGENT_AWAY']);
});

test('a VM that is not here is an error in the words of the agent', async (t) => {
  const body = JSON.stringify({
    apiVersion: explainApiVersion,
    kind: 'Error',
    code: 'NOT_FOUND',
    message: 'not on this node',
  });
  const { socket } = await answering(t, { httpStatus: 404, body });
  const asked = askExplain({ socket, namespace: 'a', name: 'b', output: 'text' });
  await assert.rejects(asked, { code: 'NOT_FOUND', message: 'not on this node' });
});

test('no error of what answers moves the cursor', async (t) => {
  const message = 'not\u001b[2J on\nthis node';
  const body = JSON.stringify({ apiVersion: explainApiVersion, kind: 'Error', code: 'NOT_FOUND', message });
  const { socket } = await answering(t, { httpStatus: 404, body });
  const asked = askExplain({ socket, namespace: 'a', name: 'b', output: 'text' });
  await assert.rejects(asked, { code: 'NOT_FOUND', message: 'not\ufffd[2J on this node' });
});

for (const body of [
  '',
  'hello',
  'null',
  '[]',
  '{"apiVersion":"why.virt-handler/v2","kind":"Why"}',
  JSON.stringify({ apiVersion: explainApiVersion, kind: 'Secret' }),
  JSON.stringify({ apiVersion: explainApiVersion, kind: 'Error' }),
  JSON.stringify({ apiVersion: explainApiVersion, kind: 'Why', decisions: [null] }),
]) {
  test(`an answer that is not this agent's (${body.slice(0, 30) || 'nothing'}) is refused in words`, async (t) => {
    const { socket } = await answering(t, { body });
    const asked = askExplain({ socket, namespace: 'a', name: 'b', output: 'text' });
    await assert.rejects(asked, { code: 'CHILD_FAILED', message: /no virt-handler of this version/ });
  });
}

test('no agent on the socket is an error that says where to look', async () => {
  const socket = path.join(tmpdir(), 'no-such-directory', 's');
  const asked = askExplain({ socket, namespace: 'a', output: 'text' });
  await assert.rejects(asked, { code: 'NOT_RUNNING', message: /is the node running here/ });
});

test('the command asks the agent of the state directory, or the one on another socket', () => {
  const where = { socket: nodePaths('/s').agentSocket, stateDir: '/s' };
  const command = { command: 'explain', namespace: 'default', output: 'text', ...where };
  assert.deepEqual(parseCommand(['explain', '--state-dir', '/s']), command);
  assert.deepEqual(parseCommand(['why', '--state-dir', '/s']), command);
  assert.deepEqual(parseCommand(['why', 'vm', '-n', 'n', '-o', 'json', '--socket', '/x']), {
    command: 'explain',
    name: 'vm',
    namespace: 'n',
    output: 'json',
    socket: '/x',
  });
  assert.throws(() => parseCommand(['why', '-o', 'xml']), { code: 'USAGE', message: /none of "text", "json", "yaml"/ });
  assert.throws(() => parseCommand(['why', 'a', 'b']), { code: 'USAGE' });
});

const labels = {
  apiVersion: explainApiVersion,
  kind: 'WhyLabels',
  node: 'laptop',
  at: '2026-11-21T10:00:00.000Z',
  state: 'present',
  here: [
    { key: 'kubevirt.io/sev', value: 'true', state: 'right', because: 'a.xml offers SEV' },
    { key: 'machine-type.node.kubevirt.io/q35', value: 'true', state: 'pending', because: 'nothing asks for it' },
  ],
  notHere: [{ key: 'kubevirt.io/tdx', state: 'right', because: 'a.xml does not offer TDX' }],
};

test('labels of the node are listed with their reasons, those that are there and those that are not', async (t) => {
  const { socket, asked } = await answering(t, { body: JSON.stringify(labels) });
  const text = await askExplain({ socket, namespace: 'default', output: 'text', labels: true });
  assert.deepEqual(text.split('\n'), [
    'node laptop: 2 labels of the agent are there, 1 are to be changed',
    '',
    'HERE                               VALUE  STATE    BECAUSE',
    'kubevirt.io/sev                    true   right    a.xml offers SEV',
    'machine-type.node.kubevirt.io/q35  true   pending  nothing asks for it',
    '',
    'NOT HERE           STATE  BECAUSE',
    'kubevirt.io/tdx    right  a.xml does not offer TDX',
  ]);
  assert.deepEqual(asked, ['/labels']);
});

test('with a name only labels whose keys contain it are listed, and none is said', async (t) => {
  const { socket, asked } = await answering(t, { body: JSON.stringify(labels) });
  const about = (name: string) => askExplain({ socket, namespace: 'default', name, output: 'text', labels: true });
  const text = await about('tdx');
  assert.match(text, /tdx/);
  assert.doesNotMatch(text, /sev|q35/);
  assert.match(await about('nope'), /no label with "nope" in its key is known to the agent/);
  assert.deepEqual(asked, ['/labels', '/labels']);
});

test('the command line asks for labels by --labels', () => {
  const command = parseCommand(['why', 'q35', '--labels', '--socket', '/s']);
  const question = {
    command: 'explain',
    output: 'text',
    namespace: 'default',
    name: 'q35',
    labels: true,
    socket: '/s',
  };
  assert.deepEqual(command, question);
});

test('keys of labels have slashes: they name no object', () => {
  const command = parseCommand(['explain', 'node.kubevirt.io/q35', '--labels', '--state-dir', '/s']);
  const { agentSocket: socket } = nodePaths('/s');
  const asked = {
    namespace: 'default',
    output: 'text',
    name: 'node.kubevirt.io/q35',
    labels: true,
    socket,
    stateDir: '/s',
  };
  assert.deepEqual(command, { command: 'explain', ...asked });
});

test('vm/NAME and vmi/NAME are questions for virt-controller, on its socket', () => {
  const socket = nodePaths('/s').controllerSocket;
  const question = { command: 'explain', namespace: 'default', output: 'text', socket };
  const ask = (...argv: string[]) => parseCommand(['explain', ...argv, '--state-dir', '/s']);
  assert.deepEqual(ask('vm/demo'), { ...question, kind: 'vm', name: 'demo' });
  assert.deepEqual(ask('vmi/'), { ...question, kind: 'vmi' });
  for (const wrong of ['/', 'pod/x', 'vm/a/b', 'a/b'])
    assert.throws(() => ask(wrong), { code: 'USAGE', message: /neither NAME nor vm\/NAME/ });
});

test('a VM has a story of virt-controller, too', async (t) => {
  const seen = { strategy: 'Always', vmi: 'none' };
  const decision = {
    ...{ firstAt: at, lastAt: at, times: 1, uid: 'u', route: '', rule: 'start', why: 'The VM shall run.', seen },
    steps: [{ step: 'startVmi', outcome: 'failed', because: 'CREATE_FAILED: quota\u001b[2J exceeded' }],
    write: { outcome: 'written' },
    events: ['FailedCreate'],
  };
  const nextTry = { state: 'waiting', inMs: 5_000, because: 'back-off', failuresInARow: 3 };
  const body = JSON.stringify({
    ...{ apiVersion: 'explain.virt-controller/v1', kind: 'Explanation', at, resource: 'vm' },
    ...{ namespace: 'default', name: 'demo', problem: 'quota\u001b[2J exceeded', nextTry, decisions: [decision] },
  });
  const { socket, asked } = await answering(t, { body });
  const text = await askExplain({ socket, kind: 'vm', namespace: 'default', name: 'demo', output: 'text' });
  assert.deepEqual(asked, ['/explain/vm/default/demo']);
  assert.match(text, /^vm default\/demo\n {2}is {7}strategy Always, vmi none\n {2}because {2}The VM shall run\./);
  assert.match(text, /start +strategy Always, vmi none +startVmi failed, wrote status, event FailedCreate/);
  assert.ok(!text.includes('\u001b'));
});

test('who does not answer is named, and why', async (t) => {
  const dir = await mkdtemp(path.join(tmpdir(), 'explain-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await writeFile(path.join(dir, 'file'), '');
  const question = { namespace: 'default', output: 'text' } as const;
  const missing = { ...question, socket: path.join(dir, 'none.sock') };
  await assert.rejects(askExplain(missing), { code: 'NOT_RUNNING', message: /^no virt-handler answers on / });
  await assert.rejects(askExplain({ ...missing, kind: 'vm' }), { message: /^no virt-controller answers on / });
  const below = { ...question, socket: path.join(dir, 'file', 'run', 'a.sock') };
  await assert.rejects(askExplain(below), { code: 'NOT_RUNNING', message: /what is above it is a file/ });
});

test('a socket that takes the question and says nothing is told to hang', async (t) => {
  const dir = await mkdtemp(path.join(tmpdir(), 'explain-'));
  const socket = path.join(dir, 'a.sock');
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  });
  const asked = askExplain({ socket, kind: 'vm', namespace: 'default', output: 'text' });
  await assert.rejects(asked, { code: 'CHILD_FAILED', message: /^virt-controller takes the question .* hangs or is/ });
});
