import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeWith, encodeWith } from '../../../src/libvirt/codec.ts';
import { clientError, fromWireError, wireError } from '../../../src/libvirt/error.ts';
import { formatLibvirtError, isLibvirtError } from '../../../src/libvirt/index.ts';

const noDomain =
  '0000002a 0000000c 00000001 00000010 446f6d61696e206e6f7420666f756e64 00000002 00000000 00000000 00000000 00000000 ffffffff ffffffff 00000000';

test('an error of the daemon is read field by field and keeps its numbers', () => {
  const wire = decodeWith(wireError, Buffer.from(noDomain.replaceAll(' ', ''), 'hex'));
  assert.equal(encodeWith(wireError, wire).toString('hex'), noDomain.replaceAll(' ', ''));
  const error = fromWireError(wire);
  assert.equal(error.code, 'NO_DOMAIN');
  assert.equal(error.libvirtCode, 42);
  assert.equal(error.domainCode, 12);
  assert.equal(error.level, 2);
  assert.equal(error.message, 'Domain not found');
  assert.equal(formatLibvirtError(error), "LibvirtError(Code=42, Domain=12, Message='Domain not found')");
});

test('a number without a name is LIBVIRT_ERROR, and a missing message is said to be missing', () => {
  const wire = decodeWith(wireError, Buffer.from(noDomain.replaceAll(' ', ''), 'hex'));
  const error = fromWireError({ ...wire, code: 9999, message: undefined });
  assert.equal(error.code, 'LIBVIRT_ERROR');
  assert.equal(error.libvirtCode, 9999);
  assert.match(error.message, /9999/);
});

test('errors made on this side are told by code and carry a number for the text form', () => {
  const cause = new Error('why');
  const error = clientError('CONNECTION_LOST', 'gone', cause);
  assert.equal(error.cause, cause);
  assert.equal(isLibvirtError(error), true);
  assert.equal(isLibvirtError(error, 'NO_DOMAIN', 'CONNECTION_LOST'), true);
  assert.equal(isLibvirtError(error, 'NO_DOMAIN'), false);
  assert.equal(isLibvirtError(cause), false);
  assert.equal(formatLibvirtError(error), "LibvirtError(Code=1, Domain=7, Message='gone')");
});
