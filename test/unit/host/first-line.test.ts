import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { readFirstLine } from '../../../src/host/index.ts';

const never = new AbortController().signal;

test('a line that comes in pieces is read, and what follows it stays in the stream', async () => {
  const stream = new PassThrough();
  const reading = readFirstLine(stream, 8, never);
  for (const piece of ['tc', 'p 2', '2\nby', 'tes\n']) stream.write(piece);
  stream.end();
  assert.equal(await reading, 'tcp 22');
  assert.equal(String(Buffer.concat(await stream.toArray())), 'bytes\n');
});

test('an end before the line, a line that is too long, and a caller that leaves reject', async () => {
  const ended = new PassThrough();
  ended.end('tcp');
  await assert.rejects(readFirstLine(ended, 8, never), { code: 'ENDED' });
  for (const text of ['123456789', '123456789\n']) {
    const long = new PassThrough();
    long.write(text);
    await assert.rejects(readFirstLine(long, 8, never), { code: 'TOO_LONG' });
  }
  const gone = new AbortController();
  const silent = new PassThrough();
  const reading = readFirstLine(silent, 8, gone.signal);
  gone.abort(new Error('gone'));
  await assert.rejects(reading, /gone/);
  await assert.rejects(readFirstLine(silent, 8, gone.signal), /gone/);
  assert.equal(silent.listenerCount('data') + silent.listenerCount('close'), 0);
});
