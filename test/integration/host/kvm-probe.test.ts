import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { probeKvm } from '../../../src/host/index.ts';

test('the probe ROM really ends a machine: emulation runs it to the end', async () => {
  const result = await probeKvm({ accelerator: 'tcg', timeoutMs: 20_000 });
  assert.deepEqual({ usable: result.usable, reason: result.reason }, { usable: true, reason: 'a guest runs on tcg' });
});

test('KVM is decided within the time limit, and the reason says how', async () => {
  const timeoutMs = 3000;
  const result = await probeKvm({ timeoutMs });
  assert.ok(result.tookMs < timeoutMs + 2000, `took ${result.tookMs} ms`);
  assert.match(result.reason, result.usable ? /a guest runs on kvm/ : /hangs on kvm|cannot be opened|ended with/);
});

test('a machine that crawls does not count as one that runs', async (t) => {
  const dir = await mkdtemp(path.join(tmpdir(), 'slow-qemu-'));
  t.after(() => rm(dir, { recursive: true }));
  // Some eight million instructions a second: above what was measured where KVM crawls, far below what a kernel needs.
  const qemuPath = path.join(dir, 'qemu');
  await writeFile(qemuPath, `#!/bin/sh\nexec qemu-system-x86_64 "$@" -icount shift=7,align=on\n`, { mode: 0o755 });
  const result = await probeKvm({ accelerator: 'tcg', qemuPath });
  const reason = 'a guest hangs on tcg: no answer within 3000 ms';
  assert.deepEqual({ usable: result.usable, reason: result.reason }, { usable: false, reason });
});
