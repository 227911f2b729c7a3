import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { clientCommonName, serverCommonName } from '../src/tls/index.ts';
import { TestAuthority } from '../test/fixtures/certificates.ts';
import { buildGoProxy, findGo, startGoHop } from '../test/fixtures/go-proxy.ts';
import { ProxyNode, TestMove } from '../test/fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../test/fixtures/rooted-launcher.ts';
import type { Figure } from './figures.ts';

export interface MigrationBenchOptions {
  readonly runs: number;
  readonly megabytes: number;
  readonly say: (text: string) => void;
}

/** Both hops of one way for a migration's memory: a socket to send to, and processes to look at. */
interface Way {
  readonly name: string;
  readonly socket: string;
  readonly pids: readonly [source: number, target: number];
}

interface Sample {
  readonly megabytesPerSecond: number;
  /** CPU seconds per 10^9 bytes. */
  readonly cpu: readonly [source: number, target: number];
}

const ticksPerSecond = 100;
const role = 49_152;

/** A hop at the source and one at the target, unix → TCP with mutual TLS → unix, by ours and, where Go is, by a program of upstream's pattern. */
export async function migrationBench({ runs, megabytes, say }: MigrationBenchOptions): Promise<Figure[]> {
  const ends: (() => unknown)[] = [];
  const t = { after: (work: () => unknown) => void ends.unshift(work) };
  const authority = await TestAuthority.make();
  ends.push(() => authority.remove());
  try {
    const sink = { bytes: 0, onBytes: () => {} };
    const ways = await makeWays(t, authority, (bytes) => {
      sink.bytes += bytes;
      sink.onBytes();
    });
    if (ways.length === 1) say('Go is not there: nothing is compared');
    const samples = new Map(ways.map(({ name }) => [name, [] as Sample[]]));
    // The first of each warms up; then one after the other, so that a busy minute of the machine is everybody's.
    for (let run = 0; run <= runs; run++) {
      for (const way of ways) {
        const sample = await measure(way, sink, megabytes);
        if (run > 0) samples.get(way.name)?.push(sample);
        say(`${run === 0 ? 'warm-up' : `run ${run}`}, ${way.name}: ${sample.megabytesPerSecond.toFixed(0)} MB/s`);
      }
    }
    return ways.flatMap(({ name, pids }) => figuresOf(name, samples.get(name) ?? [], pids));
  } finally {
    for (const end of ends) await end();
  }
}

type Cleanup = { after: (work: () => unknown) => void };

async function makeWays(t: Cleanup, authority: TestAuthority, onBytes: (bytes: number) => void): Promise<Way[]> {
  const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
  const [from, to] = [await ProxyNode.make(t, authority), await ProxyNode.make(t, authority)];
  const move = new TestMove(from, to, [source.pid, target.pid]);
  const name = `${move.uid}-${role}-source.sock`;
  await target.serve(target.socket(name), (socket) => {
    socket.on('data', ({ length }: Buffer) => onBytes(length));
    socket.on('end', () => socket.end());
  });
  await move.open([0, role]);
  const [sourcePid = 0, targetPid = 0] = [from.pids[0], to.pids[0]];
  const ours: Way = { name: 'HAProxy', socket: source.socket(name), pids: [sourcePid, targetPid] };
  const go = findGo();
  return go === undefined ? [ours] : [ours, await goWay(t, go, { authority, node: to, sink: target.socket(name) })];
}

async function goWay(
  t: Cleanup,
  go: string,
  { authority, node, sink }: { authority: TestAuthority; node: ProxyNode; sink: string },
): Promise<Way> {
  const program = buildGoProxy(go);
  const authorityFile = path.join(authority.dir, 'ca.crt');
  writeFileSync(authorityFile, authority.pair.cert);
  const { server, client } = node.certificates;
  const socket = path.join(authority.dir, 'go.sock');
  const target = await startGoHop(program, {
    ...{ side: 'target', listen: '127.0.0.1:0', dial: sink, pair: server, authorityFile, peer: clientCommonName },
  });
  t.after(() => target.child.kill('SIGKILL'));
  const source = await startGoHop(program, {
    ...{ side: 'source', listen: socket, dial: target.address, pair: client, authorityFile, peer: serverCommonName },
  });
  t.after(() => source.child.kill('SIGKILL'));
  return { name: `Go, upstream's pattern`, socket, pids: [source.child.pid ?? 0, target.child.pid ?? 0] };
}

/** In a process of its own: it must not slow down the one that receives. */
const sender = `
  const [, socket, megabytes] = process.argv;
  const piece = Buffer.alloc(1e6, 7);
  const to = require('node:net').connect(socket);
  let left = Number(megabytes);
  const write = () => {
    while (left-- > 0) if (!to.write(piece)) return;
    to.end();
  };
  to.on('drain', write).on('connect', write).resume();
`;

async function measure(way: Way, sink: { bytes: number; onBytes: () => void }, megabytes: number): Promise<Sample> {
  const cpuBefore = way.pids.map(cpuSeconds);
  sink.bytes = 0;
  let beganMs = 0;
  const all = new Promise<number>((resolve) => {
    sink.onBytes = () => {
      if (beganMs === 0) beganMs = performance.now();
      if (sink.bytes >= megabytes * 1e6) resolve(performance.now());
    };
  });
  const child = spawn(process.execPath, ['-e', sender, way.socket, String(megabytes)], { stdio: 'inherit' });
  const exited = once(child, 'exit');
  const endedMs = await all;
  await exited;
  const [source = 0, target = 0] = way.pids.map(
    (pid, at) => (cpuSeconds(pid) - (cpuBefore[at] ?? 0)) / (megabytes / 1e3),
  );
  return { megabytesPerSecond: (megabytes * 1e3) / (endedMs - beganMs), cpu: [source, target] };
}

export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

export function residentMegabytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 976.5625;
}

function figuresOf(name: string, samples: readonly Sample[], pids: Way['pids']): Figure[] {
  return [
    { name: `${name}: both hops`, unit: 'MB/s', samples: samples.map(({ megabytesPerSecond }) => megabytesPerSecond) },
    { name: `${name}: CPU of the source`, unit: 'ms/GB', samples: samples.map(({ cpu }) => 1e3 * cpu[0]) },
    { name: `${name}: CPU of the target`, unit: 'ms/GB', samples: samples.map(({ cpu }) => 1e3 * cpu[1]) },
    { name: `${name}: memory of the source`, unit: 'MB', samples: [residentMegabytes(pids[0])] },
    { name: `${name}: memory of the target`, unit: 'MB', samples: [residentMegabytes(pids[1])] },
  ];
}
