import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import fc from 'fast-check';
import { FormFile } from '../../../../src/standalone/data-volumes/form-file.ts';

const type = 'multipart/form-data; boundary="edge"';

async function fileIn(pieces: readonly Uint8Array[], contentType = type): Promise<string> {
  return (await buffer(Readable.from(pieces.map(Buffer.from)).compose(new FormFile(contentType)))).toString('latin1');
}

const field = (name: string, content: string) =>
  `--edge\r\nContent-Disposition: form-data; name="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n${content}\r\n`;

test('the file of a form is what was sent, in whatever pieces it comes', () =>
  fc.assert(
    fc.asyncProperty(
      fc.string({ unit: fc.constantFrom('\r', '\n', '-', 'e', 'edge', '\r\n--edg', 'x') }),
      fc.integer({ min: 1, max: 40 }),
      async (content, size) => {
        fc.pre(!`\r\n${content}\r\n`.includes('\r\n--edge'));
        const form = Buffer.from(
          `before\r\n${field('other', 'x')}${field('file', content)}--edge--\r\nbehind`,
          'latin1',
        );
        const pieces = Array.from({ length: Math.ceil(form.length / size) }, (_, at) =>
          form.subarray(at * size, (at + 1) * size),
        );
        assert.equal(await fileIn(pieces), content);
      },
    ),
  ));

const refusals: readonly (readonly [what: string, form: string, contentType: string, why: RegExp])[] = [
  ['no form', 'x', 'application/octet-stream', /is no form/],
  ['no boundary', 'x', 'multipart/form-data', /is no form/],
  ['a long boundary', 'x', `multipart/form-data; boundary=${'x'.repeat(71)}`, /is no form/],
  ['nothing', '', type, /ends before its last boundary/],
  ['a form without a file', `${field('other', 'x')}--edge--`, type, /has no field file/],
  ['a form with two', `${field('file', 'x')}${field('file', 'y')}--edge--`, type, /has two fields file/],
  ['one that is cut off', field('file', 'x'), type, /ends before its last boundary/],
  ['a boundary that goes on', '--edge, and more\r\n', type, /something behind a boundary/],
  ['a head without end', `--edge\r\n${'x'.repeat(9_000)}`, type, /a long head/],
];
for (const [what, form, contentType, why] of refusals) {
  test(`${what} is refused in words`, () =>
    assert.rejects(async () => fileIn([Buffer.from(form)], contentType), { code: 'DISK_REFUSED', message: why }));
}
