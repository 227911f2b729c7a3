import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';

test('the agent’s program has no character beyond Latin-1: one, in a regular expression say, doubles the text that Node.js keeps', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'bundle-'));
  try {
    const file = path.join(dir, 'virt-handler.mjs');
    await bundleProgram('virt-handler', file);
    const text = readFileSync(file, 'utf8');
    assert.ok(text.length > 500_000, `${text.length} characters`);
    const beyond = [...text.matchAll(/.{0,40}[\u0100-\uffff].{0,10}/g)].map(([around]) => around);
    assert.deepEqual(beyond, []);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
