import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { SharedSocket } from '../../../src/domain-cache/shared-socket.ts';

test('a notify socket that could not be made again once is tried again, and tells meanwhile why it is not there', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'share-'));
  const share = path.join(dir, 'share');
  const shared = new SharedSocket(path.join(share, 's.sock'), { accept: () => true, logger: silentLogger });
  try {
    mkdirSync(share);
    assert.equal(shared.problem, undefined, 'nobody has asked for it');
    await shared.start();
    assert.equal(shared.problem, undefined);
    renameSync(share, path.join(dir, 'away'));
    writeFileSync(share, 'in the way');
    assert.match(shared.problem ?? '', /removed or replaced/);
    await assert.rejects(shared.ensure());
    assert.ok(shared.problem);
    rmSync(share);
    renameSync(path.join(dir, 'away'), share);
    await shared.ensure();
    assert.equal(shared.problem, undefined);
    await shared.stop();
    await shared.ensure();
    assert.equal(shared.problem, undefined);
  } finally {
    await shared.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
