import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { test } from 'node:test';
import koffi from 'koffi';
import { closeInheritedDescriptors } from '../../../src/host/index.ts';

test('what another program left open goes to no program that is started here; what is open here stays so', () => {
  const own = openSync('/etc/hostname', 'r');
  // As inherited: without the mark that it is closed when a program is executed, and beyond those that Node.js sees to.
  const fcntl = koffi.load(null).func('int fcntl(int fd, int command, int value)');
  const inherited = Number(fcntl(own, 0, 200));
  assert.ok(inherited >= 200);
  const seen = () => spawnSync('/bin/sh', ['-c', 'readlink /proc/$$/fd/*'], { encoding: 'utf8' }).stdout;
  assert.match(seen(), /\/etc\/hostname/);
  closeInheritedDescriptors();
  assert.doesNotMatch(seen(), /\/etc\/hostname/);
  assert.throws(() => fstatSync(inherited), { code: 'EBADF' });
  assert.ok(fstatSync(own).isFile());
  assert.ok(fstatSync(2));
  closeSync(own);
});
