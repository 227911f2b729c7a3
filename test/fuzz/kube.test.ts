import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { KubeError, refusalError } from '../../src/kube/errors.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { readBody } from '../../src/kube/transport.ts';
import { LineSplitter, readWatch } from '../../src/kube/watch.ts';
import {
  changedBytes,
  changedText,
  changedValue,
  cuts,
  fuzz,
  inPieces,
  judged,
  judgedLater,
  repeated,
  together,
} from './kit/index.ts';

/** What an API server, or who is in its place, sends. */

const isKubeError = (error: unknown) => error instanceof KubeError;
const object = {
  kind: 'VirtualMachineInstance',
  metadata: { name: 'vm1', namespace: 'default', resourceVersion: '7', uid: 'u' },
  spec: { domain: {} },
};
const lines = [
  { type: 'ADDED', object },
  { type: 'BOOKMARK', object: { metadata: { resourceVersion: '9' } } },
  { type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } },
].map((each) => `${JSON.stringify(each)}\n`);
const streams = [...lines, lines.join(''), `${lines.join('\n')}\n\n`].map((text) => Buffer.from(text));

const limits = { maxLineBytes: 64 * 1024, idleTimeoutMs: 10_000 };

async function watchOf(pieces: readonly Buffer[]): Promise<{ readonly events: unknown[]; readonly problem: string }> {
  const reply = Readable.from(pieces.filter(({ length }) => length > 0)) as unknown as IncomingMessage;
  const events: unknown[] = [];
  const verdict = await judgedLater(isKubeError, async () => {
    for await (const event of readWatch(reply, limits, new AbortController().signal)) events.push(event);
  });
  return { events, problem: verdict };
}

fuzz('kube: a watch, wherever its bytes are cut', {
  input: fc.tuple(changedBytes(streams), cuts),
  parse: async ([bytes, places]) => {
    const whole = await watchOf([bytes]);
    assert.deepEqual(await watchOf(inPieces(bytes, places)), whole);
    return whole.problem === 'accepted' ? 'accepted' : 'refused';
  },
});

fuzz('kube: lines', {
  input: fc.tuple(changedBytes(streams), cuts),
  parse: ([bytes, places]) =>
    judged(isKubeError, () => {
      const splitter = new LineSplitter(200);
      for (const piece of inPieces(bytes, places)) {
        for (const line of splitter.push(piece)) assert.ok(Buffer.from(line).length <= 3 * 200);
        assert.ok(splitter.pendingBytes <= 200);
      }
    }),
  growing: { 'empty lines': (size) => together(Buffer.alloc(size, '\n'), []) },
});

fuzz('kube: bodies that are longer than they may be', {
  input: fc.tuple(changedBytes(streams), cuts, fc.integer({ min: 0, max: 400 })),
  parse: ([bytes, places, limit]) =>
    judgedLater(isKubeError, async () => {
      const pieces = inPieces(bytes, places).filter(({ length }) => length > 0);
      const reply = Object.assign(Readable.from(pieces), { headers: {}, complete: true }) as unknown as IncomingMessage;
      const text = await readBody(reply, limit, new AbortController().signal);
      assert.ok(bytes.length <= limit && text === bytes.toString('utf8'));
    }),
});

fuzz('kube: refusals', {
  input: fc.tuple(
    fc.constantFrom(400, 404, 409, 410, 429, 500, 503),
    changedValue([{ kind: 'Status', message: 'no', reason: 'Expired', code: 410, details: { causes: [{}] } }]),
  ),
  known: [[500, { message: { toString: 1 } }]],
  parse: ([status, body]) => {
    const error = refusalError(status, body as never, 'GET /x');
    assert.ok(error instanceof KubeError && typeof error.message === 'string');
    return 'accepted';
  },
  refusesNothing: true,
});

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: abc}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
`;
const file = path.join(tmpdir(), `fuzz-kubeconfig-${process.pid}`);

fuzz('kube: kubeconfigs', {
  // What a kubeconfig names as a program is run: no words that could be one.
  input: changedText(
    [kubeconfig],
    ['certificate-authority-data', 'client-key-data: YQ==', 'tls-server-name', 'http://', 'null', '~', '[]', '{}'],
  ),
  parse: (text) => {
    writeFileSync(file, text.replaceAll(/exec|cmd-path|auth-provider/g, 'x'));
    return judgedLater(isKubeError, async () => {
      const { server } = await loadKubeconfig(file);
      assert.match(server, /^https?:/);
    });
  },
  growing: { names: repeated('#a\n', kubeconfig) },
  growingTo: 2 ** 16,
});
