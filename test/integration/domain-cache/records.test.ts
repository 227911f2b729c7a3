import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, it } from 'node:test';
import { bundleAsProgram } from '../../../scripts/bundle.mjs';
import type { Logger } from '../../../src/base/index.ts';
import { GhostRecords } from '../../../src/domain-cache/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { key, node, statusOf, uid, useTestNodes } from './node.ts';

useTestNodes();

describe('a full disk', { skip: process.getuid?.() !== 0 }, () => {
  /** A private directory on a file system of 64 KiB. */
  function tinyDisk(): { fill(): void; free(): void } {
    mkdirSync(node.privateDir);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', node.privateDir]);
    node.cleanup(() => execFileSync('umount', [node.privateDir]));
    const ballast = path.join(node.privateDir, 'ballast');
    return {
      fill() {
        assert.throws(() => writeFileSync(ballast, Buffer.alloc(1024 * 1024)), { code: 'ENOSPC' });
      },
      free: () => rmSync(ballast),
    };
  }

  it('is a problem to show, loses no VM, and the record is written when there is room', async () => {
    const disk = tinyDisk();
    await node.launcher(key, uid);
    const { cache, clients, problems } = await node.run({ watchdogMs: 50 });
    disk.fill();
    await clients.connectVerified(node.targetOf(key, uid));
    assert.equal(statusOf(cache, key, uid), 'Running');
    assert.deepEqual(problems, [{ uid, code: 'NO_SPACE' }]);
    assert.match(cache.problemOf(uid)?.message ?? '', /free some space in .*ghost-records/);
    assert.equal(cache.ghostRecords.get(key)?.uid, uid);
    disk.free();
    await eventually(() => assert.equal(cache.problemOf(uid), undefined));
    const files = readdirSync(path.join(node.privateDir, 'ghost-records'));
    assert.deepEqual(files, [uid]);
    assert.deepEqual(problems.at(-1), { uid, code: undefined });
  });

  it('does not touch the records that are there', async () => {
    const disk = tinyDisk();
    await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    disk.fill();
    await node.launcher('default/vm2', 'uid-2');
    await clients.connect(node.targetOf('default/vm2', 'uid-2'));
    const file = path.join(node.privateDir, 'ghost-records', uid);
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).uid, uid);
    assert.equal(statusOf(cache, 'default/vm2'), 'Running');
  });
});

describe('kill -9 while records are written', () => {
  it('leaves whole records only', async () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'records-'));
    node.cleanup(() => rmSync(directory, { recursive: true }));
    const records = path.join(directory, 'ghost-records');
    const source = path.join(directory, 'main.ts');
    writeFileSync(
      source,
      `import { GhostRecords } from ${JSON.stringify(path.resolve('src/domain-cache/ghost-records.ts'))};
       const records = new GhostRecords({ directory: ${JSON.stringify(records)} });
       const write = async () => {
         await records.load();
         for (let n = 0; ; n++) {
           const uid = 'uid-' + (n % 5);
           await records.add({ name: 'vm' + 'x'.repeat(n % 2000), namespace: 'default', socketFile: '/s' + n, uid });
           if (n === 10) process.stdout.write('x');
           if (n % 7 === 0) await records.remove(uid);
         }
       };
       write();`,
    );
    const outfile = path.join(directory, 'main.mjs');
    await bundleAsProgram(source, outfile);
    for (let round = 0; round < 5; round++) {
      const child = spawn(process.execPath, [outfile], { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(child.stdout, 'data');
      await new Promise((resolve) => setTimeout(resolve, 20 + round * 15));
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      const warnings: unknown[] = [];
      const logger = { warn: (fields: unknown) => warnings.push(fields) } as unknown as Logger;
      const loaded = new GhostRecords({ directory: records }, { logger });
      await loaded.load();
      assert.deepEqual(warnings, []);
      assert.ok(loaded.all().length > 0);
    }
  });
});
