import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { Domain } from '../../../../src/api/index.ts';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { domainFromXml, domainStatus } from '../../../../src/launcher/domain/index.ts';
import { NotifyClient, watchPipe } from '../../../../src/launcher/notify/client.ts';
import { DomainNotifier } from '../../../../src/launcher/notify/notifier.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { type NotifyAgent, startNotifyAgent } from '../../../fixtures/notify-agent.ts';

const identity = { namespace: 'default', name: 'small', uid: 'u1' };
const metadata = {
  UID: 'u1',
  GracePeriod: null,
  Migration: null,
  Backup: null,
  AccessCredential: null,
  MemoryDump: null,
};

let dir: string;
let socketPath: string;
let state: [number, number];
let failReads: number;
let notifier: DomainNotifier;
let client: NotifyClient;
let agents: NotifyAgent[];

const read = async (): Promise<Domain> => {
  if (failReads-- > 0) throw new Error('libvirt is away');
  return domainFromXml({ ...identity, state: domainStatus(...state), metadata });
};
const statuses = (agent: NotifyAgent) => agent.events.map(({ type, domain }) => `${type} ${domain.Status.Status}`);

async function agentAppears(options: Parameters<typeof startNotifyAgent>[1] = {}): Promise<NotifyAgent> {
  const agent = await startNotifyAgent(socketPath, options);
  agents.push(agent);
  return agent;
}

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'notify-'));
  socketPath = path.join(dir, 'pipe.sock');
  state = [1, 1];
  failReads = 0;
  agents = [];
  client = new NotifyClient({ socketPath, identity, callTimeoutMs: 60_000 });
  notifier = new DomainNotifier({ retryMs: 50, maxEvents: 3 }, { read, sender: client, log: silentLogger });
  notifier.start();
});
afterEach(async () => {
  client.close();
  await notifier.stop();
  client.close();
  for (const agent of agents) await agent.close();
  rmSync(dir, { recursive: true, force: true });
});

test('events reach a real agent in order, each with the state at its time', async () => {
  const agent = await agentAppears();
  notifier.trigger('ADDED');
  // The agent has an event before the launcher has the answer to it.
  await eventually(() => assert.equal(notifier.delivered?.Status.Status, 'Running'));
  state = [3, 1];
  notifier.trigger();
  await eventually(() => assert.equal(notifier.delivered?.Status.Status, 'Paused'));
  assert.deepEqual(statuses(agent), ['ADDED Running', 'MODIFIED Paused']);
});

test('what happens while the agent is away becomes one event with the last state; an addition stays one', async () => {
  notifier.trigger('ADDED');
  for (const next of [
    [3, 1],
    [1, 5],
    [5, 1],
  ] as const) {
    state = [...next];
    notifier.trigger();
  }
  await eventually(() => assert.ok(notifier.failures > 0));
  const agent = await agentAppears();
  await eventually(() => assert.deepEqual(statuses(agent), ['ADDED Shutoff']));
  assert.equal(notifier.isBehind, false);
});

test('a restarted agent is sent the latest state by its new pipe', async () => {
  const stop = watchPipe(socketPath, systemClock, () => notifier.agentAppeared());
  try {
    const first = await agentAppears();
    notifier.trigger('ADDED');
    // Not only received: an event whose answer was lost is rightly sent as ADDED again.
    await eventually(() => assert.ok(notifier.delivered));
    await first.close();
    const second = await agentAppears();
    await eventually(() => assert.deepEqual(statuses(second), ['MODIFIED Running']));
  } finally {
    stop();
  }
});

test('an agent that appears before there was ever a domain is sent no state', async () => {
  const agent = await agentAppears();
  notifier.agentAppeared();
  notifier.sendEvent({ reason: 'IOerror', type: 'Warning', message: 'm' });
  await eventually(() => assert.equal(agent.k8sEvents.length, 1));
  assert.deepEqual(agent.events, []);
});

test('a state that cannot be read is tried again', async () => {
  const agent = await agentAppears();
  failReads = 2;
  notifier.trigger('ADDED');
  await eventually(() => assert.deepEqual(statuses(agent), ['ADDED Running']));
});

test('an event that the agent refuses is not repeated, and the next one goes out', async () => {
  let answers = 0;
  const agent = await agentAppears({ answer: () => ({ success: ++answers > 1, message: 'no' }) });
  notifier.trigger();
  await eventually(() => assert.equal(agent.events.length, 1));
  await eventually(() => assert.equal(notifier.isBehind, false));
  assert.equal(notifier.delivered, undefined);
  notifier.trigger();
  await eventually(() => assert.ok(notifier.delivered));
});

test('an agent that speaks no common version gets no event', async () => {
  const agent = await agentAppears({ versions: [7] });
  notifier.trigger();
  await eventually(() => assert.ok(notifier.failures > 1));
  assert.deepEqual(agent.events, []);
});

test('Kubernetes events carry the VMI, go before the state, and only the last few wait', async () => {
  for (const message of ['1', '2', '3', '4', '5']) notifier.sendEvent({ reason: 'IOerror', type: 'Warning', message });
  notifier.trigger();
  const agent = await agentAppears();
  await eventually(() => assert.equal(agent.events.length, 1));
  assert.deepEqual(
    agent.k8sEvents.map(({ message }) => message),
    ['3', '4', '5'],
  );
  const { uid, namespace, name } = agent.k8sEvents[0]?.involvedObject ?? {};
  assert.deepEqual({ uid, namespace, name }, identity);
});

test('stop does not wait for an agent that never answers', async () => {
  const silent = await import('node:net').then(({ createServer }) =>
    createServer((socket) => socket.on('error', () => undefined)),
  );
  await new Promise<void>((resolve) => silent.listen(socketPath, resolve));
  notifier.trigger();
  const startedMs = performance.now();
  client.close();
  await notifier.stop();
  assert.ok(performance.now() - startedMs < 30_000, 'the call would end after a minute');
  silent.close();
});
