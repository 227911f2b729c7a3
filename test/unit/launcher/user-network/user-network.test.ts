import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { LauncherError } from '../../../../src/launcher/errors.ts';
import { GuestPortServer, publishedPorts, UserNetwork } from '../../../../src/launcher/user-network/index.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { UserNetworkStandIn } from '../../../fixtures/user-network.ts';

const never = new AbortController().signal;
const ports = [{ port: 8080 }, { port: 53, protocol: 'UDP' }];
const vmi = launcherVmi({
  spec: { domain: { devices: { interfaces: [{ name: 'default', masquerade: {}, ports }] } } },
});
const address = publishedPorts(vmi).forwards[0]?.address ?? '';

let qemu: UserNetworkStandIn;
let events: { readonly reason: string; readonly message: string }[];
let isMigrating: boolean;
const networks: UserNetwork[] = [];

function networkWith(clock: FakeClock | typeof systemClock = systemClock): UserNetwork {
  const network = new UserNetwork(
    { domainName: 'default_testvm' },
    {
      hypervisor: qemu,
      refuse: (what) => {
        if (isMigrating) throw new LauncherError('MIGRATING', `${what}: not while the guest is being migrated`);
      },
      notifier: { sendEvent: (event) => events.push(event) },
      log: silentLogger,
      clock,
    },
  );
  networks.push(network);
  return network;
}

beforeEach(() => {
  qemu = new UserNetworkStandIn();
  events = [];
  isMigrating = false;
});
afterEach(async () => {
  for (const network of networks.splice(0)) network.stop();
  await qemu.stop();
});

const published = () => [`tcp:${address}:28080`, `udp:${address}:20053`];

test('ports that a VMI lists are published once, and told', async () => {
  const network = networkWith();
  await Promise.all([network.started(vmi), network.publish(vmi)]);
  await network.publish(vmi);
  assert.deepEqual(qemu.forwards, published());
  assert.deepEqual([qemu.lines.length, qemu.looks], [2, 1]);
  assert.deepEqual(events, [
    {
      reason: 'PortsPublished',
      type: 'Normal',
      message: `ports of the guest are on this machine: tcp 8080 at ${address}:28080, udp 53 at ${address}:20053`,
    },
  ]);
});

test('a launcher that began anew leaves what is published, and takes away what one before it left open for a moment', async () => {
  await networkWith().publish(vmi);
  await qemu.monitor(qemu.domain, 'hostfwd_add hostua-default tcp:127.200.0.1:20001-:22');
  events = [];
  await networkWith().publish(vmi);
  assert.deepEqual(qemu.forwards, published());
  assert.deepEqual(events, []);
});

test('a QEMU that was started anew gets all of them again', async () => {
  const network = networkWith();
  await network.publish(vmi);
  await qemu.stop();
  await network.started(vmi);
  assert.deepEqual(qemu.forwards, published());
});

test('a port that a program of the machine has is told once, and published when that has ended', async () => {
  const clock = new FakeClock();
  const program = createServer();
  await once(program.listen(28_080, address), 'listening');
  const network = networkWith(clock);
  await network.publish(vmi);
  await network.publish(vmi);
  assert.deepEqual(qemu.forwards, [published()[1]]);
  const missing = events.filter(({ reason }) => reason === 'PortsNotPublished');
  assert.equal(missing.length, 1);
  assert.match(missing[0]?.message ?? '', /^not published: tcp 8080 at .*:28080: another program of this machine/);
  program.close();
  await once(program, 'close');
  clock.advance(20_000);
  await eventually(() => assert.equal(qemu.forwards.length, 2));
  await settle();
  assert.equal(clock.timers, 0);
});

test('a guest without a network, and a monitor that fails, fail no sync', async () => {
  qemu.hasNetwork = false;
  await networkWith(new FakeClock()).publish(vmi);
  assert.deepEqual(events, []);
});

test('a connection goes to any port of the guest, both ways, and leaves no port of the machine open', async () => {
  qemu.guest.set(22, 'echoes');
  const socket = await networkWith().connect(22, never);
  assert.deepEqual(qemu.forwards, []);
  socket.end('x');
  assert.equal(String(Buffer.concat(await socket.toArray())), 'x');
});

test('what a guest says before it ends the connection at once is not lost', async () => {
  qemu.guest.set(22, 'speaks-and-ends');
  const socket = await networkWith().connect(22, never);
  assert.equal(String(Buffer.concat(await socket.toArray())), 'hello');
});

test('a port on which nothing listens, a guest that does not answer and one that moves are refused in words', async () => {
  await assert.rejects(networkWith().connect(22, never), {
    code: 'INVALID_REQUEST',
    message: 'port 22 of the guest does not answer: nothing listens there (ECONNREFUSED)',
  });
  qemu.guest.set(23, 'silent');
  const clock = new FakeClock();
  const asked = assert.rejects(networkWith(clock).connect(23, never), { message: /no answer in 10 s/ });
  const timer = setInterval(() => clock.advance(200), 1);
  await asked.finally(() => clearInterval(timer));
  isMigrating = true;
  await assert.rejects(networkWith().connect(22, never), { code: 'MIGRATING' });
  isMigrating = false;
  qemu.hasNetwork = false;
  await assert.rejects(networkWith().connect(22, never), { code: 'NOT_SUPPORTED', message: /has no network/ });
  assert.deepEqual(qemu.forwards, []);
});

test('twenty connections that wait ask QEMU’s monitor as often as one', async () => {
  qemu.guest.set(23, 'silent');
  const clock = new FakeClock();
  const network = networkWith(clock);
  const gone = new AbortController();
  const asked = Array.from({ length: 20 }, () => assert.rejects(network.connect(23, gone.signal), /gone/));
  await eventually(() => assert.equal(qemu.forwards.length, 20));
  // Each has had its first look.
  for (let times = 0; times < 20; times++) {
    clock.advance(200);
    await settle();
  }
  const before = qemu.looks;
  for (let times = 0; times < 10; times++) {
    clock.advance(200);
    await settle();
  }
  assert.ok(qemu.looks - before <= 10, `${qemu.looks - before} looks in 2 s`);
  gone.abort(new Error('gone'));
  clock.advance(200);
  await Promise.all(asked);
  assert.deepEqual(qemu.forwards, []);
});

test('a caller that goes leaves nothing open', async () => {
  qemu.guest.set(23, 'silent');
  const gone = new AbortController();
  const asking = networkWith();
  const asked = asking.connect(23, gone.signal);
  await eventually(() => assert.equal(qemu.forwards.length, 1));
  // What is published meanwhile leaves it alone.
  await asking.publish(vmi);
  assert.equal(qemu.forwards.length, 3);
  gone.abort(new Error('gone'));
  await assert.rejects(asked, /gone/);
  assert.deepEqual(qemu.forwards, published());
});

async function withServer(work: (ask: (line: string) => Promise<Socket>) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), 'guest-ports-'));
  const socketFile = path.join(dir, 'guest-ports');
  const server = new GuestPortServer({ socketFile }, { network: networkWith(), log: silentLogger });
  try {
    await server.start();
    assert.equal(statSync(socketFile).mode & 0o777, 0o600);
    await work(async (line) => {
      const socket = connect(socketFile);
      socket.write(line);
      return socket;
    });
  } finally {
    await server.stop();
    rmSync(dir, { recursive: true });
  }
}

test('the launcher’s socket joins a caller to a port, halves of the connection end by themselves', () =>
  withServer(async (ask) => {
    qemu.guest.set(22, 'echoes');
    const socket = await ask('tcp 22\nearly ');
    socket.end('late');
    assert.equal(String(Buffer.concat(await socket.toArray())), 'ok\nearly late');
  }));

test('the launcher’s socket refuses what is no port, and a port that is closed, in one line', () =>
  withServer(async (ask) => {
    for (const [line, expected] of [
      ['tcp 22\n', /^no port 22 of the guest does not answer: nothing listens there .*\n$/],
      ['udp 22\n', /^no "udp 22" asks for no TCP port from 1 to 65535\n$/],
      ['tcp 0\n', /^no .*asks for no TCP port/],
      ['tcp 70000\n', /^no .*asks for no TCP port/],
      ['tcp 22 23\n', /^no .*asks for no TCP port/],
      [`${'x'.repeat(5000)}`, /^no a line has more than 1024 bytes\n$/],
    ] as const) {
      const socket = await ask(line);
      assert.match(String(Buffer.concat(await socket.toArray())), expected);
    }
  }));
