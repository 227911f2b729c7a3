import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { askStreaming, openTunnel, readCall } from '../../../src/nbd-tunnel/index.ts';

test('a connection that is on its way out is no failure of the exporter: nothing was asked, and it may be again', async () => {
  for (const end of ['close', 'destroy'] as const) {
    const [exporter, launcher] = duplexPair();
    const session = openTunnel(exporter);
    session.on('error', () => undefined);
    session[end]();
    const request = { exportName: 'root', offset: 0, length: 0 };
    const answers = askStreaming(session, readCall, request, new AbortController().signal);
    await assert.rejects(answers.next(), { name: 'TunnelError', code: 'CLOSED' });
    session.destroy();
    launcher.destroy();
  }
});
