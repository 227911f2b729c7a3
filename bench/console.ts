import { sleep } from '../src/base/index.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import type { AgentUnderTest } from './agent-under-test.ts';
import type { ConsoleStage } from './console-stage.ts';
import { clientFrame, RawWebsocket } from './raw-websocket.ts';
import { forEach } from './vmis.ts';

/** Figures of byte streams through one agent. MB are 1,000,000 bytes, as upstream's figures are. */

const plain = 'plain.kubevirt.io';
const session = 'session.virt-handler.io';
const megabyte = 1_000_000;
const block = Buffer.alloc(65_536, 'console ');
const blockFrame = clientFrame(block);

const command = (text: string) => clientFrame(Buffer.from(`${text}\n`));

export interface Throughput {
  readonly megabytesPerSecond: number;
  /** Of the agent, user and system time. */
  readonly cpuMsPerGigabyte: number;
}

async function timed(agent: AgentUnderTest, bytes: number, work: () => Promise<void>): Promise<Throughput> {
  const [startMs, cpuMs] = [monotonicMs(), agent.cpuMs()];
  await work();
  const tookMs = monotonicMs() - startMs;
  return {
    megabytesPerSecond: bytes / megabyte / (tookMs / 1000),
    cpuMsPerGigabyte: (agent.cpuMs() - cpuMs) / (bytes / (1000 * megabyte)),
  };
}

/** One keystroke after the other: sent, echoed by the guest, back. */
export async function roundTrips({ place, consolePath }: ConsoleStage, count: number): Promise<number[]> {
  const stream = await RawWebsocket.open(place, consolePath(0), plain);
  stream.send(command('echo'));
  const key = clientFrame(Buffer.from('x'));
  const samples: number[] = [];
  for (let number = 1; number <= count; number++) {
    const startMs = monotonicMs();
    stream.send(key);
    await stream.received(number);
    samples.push(monotonicMs() - startMs);
  }
  await stream.close();
  return samples.slice(Math.floor(count / 10));
}

/** A guest that prints as fast as it can. */
export async function guestToClient({ agent, place, consolePath }: ConsoleStage, bytes: number): Promise<Throughput> {
  const stream = await RawWebsocket.open(place, consolePath(0), plain);
  const result = await timed(agent, bytes, () => {
    stream.send(command(`flood ${bytes}`));
    return stream.received(bytes);
  });
  await stream.close();
  return result;
}

/** A client that pastes as fast as it can; ends when the guest has it all. */
export async function clientToGuest({ agent, place, consolePath }: ConsoleStage, bytes: number): Promise<Throughput> {
  const stream = await RawWebsocket.open(place, consolePath(0), plain);
  const frames = Math.ceil(bytes / block.length);
  const result = await timed(agent, frames * block.length, async () => {
    stream.send(command(`sink ${frames * block.length}`));
    for (let sent = 0; sent < frames; sent++) if (!stream.send(blockFrame)) await drained(stream);
    await stream.received('done\n'.length);
  });
  await stream.close();
  return result;
}

/** Everything comes back; counted once. */
export async function echoed({ agent, place, consolePath }: ConsoleStage, bytes: number): Promise<Throughput> {
  const stream = await RawWebsocket.open(place, consolePath(0), plain);
  const frames = Math.ceil(bytes / block.length);
  stream.send(command('echo'));
  const result = await timed(agent, frames * block.length, async () => {
    for (let sent = 0; sent < frames; sent++) if (!stream.send(blockFrame)) await drained(stream);
    await stream.received(frames * block.length);
  });
  await stream.close();
  return result;
}

async function drained({ socket }: RawWebsocket): Promise<void> {
  await new Promise((resolve) => socket.once('drain', resolve));
}

export interface ManySessions {
  readonly attachMs: readonly number[];
  /** Keystroke to echo, of all writers at the same time, with all sessions open. */
  readonly echoMs: readonly number[];
  readonly beforeMb: number;
  readonly openMb: number;
  /** Some seconds after the last has left. */
  readonly afterMb: number;
  readonly idleCpuPercent: number;
}

const parallelAttaches = 16;
const idleSeconds = 5;

/**
 * So many sessions over all VMIs but the first: of each VMI's the first writes and the others look on. The first one's line is
 * left to the streams: lines stay open for a while after such sessions.
 */
export async function manySessions(stage: ConsoleStage, sessions: number, vms: number): Promise<ManySessions> {
  const { agent, place, consolePath } = stage;
  const beforeMb = agent.residentMb();
  const streams: RawWebsocket[] = [];
  const writers: RawWebsocket[] = [];
  const numbers = Array.from({ length: sessions }, (_, number) => number);
  await forEach(numbers, parallelAttaches, async (number) => {
    const isWriter = number < vms;
    const query = isWriter ? '' : '?access=view';
    const stream = await RawWebsocket.open(place, `${consolePath(1 + (number % vms))}${query}`, session);
    streams.push(stream);
    if (!isWriter) return;
    writers.push(stream);
    stream.send(command('echo'));
  });
  await sleep(1_000);
  const openMb = agent.residentMb();
  const cpuMs = agent.cpuMs();
  await sleep(idleSeconds * 1000);
  const idleCpuPercent = (agent.cpuMs() - cpuMs) / (idleSeconds * 10);
  const echoMs = await Promise.all(writers.map((writer) => keystroke(writer)));
  await Promise.all(streams.map((stream) => stream.close()));
  await sleep(3_000);
  const attachMs = streams.map((stream) => stream.attachMs);
  return { attachMs, echoMs, beforeMb, openMb, afterMb: agent.residentMb(), idleCpuPercent };
}

/** Its echo; what came before it were notices. */
async function keystroke(stream: RawWebsocket): Promise<number> {
  const startMs = monotonicMs();
  await new Promise<void>((resolve) => {
    stream.onPayload = (part) => {
      if (part.includes(0x7e)) resolve();
    };
    stream.send(clientFrame(Buffer.from('~')));
  });
  stream.onPayload = undefined;
  return monotonicMs() - startMs;
}

export interface SlowReader {
  readonly beforeMb: number;
  /** Every 100 ms while the stream went on. */
  readonly residentMb: readonly number[];
  readonly tookMs: number;
}

const readEveryMs = 20;

/** A guest that floods a client that takes `bytesPerSecond` and no more. */
export async function slowReader(stage: ConsoleStage, bytes: number, bytesPerSecond: number): Promise<SlowReader> {
  const { agent, place, consolePath } = stage;
  const stream = await RawWebsocket.open(place, consolePath(0), plain);
  const beforeMb = agent.residentMb();
  const samples: number[] = [];
  const startMs = monotonicMs();
  const sampling = setInterval(() => samples.push(agent.residentMb()), 100);
  const pacing = setInterval(() => {
    const allowed = ((monotonicMs() - startMs) / 1000) * bytesPerSecond;
    if (stream.receivedBytes > allowed) stream.socket.pause();
    else stream.socket.resume();
  }, readEveryMs);
  stream.onPayload = () => {
    const allowed = ((monotonicMs() - startMs) / 1000) * bytesPerSecond;
    if (stream.receivedBytes > allowed) stream.socket.pause();
  };
  stream.send(command(`flood ${bytes}`));
  await stream.received(bytes).finally(() => {
    clearInterval(sampling);
    clearInterval(pacing);
  });
  await stream.close();
  return { beforeMb, residentMb: samples, tookMs: monotonicMs() - startMs };
}
