import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { readCall, serveTunnel } from '../../../src/nbd-tunnel/index.ts';
import { allRead, askedAndTakenBack } from '../../fixtures/http2-frames.ts';

const call = {
  ...{ ':method': 'POST', ':scheme': 'http', ':authority': 'backup', ':path': readCall.path },
  'content-type': 'application/grpc',
};

for (const [what, headers] of Object.entries({ 'a call': call, 'what is no call': { ...call, ':method': 'GET' } })) {
  test(`${what} that is asked and taken back in one piece costs nothing, and its launcher goes on`, async () => {
    const [launcher, exporter] = duplexPair();
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      const served = serveTunnel(launcher, { map: async () => undefined, read: async () => undefined });
      exporter.write(askedAndTakenBack(headers));
      const answered: Buffer[] = [];
      for await (const piece of exporter.iterator({ destroyOnReturn: false })) {
        answered.push(piece);
        if (Buffer.concat(answered).includes(allRead)) break;
      }
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(unhandled, []);
      assert.equal(launcher.destroyed, false);
      exporter.destroy();
      launcher.destroy();
      await served;
    } finally {
      process.off('unhandledRejection', note);
    }
  });
}
