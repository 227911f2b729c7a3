import assert from 'node:assert/strict';
import { test } from 'node:test';
import { vhostmdDiskBytes, vhostmdWrites } from '../../../src/api/index.ts';

test('the disk is locked, then gets its body, then is opened: byte by byte', () => {
  const [locked, body, open, ...others] = vhostmdWrites('<metrics></metrics>');
  const sum = [...Buffer.from('<metrics></metrics>\n')].reduce((total, byte) => total + byte, 0);
  const header = (flag: string) => `6d766264${flag}${sum.toString(16).padStart(8, '0')}00000014`;
  assert.deepEqual(others, []);
  assert.deepEqual([locked?.at, body?.at, open?.at], [0, 16, 0]);
  assert.equal(Buffer.from(locked?.bytes ?? []).toString('hex'), header('00000001'));
  assert.equal(Buffer.from(body?.bytes ?? []).toString(), '<metrics></metrics>\n');
  assert.equal(Buffer.from(open?.bytes ?? []).toString('hex'), header('00000000'));
});

test('a body that does not fit is refused', () => {
  assert.equal(vhostmdWrites('x'.repeat(vhostmdDiskBytes - 25)).length, 3);
  assert.throws(() => vhostmdWrites('x'.repeat(vhostmdDiskBytes - 24)), RangeError);
});
