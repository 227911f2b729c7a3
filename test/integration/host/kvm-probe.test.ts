import assert from 'node:assert/strict';
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
