import assert from 'node:assert/strict';
import { appendFile, mkdir, mkdtemp, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { directoryPodLogs, type PodLogQuery } from '../../../src/apiserver/index.ts';
import { noteTime, readLogTimes } from '../../../src/host/log-times.ts';
import { descriptorsOf } from '../../fixtures/descriptors.ts';
import { eventually } from '../../fixtures/eventually.ts';

let dir: string;
let file: string;

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'pod-logs-'));
  file = path.join(dir, 'uid-1', 'compute.log');
  await mkdir(path.dirname(file));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const never = new AbortController().signal;

function read(tailLines: number | undefined, signal = never, more: Partial<PodLogQuery> = {}) {
  const which = { namespace: 'n', pod: 'p', uid: 'uid-1', container: 'compute' };
  const whole = { follow: false, limitBytes: undefined, sinceMs: undefined, timestamps: false };
  return directoryPodLogs(dir).read({ ...which, ...whole, tailLines, ...more }, signal);
}

async function text(tailLines: number | undefined, more: Partial<PodLogQuery> = {}): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of (await read(tailLines, never, more)) ?? []) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const lines = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}\n`).join('');

describe('the last lines of a log', () => {
  test('are as many as were asked for, or all there are', async () => {
    await writeFile(file, lines(1, 20_000));
    assert.equal(await text(3), lines(19_998, 20_000));
    assert.equal(await text(15_000), lines(5_001, 20_000));
    for (const all of [20_000, 1_000_000, undefined]) assert.equal(await text(all), lines(1, 20_000));
    assert.equal(await text(0), '');
  });

  test('are looked for in the last 16 MiB only, however large the log says it is', async () => {
    await truncate(await empty(), 2 ** 42);
    let bytes = 0;
    for await (const chunk of (await read(1, AbortSignal.timeout(20_000))) ?? []) bytes += (chunk as Buffer).length;
    assert.equal(bytes, 16 * 1024 * 1024);
  });

  test('are not looked for once the client has left, and the file is closed', async () => {
    await truncate(await empty(), 2 ** 30);
    const before = descriptorsOf(process.pid).all;
    const left = AbortSignal.abort(new Error('the client left'));
    await assert.rejects(read(1, left), /the client left/);
    assert.equal(descriptorsOf(process.pid).all, before);
  });

  test('leave no file open when nobody reads them', async () => {
    await writeFile(file, lines(1, 10));
    const before = descriptorsOf(process.pid).all;
    const stream = await read(1);
    stream?.destroy();
    await eventually(async () => assert.equal(descriptorsOf(process.pid).all, before), 5_000);
  });
});

describe('the times of a log', () => {
  const at = (second: number) => new Date(Date.UTC(2026, 10, 25, 12, 0, second));
  const grow = async (added: string, second: number) => {
    await appendFile(file, added);
    await noteTime(file, at(second).getTime());
    await utimes(file, at(second), at(second));
  };
  beforeEach(async () => {
    await grow('first\nsecond\nthi', 1);
    await grow('rd\n', 10);
    await grow('fourth\n', 20);
  });

  test('are those at which their lines were whole, as kubelets write them', async () => {
    const stamp = (second: string) => `2026-11-25T12:00:${second}.000000000Z`;
    const whole = [`${stamp('01')} first`, `${stamp('01')} second`, `${stamp('10')} third`, `${stamp('20')} fourth`];
    assert.equal(await text(undefined, { timestamps: true }), `${whole.join('\n')}\n`);
    assert.equal(await text(1, { timestamps: true }), `${whole[3]}\n`);
    assert.equal((await text(undefined, { timestamps: true, limitBytes: 40 })).length, 40);
  });

  test('say which lines are of a time or later, each as a whole', async () => {
    const since = (second: number, tail?: number) => text(tail, { sinceMs: at(second).getTime() });
    assert.equal(await since(0), 'first\nsecond\nthird\nfourth\n');
    assert.equal(await since(1), 'first\nsecond\nthird\nfourth\n');
    assert.equal(await since(5), 'third\nfourth\n');
    assert.equal(await since(15), 'fourth\n');
    assert.equal(await since(15, 3), 'fourth\n');
    assert.equal(await since(5, 1), 'fourth\n');
    assert.equal(await since(21), '');
  });

  test('begin anew with the log, are a second apart, and stay few', async () => {
    await writeFile(file, '');
    await grow('anew\n', 30);
    assert.equal(await text(undefined, { timestamps: true }), '2026-11-25T12:00:30.000000000Z anew\n');
    const many = Array.from({ length: 10_000 }, (_, index) => `${index} ${at(index).getTime()}\n`);
    await writeFile(`${file}.times`, many.join(''));
    await writeFile(file, 'x'.repeat(20_000));
    await noteTime(file, at(10_000).getTime());
    const noted = await readLogTimes(file);
    assert.deepEqual([noted.length, noted[0]?.bytes], [5_001, 1]);
    assert.deepEqual(noted.at(-1), { bytes: 20_000, atMs: at(10_000).getTime() });
    await appendFile(file, 'y');
    await noteTime(file, at(10_000).getTime() + 999);
    assert.deepEqual(await readLogTimes(file), noted);
  });

  test('are known of what came before a pause, too, although it came soon after something else', async () => {
    const ms = (second: number) => at(second).getTime();
    const last = await noteTime(file, ms(30));
    await appendFile(file, 'fifth\n');
    const fifth = await noteTime(file, ms(20) + 400, last);
    // A look that finds nothing new.
    const looked = await noteTime(file, ms(20) + 800, fifth);
    const before = await readLogTimes(file);
    await appendFile(file, 'sixth\n');
    await noteTime(file, ms(90), looked);
    const added = [
      { bytes: 32, atMs: ms(20) + 400 },
      { bytes: 38, atMs: ms(90) },
    ];
    assert.deepEqual(await readLogTimes(file), [...before, ...added]);
  });
});

test('a log that is followed goes on when it begins anew', async () => {
  await writeFile(file, lines(1, 100));
  const ended = new AbortController();
  const stream = await read(undefined, ended.signal, { follow: true });
  let seen = '';
  stream?.on('data', (chunk: Buffer) => {
    seen += chunk;
  });
  await eventually(() => assert.equal(seen, lines(1, 100)), 5_000);
  await truncate(file, 0);
  await appendFile(file, 'anew\n');
  await eventually(() => assert.equal(seen, `${lines(1, 100)}anew\n`), 5_000);
  ended.abort();
});

async function empty(): Promise<string> {
  await writeFile(file, '');
  return file;
}
