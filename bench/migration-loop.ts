import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sleep } from '../src/base/index.ts';
import { clientCommonName, serverCommonName } from '../src/tls/index.ts';
import { AgentBench, embeddedLoopApi } from '../test/fixtures/agent-bench.ts';
import { TestAuthority } from '../test/fixtures/certificates.ts';
import { eventually } from '../test/fixtures/eventually.ts';
import { freePort } from '../test/fixtures/free-port.ts';
import type { LauncherProcess } from '../test/fixtures/launcher-process.ts';
import { migrationCommonName, ProxyNode, TestMove } from '../test/fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../test/fixtures/rooted-launcher.ts';
import { socketFileOf } from '../test/fixtures/scripted-launcher.ts';
import { readAgentState } from './agent-state.ts';
import type { Figure } from './figures.ts';
import { lateness } from './scrape-bench.ts';

export interface MigrationLoopOptions {
  /** Turns of each kind; one more of each warms up. */
  readonly runs: number;
  readonly secondsEach: number;
  readonly say: (text: string) => void;
}

/** The sockets that proxies lead from and to. */
interface Ends {
  readonly from: string;
  readonly to: string;
}

/** What goes on meanwhile. `megabytesPerSecond` is the most; 0: as fast as can be. */
interface Turn {
  readonly name: string;
  readonly stream?: Ends & { readonly megabytesPerSecond: number };
}

interface Node {
  readonly bench: AgentBench;
  /** Of its metrics. */
  readonly port: number;
}

type Nodes = readonly [source: Node, target: Node];

interface Sample {
  /** Of timers on average, by node. */
  readonly lateMs: readonly [source: number, target: number];
  readonly megabytesPerSecond: number;
}

type Cleanup = { after: (work: () => unknown) => void };

const role = 49_152;
const slowMegabytesPerSecond = 50;
const patienceMs = 120_000;
const name = 'moving';
const migrationUid = '5b1f6d3c-0000-4000-8000-000000000009';

/**
 * How late timers are in two agents, as programs, while a guest of theirs moves and its stream runs through the proxies that they have
 * started; without a stream; and while the same stream runs through proxies of nobody, so that what the processor's time does is seen apart.
 */
export async function migrationLoopBench({ runs, secondsEach, say }: MigrationLoopOptions): Promise<Figure[]> {
  const ends: (() => unknown)[] = [];
  const t = { after: (work: () => unknown) => void ends.unshift(work) };
  try {
    const authority = await TestAuthority.make();
    t.after(() => authority.remove());
    const nodes = await startNodes(t, authority);
    const turns = turnsOf(await moved(...nodes), await proxiesOfNobody(t, authority));
    const samples = turns.map((): Sample[] => []);
    for (let run = 0; run <= runs; run++) {
      for (const [index, turn] of turns.entries()) {
        const sample = await take(turn, nodes, 1_000 * secondsEach);
        if (run > 0) samples[index]?.push(sample);
        const { lateMs, megabytesPerSecond } = sample;
        const late = lateMs.map((ms) => `${ms.toFixed(2)} ms`).join(' and ');
        say(
          `${run === 0 ? 'warm-up' : `run ${run}`}, ${turn.name}: ${late} late, ${megabytesPerSecond.toFixed(0)} MB/s`,
        );
      }
    }
    for (const { bench } of nodes) {
      const { eventLoopDelayMs } = await readAgentState(bench.program.privateDir);
      say(`${bench.program.nodeName}, all the time: ${JSON.stringify(eventLoopDelayMs)}`);
    }
    return turns.flatMap((turn, index) => figuresOf(turn, samples[index] ?? []));
  } finally {
    for (const end of ends) await end();
  }
}

function turnsOf(own: Ends, others: Ends): Turn[] {
  const slow = `${slowMegabytesPerSecond} MB/s`;
  return [
    { name: 'no stream' },
    { name: 'full speed', stream: { ...own, megabytesPerSecond: 0 } },
    { name: 'full speed, not its proxies', stream: { ...others, megabytesPerSecond: 0 } },
    { name: slow, stream: { ...own, megabytesPerSecond: slowMegabytesPerSecond } },
    { name: `${slow}, not its proxies`, stream: { ...others, megabytesPerSecond: slowMegabytesPerSecond } },
  ];
}

function figuresOf({ name, stream }: Turn, samples: readonly Sample[]): Figure[] {
  return [
    { name: `${name}: late at the source`, unit: 'ms', samples: samples.map(({ lateMs }) => lateMs[0]) },
    { name: `${name}: late at the target`, unit: 'ms', samples: samples.map(({ lateMs }) => lateMs[1]) },
    ...(stream
      ? [{ name: `${name}: both hops`, unit: 'MB/s' as const, samples: samples.map((each) => each.megabytesPerSecond) }]
      : []),
  ];
}

/** Two nodes of one cluster: agents as programs. */
async function startNodes(t: Cleanup, authority: TestAuthority): Promise<Nodes> {
  const api = await embeddedLoopApi();
  t.after(() => api.stop());
  await api.admin.post('/api/v1/namespaces/kubevirt/configmaps', {
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubevirt-ca', namespace: 'kubevirt' } },
    data: { 'ca-bundle': authority.pair.cert },
  });
  const start = async (node: string): Promise<Node> => {
    const port = await freePort();
    const flags = [...(await certificateFlags(authority, node)), '--live-migration=true', '--port', String(port)];
    const bench = await AgentBench.start(api, { node, flags });
    t.after(() => endAll(bench));
    return { bench, port };
  };
  return [await start('node1'), await start('node2')];
}

async function certificateFlags(authority: TestAuthority, node: string): Promise<string[]> {
  const identities = [
    ['tls', { commonName: serverCommonName, usage: 'serverAuth' }],
    ['client', { commonName: clientCommonName }],
    ['migration-client', { commonName: migrationCommonName }],
  ] as const;
  const flags: string[] = [];
  for (const [identity, request] of identities) {
    const { cert, key } = await authority.issue(request);
    const file = path.join(authority.dir, `${node}-${identity}`);
    writeFileSync(`${file}.crt`, cert);
    writeFileSync(`${file}.key`, key, { mode: 0o600 });
    flags.push(`--${identity}-cert-file`, `${file}.crt`, `--${identity}-key-file`, `${file}.key`);
  }
  return flags;
}

/** Its proxies outlive an agent. */
async function endAll(bench: AgentBench): Promise<void> {
  await bench.killAgent();
  const records = path.join(bench.program.privateDir, 'migration-proxies');
  for (const file of readdirSync(records).filter((name) => name.endsWith('.json'))) {
    process.kill(JSON.parse(readFileSync(path.join(records, file), 'utf8')).process.pid, 'SIGKILL');
  }
  await bench.dispose();
}

/** A guest that is on its way from one node to the other, and goes on so. The ends of the stream for its memory. */
async function moved({ bench: from }: Node, { bench: to }: Node): Promise<Ends> {
  const { launcher, uid } = await from.play(name, { migrates: true });
  const pod = `pod-${name}-2`;
  const target = await to.launchers.start(socketFileOf(to.program.podsDir, pod), {
    ...{ ownRun: true, play: { migrates: true } },
  });
  await from.patch(name, {
    metadata: { labels: { 'kubevirt.io/migrationTargetNodeName': 'node2' } },
    status: {
      activePods: { [pod]: 'node2' },
      migrationState: {
        ...{ migrationUid, sourceNode: 'node1', targetNode: 'node2' },
        ...{ sourcePod: 'virt-launcher-1', targetPod: 'virt-launcher-2' },
      },
    },
  });
  await eventually(async () => {
    const { status } = await from.read(name);
    assert.ok(status?.migrationState?.startTimestamp, JSON.stringify(status?.migrationState));
  }, patienceMs);
  const socketOf = ({ pid }: LauncherProcess) =>
    `/proc/${pid}/root/run/kubevirt/migrationproxy/${uid}-${role}-source.sock`;
  // A launcher's own work, which the scripted one leaves.
  mkdirSync(path.dirname(socketOf(target)), { recursive: true });
  return { from: socketOf(launcher), to: socketOf(target) };
}

async function proxiesOfNobody(t: Cleanup, authority: TestAuthority): Promise<Ends> {
  const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
  const move = new TestMove(await ProxyNode.make(t, authority), await ProxyNode.make(t, authority), [
    source.pid,
    target.pid,
  ]);
  await move.open([0, role]);
  const socket = `${move.uid}-${role}-source.sock`;
  return { from: source.socket(socket), to: target.socket(socket) };
}

/** Receives in a process of its own, and says how many bytes it has got when it is asked to. */
const receiver = `
  const [, socket] = process.argv;
  const fs = require('node:fs');
  let bytes = 0;
  fs.rmSync(socket, { force: true });
  const server = require('node:net').createServer((from) => from.on('data', ({ length }) => { bytes += length; }));
  server.listen(socket, () => { fs.chmodSync(socket, 0o777); process.stdout.write('0\\n'); });
  process.stdin.on('data', () => process.stdout.write(bytes + '\\n'));
`;

const sender = `
  const [, socket, rate] = process.argv;
  const piece = Buffer.alloc(1e6, 7);
  const began = performance.now();
  let sent = 0;
  const to = require('node:net').connect(socket).resume();
  const write = () => {
    for (;;) {
      const dueMs = rate === '0' ? 0 : began + (1e3 * sent) / Number(rate) - performance.now();
      if (dueMs > 1) return void setTimeout(write, dueMs);
      sent++;
      if (!to.write(piece)) return void to.once('drain', write);
    }
  };
  to.on('connect', write);
`;

async function take({ stream }: Turn, nodes: Nodes, ms: number): Promise<Sample> {
  const started = stream && (await startStream(stream));
  // The stream has begun, and its handshake is over.
  await sleep(1_000);
  const [before, bytesBefore, beganMs] = [await lateOf(nodes), await started?.bytes(), performance.now()];
  await sleep(ms);
  const [after, bytesAfter] = [await lateOf(nodes), await started?.bytes()];
  const seconds = (performance.now() - beganMs) / 1_000;
  await started?.end();
  const lateMs = (index: 0 | 1) =>
    (after[index].lateMs - before[index].lateMs) / Math.max(1, after[index].looks - before[index].looks);
  return {
    lateMs: [lateMs(0), lateMs(1)],
    megabytesPerSecond: ((bytesAfter ?? 0) - (bytesBefore ?? 0)) / 1e6 / seconds,
  };
}

async function lateOf([source, target]: Nodes) {
  return [await lateness(source.port), await lateness(target.port)] as const;
}

async function startStream({ from, to, megabytesPerSecond }: NonNullable<Turn['stream']>) {
  const receiving = spawn(process.execPath, ['-e', receiver, to], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(receiving.stdout, 'data');
  const sending = spawn(process.execPath, ['-e', sender, from, String(megabytesPerSecond)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const end = async (child: ChildProcess) => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  return {
    async bytes(): Promise<number> {
      receiving.stdin.write('\n');
      const [text] = await once(receiving.stdout, 'data');
      return Number(text);
    },
    async end(): Promise<void> {
      await end(sending);
      await end(receiving);
    },
  };
}
