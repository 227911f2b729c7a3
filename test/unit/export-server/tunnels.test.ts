import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { silentLogger } from '../../../src/base/index.ts';
import { BackupTunnels } from '../../../src/export-server/tunnels.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { allRead, askedAndTakenBack } from '../../fixtures/http2-frames.ts';

test('a tunnel that is taken back in the piece that asks for it is not answered, and nothing is thrown', async () => {
  const deps = { log: silentLogger, clock: new FakeClock(), authenticated: () => undefined };
  const tunnels = new BackupTunnels({ backupUid: 'u' }, deps);
  const [exporter, client] = duplexPair();
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.on('uncaughtException', note);
  try {
    // A session asks nothing of TLS here: whoever has taken a stream back has shown nothing.
    tunnels.take(exporter as unknown as TLSSocket);
    client.write(askedAndTakenBack({ ':method': 'CONNECT', ':authority': 'localhost' }));
    const answered: Buffer[] = [];
    for await (const piece of client.iterator({ destroyOnReturn: false })) {
      answered.push(piece);
      if (Buffer.concat(answered).includes(allRead)) break;
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(uncaught, []);
  } finally {
    process.off('uncaughtException', note);
    client.destroy();
    exporter.destroy();
    tunnels.close();
  }
});
