import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { hasEnded, readProcessStat } from '../../../../src/host/index.ts';
import { ConfinedFailure, runConfined } from '../../../../src/standalone/disk-images/confined.ts';
import { makeWorkDirectory } from '../../../../src/standalone/disk-images/index.ts';
import { eventually } from '../../../fixtures/eventually.ts';

const needsRoot = process.geteuid?.() === 0 ? false : 'rights are given up by root only';
const limits = { memoryBytes: 2 ** 28, cpuSeconds: 5, fileBytes: 2 ** 16, timeoutMs: 20_000 };

describe('programs that read foreign bytes', { skip: needsRoot }, () => {
  let top: string;
  let dir: string;
  const { signal } = new AbortController();
  const run = (script: string, more: { signal?: AbortSignal; timeoutMs?: number; network?: true } = {}) => {
    const { timeoutMs = limits.timeoutMs, ...rest } = more;
    return runConfined(['sh', '-c', script], { dir, signal, limits: { ...limits, timeoutMs }, ...rest });
  };

  beforeEach(async () => {
    top = await mkdtemp(path.join(tmpdir(), 'virt-confined-'));
    dir = path.join(top, 'work');
    await mkdir(dir);
    await writeFile(path.join(top, 'secret'), 'secret', { mode: 0o600 });
    await makeWorkDirectory(dir);
  });
  afterEach(() => rm(top, { recursive: true, force: true }));

  test('have no rights, no network and nothing of the node, and write in their directory only', async () => {
    const found = await run(
      'id -u; id -G; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status | tr "\\t" " "; tail -n +3 /proc/net/dev | wc -l; echo here > file && cat file',
    );
    const none = '0'.repeat(16);
    assert.equal(found, `64207\n64207\nCapEff: ${none}\nCapBnd: ${none}\nNoNewPrivs: 1\n1\nhere\n`);
    for (const wrong of ['cat ../secret', 'ls ..', 'echo x > ../x', 'ls /root']) {
      await assert.rejects(run(wrong), /ermission denied/, wrong);
    }
    assert.equal(await readFile(path.join(top, 'secret'), 'utf8'), 'secret');
  });

  test('end at their limits of file size, computing time and real time', async () => {
    const signalOf = (script: string) =>
      run(script).then(
        () => 'ended well',
        (error: ConfinedFailure) => error.signal ?? error.words,
      );
    assert.match(await signalOf('exec dd if=/dev/zero of=big bs=64k count=2'), /SIGXFSZ|File too large/);
    await assert.rejects(run('exec sleep 60', { timeoutMs: 100 }), { code: 'TIMEOUT' });
    await assert.rejects(run('exec tail /dev/zero'), (error) => error instanceof ConfinedFailure);
  });

  test('end with who asked for them', async () => {
    const asked = new AbortController();
    const working = run('echo $$ > pid; exec sleep 60', { signal: asked.signal });
    const ended = assert.rejects(working, /no longer wanted/);
    const pid = async () => Number(await readFile(path.join(dir, 'pid'), 'utf8').catch(() => ''));
    await eventually(async () => assert.ok((await pid()) > 0));
    asked.abort(new Error('no longer wanted'));
    await ended;
    const stat = await readProcessStat(await pid());
    assert.ok(stat === undefined || hasEnded(stat));
  });
});
