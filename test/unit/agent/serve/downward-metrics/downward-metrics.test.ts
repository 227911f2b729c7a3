import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { makeDownwardMetrics } from '../../../../../src/agent/serve/downward-metrics/index.ts';
import { type VirtualMachineInstance, vhostmdDiskBytes } from '../../../../../src/api/index.ts';
import { CodedError, silentLogger } from '../../../../../src/base/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { domainStatsJson } from '../../../../fixtures/domain-stats.ts';
import { eventually } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const startTime = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ')[19] ?? '';
const periodMs = 5_000;

let dir: string;
let disk: string;
let clock: FakeClock;
let vmis: Map<string, VirtualMachineInstance>;
let publish: (key: string) => void;
let asked: number;
let answer: (rpc: string) => Promise<object>;
let component: ReturnType<typeof makeDownwardMetrics>;

const fine = async (rpc: string): Promise<object> =>
  rpc === 'getDomainStats' ? { domainStats: domainStatsJson() } : { version: 'QEMU 7.2.22' };

function make(): ReturnType<typeof makeDownwardMetrics> {
  const call = async (rpc: string) => {
    if (rpc === 'getDomainStats') asked++;
    return answer(rpc);
  };
  const connection = { connected: true, peer: { pid: process.pid, startTime, uid: 0 }, call };
  return makeDownwardMetrics(
    { nodeName: 'node1', periodMs, procDir: path.join(dir, 'proc') },
    {
      vmis: {
        get: (key) => vmis.get(key),
        keys: () => vmis.keys(),
        onChange: (listener) => {
          publish = listener;
          return () => undefined;
        },
      },
      clients: { peek: () => connection as never },
      clock,
      log: silentLogger,
    },
  );
}

function add(spec: object): void {
  const vmi = vmiOf('Running', { metadata: { name: 'a', uid: 'uid-a' }, spec } as never);
  vmi.status = { ...vmi.status, nodeName: 'node1' };
  vmis.set('default/a', vmi);
  publish('default/a');
}

const withDisk = { domain: { devices: {} }, volumes: [{ name: 'metrics', downwardMetrics: {} }] };
const withChannel = { domain: { devices: { downwardMetrics: {} } } };

function makeDisk(): void {
  writeFileSync(disk, '');
  truncateSync(disk, vhostmdDiskBytes);
}

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'metrics-'));
  const own = path.join(dir, 'proc', String(process.pid));
  mkdirSync(path.join(own, 'ns'), { recursive: true });
  symlinkSync('pid:[1]', path.join(own, 'ns/pid'));
  symlinkSync(path.join(dir, 'root'), path.join(own, 'root'));
  const run = path.join(dir, 'root/run/kubevirt-private');
  mkdirSync(path.join(run, 'downwardapi-disks'), { recursive: true });
  mkdirSync(path.join(run, 'downwardmetrics-channel'));
  mkdirSync(path.join(dir, 'root/var'));
  symlinkSync('../run', path.join(dir, 'root/var/run'));
  disk = path.join(run, 'downwardapi-disks/vhostmd0');
  [vmis, clock, asked, answer] = [new Map(), new FakeClock(), 0, fine];
  component = make();
  await component.start(new AbortController().signal);
});

afterEach(async () => {
  await component.stop();
  rmSync(dir, { recursive: true });
});

/** What is on the disk when its check sum is right. */
function onDisk(): string {
  const bytes = readFileSync(disk);
  assert.equal(bytes.length, vhostmdDiskBytes);
  assert.equal(bytes.toString('latin1', 0, 4), 'mvbd');
  const body = bytes.subarray(16, 16 + bytes.readInt32BE(12));
  assert.deepEqual([bytes.readInt32BE(4), bytes.readInt32BE(8)], [0, body.reduce((sum, byte) => sum + byte, 0)]);
  return body.toString();
}

test('the disk of a running VM is written at once, and refreshed until the VM has ended; then no timer is left', async () => {
  makeDisk();
  add(withDisk);
  await eventually(() => assert.match(onDisk(), /<name>VirtProductInfo<\/name>\n {4}<value>QEMU 7\.2\.22</));
  writeFileSync(disk, Buffer.alloc(vhostmdDiskBytes));
  clock.advance(periodMs);
  await eventually(() => assert.match(onDisk(), /<value>node1</));
  vmis.delete('default/a');
  publish('default/a');
  const before = asked;
  clock.advance(3 * periodMs);
  assert.equal(asked, before);
  assert.equal(clock.timers, 0);
});

test('a VM without figures costs neither a question nor a timer', () => {
  add({ domain: { devices: {} } });
  assert.equal(clock.timers, 0);
  assert.equal(asked, 0);
});

test('a launcher that hangs is not asked again, and another agent goes on with the disk', async () => {
  makeDisk();
  answer = () => new Promise<never>(() => undefined);
  add(withDisk);
  await clock.pass(4 * periodMs);
  assert.equal(asked, 1);
  answer = fine;
  component = make();
  await component.start(new AbortController().signal);
  await eventually(() => assert.match(onDisk(), /<metrics>/));
});

const tricks: readonly (readonly [title: string, play: (outside: string) => void])[] = [
  ['a link', (outside) => symlinkSync(outside, disk)],
  ['a second name of another file', (outside) => linkSync(outside, disk)],
  ['a pipe that nobody reads', () => execFileSync('mkfifo', [disk])],
  ['a directory', () => mkdirSync(disk)],
  ['a file of another size', () => writeFileSync(disk, 'x')],
  [
    'a link instead of its directory',
    (outside) => {
      rmSync(path.dirname(disk), { recursive: true });
      mkdirSync(path.join(dir, 'elsewhere'));
      renameSync(outside, path.join(dir, 'elsewhere/vhostmd0'));
      symlinkSync(path.join(dir, 'elsewhere'), path.dirname(disk));
      symlinkSync(path.join(dir, 'elsewhere/vhostmd0'), outside);
    },
  ],
];

for (const [title, play] of tricks) {
  test(`nothing is written through what a tenant put in the disk's place: ${title}`, async () => {
    const outside = path.join(dir, 'outside');
    writeFileSync(outside, Buffer.alloc(vhostmdDiskBytes, 'o'));
    play(outside);
    add(withDisk);
    await eventually(() => assert.equal(asked, 1));
    await eventually(async () => {
      await clock.pass(periodMs);
      assert.ok(asked >= 4, `${asked} questions`);
    });
    assert.ok(readFileSync(outside).equals(Buffer.alloc(vhostmdDiskBytes, 'o')));
  });
}

test('the channel is served as soon as QEMU listens, and again after it broke', async (t) => {
  const file = path.join(dir, 'root/run/kubevirt-private/downwardmetrics-channel/downwardmetrics.sock');
  add(withChannel);
  await clock.pass(5_000);
  let shown = '';
  let connections = 0;
  const server = createServer((guest) => {
    connections++;
    guest.on('error', () => undefined);
    guest.setEncoding('latin1').on('data', (text) => {
      shown += text;
      if (shown.endsWith('\n\n')) guest.destroy();
    });
    guest.write('GET /metrics/XML\n\n');
  });
  t.after(() => server.close());
  server.listen(file);
  await eventually(async () => {
    await clock.pass(1_000);
    assert.ok(connections >= 2, `${connections} connections`);
  });
  assert.match(shown, /^<metrics>\n {2}<metric type="string" context="host">/);
  vmis.delete('default/a');
  publish('default/a');
});

test('a guest that asks while its launcher does not answer reads that there is nothing', async (t) => {
  answer = async () => {
    throw new CodedError('TIMEOUT', 'no answer');
  };
  let shown = '';
  const server = createServer((guest) => {
    guest.on('error', () => undefined);
    guest.setEncoding('latin1').on('data', (text) => (shown += text));
    guest.write('GET /metrics/XML\n\n');
  });
  t.after(() => server.close());
  server.listen(path.join(dir, 'root/run/kubevirt-private/downwardmetrics-channel/downwardmetrics.sock'));
  add(withChannel);
  const nothing = '<metrics><!-- host metrics not available --><!-- VM metrics not available --></metrics>\n\n';
  await eventually(() => assert.equal(shown, nothing));
});
