import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { request } from 'node:http';
import { createConnection } from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import type { AgentState, ExplainList, ExplainReport } from '../../../src/api/index.ts';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { stopped } from '../../fixtures/agent-process.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** The real virt-handler, asked on its socket and by the real virt-node. */

let bench: AgentBench;
let programDir: string;
let socketPath: string;

before(async () => {
  // Inside the repository: native libraries are found from there.
  programDir = await mkdtemp(path.resolve('.build/why-'));
  await bundleProgram('virt-node', path.join(programDir, 'virt-node.mjs'));
  bench = await AgentBench.start(embeddedLoopApi);
  socketPath = path.join(bench.program.privateDir, 'virt-handler.sock');
});

after(async () => {
  await bench?.dispose();
  await rm(programDir, { recursive: true, force: true });
});

async function virtNode(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [path.join(programDir, 'virt-node.mjs'), ...args]);
  const text = { out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    text.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    text.err += chunk;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...text };
}

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly allow: string | undefined;
}

function ask(target: string, method = 'GET', body?: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path: target, method, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('error', reject);
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, body: text, allow: response.headers.allow }),
      );
    });
    call.on('error', reject);
    call.end(body);
  });
}

const json = async <T>(target: string): Promise<T> => JSON.parse((await ask(target)).body) as T;

/** All bytes that come back for these, few enough to be read at once; the server ends the connection. */
async function raw(bytes: string): Promise<string> {
  const socket = createConnection(socketPath);
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return text;
}

test('the story of a VM that was started: what was seen, done, written and is awaited', async () => {
  await bench.play('told');
  const report = await json<ExplainReport>('/why/default/told');
  assert.deepEqual([report.apiVersion, report.kind, report.node], ['why.virt-handler/v1', 'Why', 'node1']);
  const start = report.decisions.find(({ rule }) => rule === 'start-due');
  assert.deepEqual(
    start?.steps.map(({ step, outcome }) => [step, outcome]),
    ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'].map((step) => [step, 'done']),
  );
  assert.equal(start?.seen.vmi.phase, 'Scheduled');
  assert.equal(start?.seen.launcher.kind, 'ready');
  const running = report.decisions.find(({ rule }) => rule === 'domain-running');
  assert.deepEqual([running?.newPhase, running?.write.outcome], ['Running', 'written']);
  assert.ok(running?.events?.includes('Started'));
  await eventually(async () => {
    const { nextTry, decisions } = await json<ExplainReport>('/why/default/told');
    // The own write is no news: the pass that made the guest's phase known is the last one.
    assert.equal(decisions.at(-1)?.rule, 'domain-running');
    assert.deepEqual([nextTry.state, nextTry.failuresInARow], ['idle', 0]);
  });
});

test('virt-node why tells it to people, and as JSON', async () => {
  await bench.play('asked');
  await eventually(async () => {
    const { code, out } = await virtNode('why', 'asked', '--socket', socketPath);
    assert.equal(code, 0);
    assert.match(out, /^default\/asked on node node1\n {2}is {7}Running; guest Running\/\S+, heard of/);
    assert.match(out, /because {2}The guest runs, so phase Running is written/);
    assert.match(out, /next {5}when the VMI, its domain or its launcher changes/);
    assert.match(out, /start-due {2,}Scheduled .* syncVirtualMachine [<\d]/);
  });
  const list = await virtNode('why', '--socket', socketPath);
  assert.match(list.out, /^NAMESPACE .*\n.*default +asked +Running +Running\//);
  const asJson = await virtNode('why', 'asked', '-o', 'json', '--socket', socketPath);
  assert.equal((JSON.parse(asJson.out) as ExplainReport).name, 'asked');
  const missing = await virtNode('why', 'nobody', '--socket', socketPath);
  assert.deepEqual([missing.code, missing.out], [4, '']);
  assert.match(missing.err, /node node1 has decided nothing about default\/nobody/);
});

test('a VM that fails says what fails and when it is tried again', async () => {
  const launcher = await bench.launcher('fails');
  await launcher.fail('syncVirtualMachine', 'no such disk');
  await bench.create('fails');
  await eventually(async () => {
    const { nextTry, decisions } = await json<ExplainReport>('/why/default/fails');
    const failed = decisions.find(({ rule }) => rule === 'start-due');
    assert.match(failed?.problem ?? '', /no such disk/);
    assert.equal(failed?.steps.at(-1)?.outcome, 'failed');
    assert.equal(nextTry.state, 'waiting');
  });
  const { items } = await json<ExplainList>('/why');
  assert.match(items.find(({ name }) => name === 'fails')?.problem ?? '', /no such disk/);
});

test('a VM that is gone can still be asked for', async () => {
  await bench.play('leaves');
  await bench.delete('leaves');
  await eventually(async () => {
    const { goneAt, decisions } = await json<ExplainReport>('/why/default/leaves');
    assert.ok(goneAt);
    assert.ok(decisions.some(({ rule }) => rule === 'shutdown-signal-due'));
  });
});

test('the state of the agent has what operators and benchmarks ask for', async () => {
  const state = await json<AgentState>('/state');
  assert.deepEqual([state.kind, state.phase, state.pid], ['AgentState', 'serving', bench.agent.pid]);
  assert.ok(state.informers.length >= 3);
  for (const informer of state.informers) assert.deepEqual([informer.synced, informer.connected], [true, true]);
  assert.ok((state.heartbeat.lastSuccessSecondsAgo ?? 999) < 60);
  assert.ok(state.memory.rssBytes > 10_000_000);
  assert.ok(state.openFiles > 5);
  assert.ok((state.resources.PipeWrap ?? 0) >= 1, JSON.stringify(state.resources));
  for (const ms of Object.values(state.eventLoopDelayMs)) assert.ok(ms >= 0 && ms < 60_000);
  assert.ok(state.decisions.vmis >= 1 && state.decisions.bytes > 100);
});

test('a launcher that hangs keeps nobody from asking', async () => {
  const { launcher } = await bench.play('hangs');
  await launcher.hang('getDomain');
  await launcher.hang('syncVirtualMachine');
  await bench.patch('hangs', { spec: { terminationGracePeriodSeconds: 3 } });
  const beganMs = performance.now();
  for (const target of ['/why', '/why/default/hangs', '/state']) assert.equal((await ask(target)).status, 200);
  assert.ok(performance.now() - beganMs < 1_000);
  await eventually(async () => {
    const { slow } = await json<AgentState>('/state');
    assert.deepEqual(
      slow.map(({ vmi }) => vmi),
      ['default/hangs'],
    );
  });
  const { nextTry } = await json<ExplainReport>('/why/default/hangs');
  assert.equal(nextTry.state, 'running');
  assert.ok((nextTry.forMs ?? 0) >= 1_000);
});

test('the socket is for root only', async () => {
  const { mode } = await stat(socketPath);
  assert.equal(mode & 0o777, 0o600);
});

test('what is no question is refused in words, and the agent goes on', async () => {
  assert.equal((await ask('/')).status, 404);
  assert.equal((await ask('/why/default/no-such-vm')).status, 404);
  assert.equal((await ask('/why/default/%2e%2e')).status, 400);
  const posted = await ask('/why', 'POST', 'x'.repeat(100_000)).catch((error: unknown) => error);
  assert.ok(posted instanceof Error || (posted as Reply).status === 400, 'a body is not read');
  const deleted = await ask('/why', 'DELETE');
  assert.deepEqual([deleted.status, deleted.allow], [405, 'GET, HEAD']);
  assert.match(await raw('\u0000\u0001\u0002 garbage\r\n\r\n'), /^HTTP\/1.1 400/);
  assert.match(await raw(`GET /${'a'.repeat(10_000)} HTTP/1.1\r\n\r\n`), /^HTTP\/1.1 431/);
  assert.match(await raw(`GET /why HTTP/1.1\r\nHost: x\r\nx: ${'a'.repeat(10_000)}\r\n\r\n`), /^HTTP\/1.1 431/);
  assert.equal((await ask('/why')).status, 200);
});

test('connections that say nothing do not keep others from asking for long', async () => {
  const silent = Array.from({ length: 15 }, () => createConnection(socketPath).on('error', () => undefined));
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  assert.equal((await ask('/state')).status, 200);
  for (const socket of silent) socket.destroy();
});

test('a socket left behind by a killed agent is replaced, and a second agent does not take it from the first', async () => {
  await bench.restartAgent();
  assert.equal((await json<AgentState>('/state')).pid, bench.agent.pid);
  const first = bench.agent;
  const second = await bench.startAgent();
  assert.equal((await json<AgentState>('/state')).pid, first.pid);
  assert.match(bench.program.log(), /another agent answers on/);
  await stopped(first, 'SIGTERM');
  await eventually(async () => assert.equal((await json<AgentState>('/state')).pid, second.pid), 20_000);
});

test('an agent that leaves takes its socket with it', async () => {
  assert.deepEqual(await stopped(bench.agent, 'SIGTERM'), [0, null]);
  await assert.rejects(stat(socketPath), { code: 'ENOENT' });
  const { code, err } = await virtNode('why', '--socket', socketPath);
  assert.equal(code, 3);
  assert.match(err, /no virt-handler answers on/);
});
