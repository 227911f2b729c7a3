import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { PacketType } from '../../../src/libvirt/frame.ts';
import { isLibvirtError, LibvirtConnector, type LibvirtConnectorOptions } from '../../../src/libvirt/index.ts';
import { procedures } from '../../../src/libvirt/procedures.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { errorPayload, FakeDaemon } from './fake-daemon.ts';

let daemon: FakeDaemon;
let connector: LibvirtConnector;
let problems: string[];
const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };

function create(options: Partial<LibvirtConnectorOptions> = {}): LibvirtConnector {
  connector = new LibvirtConnector(
    {
      connect: { socketPath: daemon.socketPath, uri: 'test:///default', keepalive: false },
      backoff: { baseMs: 5, maxMs: 20 },
      ...options,
    },
    {
      onConnectError: (error) => problems.push(`connect ${error.message}`),
      onSubscribeError: (kind) => problems.push(`subscribe ${kind}`),
      onListenerError: (error) => problems.push(`listener ${String(error)}`),
    },
  );
  return connector;
}

beforeEach(async () => {
  daemon = await FakeDaemon.start();
  daemon.on(procedures.connectGetHostname, () => ({ value: 'h' }));
  problems = [];
});

afterEach(async () => {
  await connector?.stop();
  await daemon.remove();
});

const lost = (error: unknown) => isLibvirtError(error, 'CONNECTION_LOST');

test('after a lost connection it connects again, registers its events and says so', async () => {
  create();
  const log: string[] = [];
  connector.onConnected((connections) => log.push(`connected ${connections}`));
  connector.onDisconnected((cause) => log.push(`disconnected ${cause instanceof Error}`));
  await connector.subscribe('lifecycle', ({ detail }) => log.push(`event ${detail}`));
  await connector.start();
  daemon.peer.sendEvent(0, { kind: 'lifecycle', domain, event: 2, detail: 0 });
  await eventually(() => assert.equal(log.length, 2));
  daemon.peer.socket.destroy();
  await eventually(() => assert.equal(log.at(-1), 'connected 2'));
  daemon.peer.sendEvent(1, { kind: 'lifecycle', domain, event: 2, detail: 1 });
  await eventually(() =>
    assert.deepEqual(log, ['connected 1', 'event 0', 'disconnected true', 'connected 2', 'event 1']),
  );
});

test('what was unsubscribed is not registered again', async () => {
  create();
  await connector.start();
  const unsubscribe = await connector.subscribe('lifecycle', () => undefined);
  await connector.subscribe('reboot', () => undefined);
  await unsubscribe();
  daemon.calls.length = 0;
  daemon.peer.socket.destroy();
  await eventually(() => assert.equal(daemon.peers.length, 2));
  await eventually(() => assert.equal(connector.isConnected, true));
  assert.equal(daemon.calls.filter((procedure) => procedure === 316).length, 1);
});

test('calls during an outage fail at once, or wait for the next connection when told to', async () => {
  create();
  await assert.rejects(connector.getHostname(), lost);
  await connector.stop();
  create({ outageWaitMs: 10_000 });
  const waiting = connector.getHostname();
  await connector.start();
  assert.equal(await waiting, 'h');
});

test('a waiting call ends with its own signal, and with the limit', async () => {
  create({ outageWaitMs: 30 });
  await assert.rejects(connector.getHostname(), lost);
  const signal = AbortSignal.abort(new Error('enough'));
  await assert.rejects(connector.getHostname({ signal }), (error) => isLibvirtError(error, 'CALL_ABORTED'));
});

test('start gives up when its signal fires and says why the tries failed; they go on', async () => {
  await daemon.close();
  create();
  const patience = new AbortController();
  const refused = assert.rejects(
    connector.start(patience.signal),
    (error) => isLibvirtError(error, 'CONNECT_FAILED') && error.message.includes(daemon.socketPath),
  );
  await eventually(() => assert.ok(problems.length > 1, `${problems.length} tries`));
  patience.abort();
  await refused;
  await daemon.listen();
  await eventually(() => assert.equal(connector.isConnected, true));
});

test('a call under way when the connection ends is not repeated', async () => {
  create({ outageWaitMs: 10_000 });
  await connector.start();
  daemon.onRaw(procedures.domainSuspend.number, (_args, peer) => {
    peer.socket.destroy();
    return undefined;
  });
  await assert.rejects(connector.suspend(domain), lost);
  await eventually(() => assert.equal(connector.isConnected, true));
  assert.equal(daemon.calls.filter((procedure) => procedure === 34).length, 1);
});

test('an event that the daemon refuses fails its subscriber, and on a new connection only that event', async () => {
  create();
  await connector.start();
  const refuse = () =>
    daemon.onRaw(procedures.registerEvent.number, (_args, peer, call) => {
      peer.send({ ...call, type: PacketType.REPLY, status: 1, payload: errorPayload(1, 'unsupported event') });
      return undefined;
    });
  await connector.subscribe('lifecycle', () => undefined);
  refuse();
  await assert.rejects(
    connector.subscribe('reboot', () => undefined),
    { code: 'INTERNAL_ERROR' },
  );
  daemon.peer.socket.destroy();
  await eventually(() => assert.deepEqual(problems, ['subscribe lifecycle']));
  await eventually(() => assert.equal(connector.isConnected, true));
});

test('a listener that throws is reported and does not end the connection', async () => {
  create();
  connector.onConnected(() => {
    throw new Error('bad listener');
  });
  await connector.start();
  assert.deepEqual(problems, ['listener Error: bad listener']);
  assert.equal(await connector.getHostname(), 'h');
});

test('stop ends the connection and the tries, and later calls fail', async () => {
  create({ outageWaitMs: 10_000 });
  await connector.start();
  await connector.stop();
  assert.equal(connector.isConnected, false);
  await assert.rejects(connector.getHostname(), lost);
  await assert.rejects(connector.start(), (error) => isLibvirtError(error, 'CONNECT_FAILED'));
});
