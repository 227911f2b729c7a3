import assert from 'node:assert/strict';
import { test } from 'node:test';
import { responseMessage } from '../../../src/launcher/cmd-server/respond.ts';
import { LauncherError } from '../../../src/launcher/errors.ts';
import { LibvirtError } from '../../../src/libvirt/index.ts';

function qemuFailure(time: string): LibvirtError {
  const text = `internal error: process exited while connecting to monitor: ${time} qemu-system-x86_64: no room`;
  return new LibvirtError('LIBVIRT_ERROR', text, { libvirtCode: 1, domainCode: 10, level: 2 });
}

test('the same failure of QEMU gives the same text, whenever it happens', () => {
  const first = responseMessage(qemuFailure('2026-11-21T04:23:35.765563Z'));
  assert.equal(first, responseMessage(qemuFailure('2026-11-21T04:23:36.000001Z')));
  assert.equal(
    first,
    "LibvirtError(Code=1, Domain=10, Message='internal error: process exited while connecting to monitor: qemu-system-x86_64: no room')",
  );
});

test('other errors are answered with their text', () => {
  assert.equal(responseMessage(new LauncherError('BUSY', 'try again')), 'try again');
  assert.equal(responseMessage('plain'), 'plain');
});
