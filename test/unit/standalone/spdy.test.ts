import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { constants, createDeflate, createInflate, inflateSync } from 'node:zlib';
import fc from 'fast-check';
import { headerDictionary } from '../../../src/standalone/spdy/dictionary.ts';
import { controlFrame, dataFrame, FrameReader, numbersFrame } from '../../../src/standalone/spdy/frames.ts';
import { EmptyHeaderWriter, HeaderReader, parseHeaders } from '../../../src/standalone/spdy/header-block.ts';

describe('frames of SPDY/3.1', () => {
  test('have these bytes', () => {
    assert.equal(dataFrame(5, Buffer.from('ab')).toString('hex'), '00000005000000026162');
    assert.equal(dataFrame(5, Buffer.alloc(0), true).toString('hex'), '0000000501000000');
    assert.equal(numbersFrame(3, 7, 5).toString('hex'), '8003000300000008' + '0000000700000005');
    assert.equal(controlFrame(6, Buffer.from([0, 0, 0, 1])).toString('hex'), '800300060000000400000001');
  });

  test('are read whatever pieces they come in', () => {
    const sent = Buffer.concat([
      dataFrame(1, Buffer.from('hello'), true),
      numbersFrame(3, 1, 5),
      dataFrame(3, Buffer.from('x')),
    ]);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 40, maxLength: 40 }), (sizes) => {
        const reader = new FrameReader();
        let at = 0;
        const frames = sizes.flatMap((size) => {
          const found = [...reader.read(sent.subarray(at, at + size))];
          at += size;
          return found.map(({ kind, flags, payload }) => `${kind} ${flags} ${payload.toString('hex')}`);
        });
        assert.deepEqual(frames, ['data 1 68656c6c6f', 'control 0 0000000100000005', 'data 0 78']);
      }),
    );
  });

  for (const [what, hex] of [
    ['another version', '8002000100000000'],
    ['a control frame of more than 64 KiB', '8003000100010001'],
    ['a data frame of more than 1 MiB', '0000000100100001'],
  ] as const) {
    test(`${what} is refused`, () => {
      assert.throws(() => [...new FrameReader().read(Buffer.from(hex, 'hex'))], { name: 'SpdyError' });
    });
  }
});

describe('header blocks', () => {
  function blockOf(headers: Readonly<Record<string, string>>): Buffer {
    const number = (value: number) => Buffer.from([0, 0, value >> 8, value & 0xff]);
    const parts = Object.entries(headers).flatMap(([name, value]) => [
      number(name.length),
      Buffer.from(name),
      number(value.length),
      Buffer.from(value),
    ]);
    return Buffer.concat([number(Object.keys(headers).length), ...parts]);
  }

  async function packed(deflate: ReturnType<typeof createDeflate>, bytes: Buffer): Promise<Buffer> {
    deflate.write(bytes);
    await new Promise<void>((resolve) => deflate.flush(constants.Z_SYNC_FLUSH, () => resolve()));
    return deflate.read() as Buffer;
  }

  test('are one stream of zlib, with names in small letters', async () => {
    const deflate = createDeflate({ dictionary: headerDictionary });
    const reader = new HeaderReader();
    for (const port of ['22', '80', '5353']) {
      const block = await packed(deflate, blockOf({ streamType: 'data', port }));
      assert.deepEqual(
        [...(await reader.read(block))],
        [
          ['streamtype', 'data'],
          ['port', port],
        ],
      );
    }
    reader.close();
  });

  test('that unpack to more than 64 KiB are refused', async () => {
    const deflate = createDeflate({ dictionary: headerDictionary });
    const bomb = await packed(deflate, Buffer.alloc(10 * 1024 * 1024));
    assert.ok(bomb.length < 64 * 1024, `${bomb.length} bytes`);
    await assert.rejects(new HeaderReader().read(bomb), { code: 'TOO_LARGE' });
  });

  test('that are no zlib, or are cut off, are refused', async () => {
    await assert.rejects(new HeaderReader().read(Buffer.from('no zlib at all')), { code: 'MALFORMED' });
    for (const hex of ['', '000000', '00000001', '0000000100000005616263', 'ffffffff']) {
      assert.throws(() => parseHeaders(Buffer.from(hex, 'hex')), { code: 'MALFORMED' }, hex);
    }
  });

  test('that hold nothing are read by zlib, one after the other', async () => {
    const writer = new EmptyHeaderWriter();
    const inflate = createInflate({ dictionary: headerDictionary });
    const out = new PassThrough();
    inflate.pipe(out);
    for (const _each of [1, 2, 3]) {
      inflate.write(writer.block());
      const [heard] = (await once(out, 'data')) as [Buffer];
      assert.equal(heard.toString('hex'), '00000000');
    }
    inflate.destroy();
    const whole = inflateSync(new EmptyHeaderWriter().block(), {
      dictionary: headerDictionary,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    assert.equal(whole.length, 4);
  });
});
