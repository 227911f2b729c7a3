import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, type TestContext, test } from 'node:test';
import { HostError, virtiofsSockets } from '../../../../../../src/agent/vmi/host/index.ts';
import { vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { hookContext } from '../../../../../fixtures/agent/host-hooks.ts';

let procDir: string;
let dir: string;
let saved: { readonly sinceMs: number } | undefined;
let nowMs: number;

beforeEach(() => {
  procDir = mkdtempSync(path.join(tmpdir(), 'virtiofs-'));
  dir = path.join(procDir, '7/root/run/kubevirt/virtiofs-containers');
  mkdirSync(dir, { recursive: true });
  mkdirSync(path.join(procDir, '7/root/var'));
  symlinkSync('/run', path.join(procDir, '7/root/var/run'));
  [saved, nowMs] = [undefined, 1_000_000];
});
afterEach(() => rmSync(procDir, { recursive: true }));

const sharing = (...filesystems: object[]) =>
  vmiOf('Scheduled', { spec: { domain: { devices: { filesystems } } } } as never);

function prepare(vmi = sharing({ name: 'data', virtiofs: {} })) {
  const context = hookContext(vmi, 7);
  const state = {
    stage: undefined,
    current: saved,
    save: async (next: { readonly sinceMs: number }) => {
      saved = next;
    },
  };
  // Each time another process of the agent, so to say.
  return virtiofsSockets({ procDir, nowMs: () => nowMs }).prepare({ ...context, state });
}

async function serve(t: TestContext, name: string): Promise<void> {
  const server = createServer().listen(path.join(dir, name));
  await once(server, 'listening');
  t.after(() => server.close());
}

test('a VMI without file systems is done at once', async () => {
  assert.deepEqual(await prepare(sharing()), { kind: 'done', facts: null });
});

test('each socket is given to QEMU as soon as all are there', async (t) => {
  const vmi = sharing({ name: 'data', virtiofs: {} }, { name: 'conf', virtiofs: {} });
  await serve(t, 'data.sock');
  const waits = await prepare(vmi);
  assert.deepEqual(waits, {
    kind: 'wait',
    afterMs: 1_000,
    because: 'side containers virtiofs-conf do not listen yet',
  });
  await serve(t, 'conf.sock');
  assert.deepEqual(await prepare(vmi), { kind: 'done', facts: null, summary: 'data, conf' });
  for (const name of ['data.sock', 'conf.sock']) {
    const { uid, gid } = statSync(path.join(dir, name));
    assert.deepEqual([uid, gid], [107, 107]);
  }
});

test('after a minute it is an error that names the containers, also for an agent that came in between', async () => {
  for (const passedMs of [0, 30_000, 30_000]) {
    nowMs += passedMs;
    assert.equal((await prepare()).kind, 'wait');
  }
  nowMs += 1;
  await assert.rejects(prepare(), (error: unknown) => {
    assert.ok(error instanceof HostError);
    assert.equal(error.code, 'NO_VIRTIOFS');
    assert.match(error.message, /virtiofs-data do not listen yet: look at the logs/);
    return true;
  });
  // A clock that was set back: it is waited for anew, not for ever.
  nowMs -= 3_600_000;
  assert.equal((await prepare()).kind, 'wait');
  assert.deepEqual(saved, { sinceMs: nowMs });
});

const tricks: readonly (readonly [title: string, play: (file: string) => void])[] = [
  ['a link to a file of another', (file) => symlinkSync(path.join(procDir, 'outside'), file)],
  ['a file', (file) => writeFileSync(file, '')],
  ['a pipe', (file) => execFileSync('mkfifo', [file])],
  ['a directory', (file) => mkdirSync(file)],
];

for (const [title, play] of tricks) {
  test(`what is no socket is not given to QEMU, and no guest starts on it: ${title}`, async () => {
    const outside = path.join(procDir, 'outside');
    writeFileSync(outside, '');
    play(path.join(dir, 'data.sock'));
    await assert.rejects(prepare(), { code: 'NO_VIRTIOFS' });
    assert.equal(statSync(outside).uid, process.getuid?.());
    assert.equal(statSync(path.join(dir, 'data.sock')).uid, process.getuid?.());
  });
}

test('a name that is a path, and another kind of file system, are refused', async () => {
  await assert.rejects(prepare(sharing({ name: '../x', virtiofs: {} })), { code: 'NO_VIRTIOFS' });
  await assert.rejects(prepare(sharing({ name: 'x' })), { code: 'NOT_SUPPORTED' });
});
