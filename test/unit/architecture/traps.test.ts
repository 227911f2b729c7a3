import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

/** Calls of Node.js that do harm, found by measuring; what to do instead. */
const traps: Readonly<Record<string, { readonly call: RegExp; readonly instead: string }>> = {
  'getPeerX509Certificate loses 5 KB of native memory for each connection in Node.js 20': {
    call: /\.getPeerX509Certificate\(/,
    instead: 'new X509Certificate(socket.getPeerCertificate().raw)',
  },
};

const sources = readdirSync('src', { recursive: true })
  .map((file) => path.join('src', String(file)))
  .filter((file) => file.endsWith('.ts'));

for (const [why, { call, instead }] of Object.entries(traps)) {
  test(`${why}: nothing calls it`, () => {
    const found = sources.filter((file) => call.test(readFileSync(file, 'utf8')));
    assert.deepEqual(found, [], `use ${instead}`);
  });
}
