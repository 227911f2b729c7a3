import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { directoryPodLogs } from '../../../src/apiserver/index.ts';
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

function read(tailLines: number | undefined, signal = never) {
  const which = { namespace: 'n', pod: 'p', uid: 'uid-1', container: 'compute' };
  return directoryPodLogs(dir).read({ ...which, follow: false, tailLines, limitBytes: undefined }, signal);
}

async function text(tailLines: number | undefined): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of (await read(tailLines)) ?? []) chunks.push(chunk as Buffer);
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

async function empty(): Promise<string> {
  await writeFile(file, '');
  return file;
}
