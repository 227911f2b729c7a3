import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { WebSocket } from 'ws';
import {
  ConsoleSession,
  type ConsoleSocket,
  type ConsoleState,
  consoleProtocol,
} from '../../../src/web/page/console-session.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type ConsoleBench, connected, startBench, uid } from '../console/console-bench.ts';

/** The page's side of a console on the production streams; what a person would see. */
class Viewer {
  readonly states: ConsoleState[] = [];
  readonly queries: string[] = [];
  text = '';
  replayed = '';
  freshLines = 0;
  readonly moves: string[] = [];
  lostBytes = 0;
  explanation = '';
  /** Tries come when the test says so. */
  holdsRetries = false;
  retry: () => void = () => undefined;
  socket: WebSocket | undefined;
  readonly session: ConsoleSession;

  constructor(t: TestContext, { port }: ConsoleBench) {
    const decoder = new TextDecoder();
    this.session = new ConsoleSession({
      events: {
        state: (state) => this.states.push(state),
        fresh: () => {
          this.freshLines++;
          this.text = '';
        },
        moved: (reason) => this.moves.push(reason),
        output: (bytes, replayed) => {
          const text = decoder.decode(bytes, { stream: true });
          this.text += text;
          if (replayed) this.replayed += text;
        },
        lost: (bytes) => {
          this.lostBytes += bytes;
        },
      },
      connect: (query) => {
        this.queries.push(query.toString());
        const socket = new WebSocket(`ws://127.0.0.1:${port}/console/${uid}?${query}`, [consoleProtocol]);
        socket.on('error', () => undefined);
        this.socket = socket;
        return socket as unknown as ConsoleSocket;
      },
      explain: async () => this.explanation,
      schedule: (_ms, callback) => {
        if (this.holdsRetries) {
          this.retry = callback;
          return () => undefined;
        }
        const timer = setTimeout(callback, 5);
        return () => clearTimeout(timer);
      },
      chance: () => 0,
    });
    t.after(() => this.session.close());
  }

  get state(): ConsoleState | undefined {
    return this.states.at(-1);
  }

  type(text: string): void {
    this.session.input(Uint8Array.from(Buffer.from(text)));
  }

  async is(role: 'writer' | 'viewer'): Promise<void> {
    await eventually(() => assert.equal(this.state?.kind === 'attached' && this.state.role, role));
  }

  async reads(text: string): Promise<void> {
    await eventually(() => assert.equal(this.text, text));
  }
}

test('the first one types, the second one watches all that was and is, and may take over', async (t) => {
  const bench = await startBench(t);
  const first = new Viewer(t, bench);
  first.session.open();
  await first.is('writer');
  const guest = await bench.guest.connection();
  let typed = '';
  guest.setEncoding('utf8').on('data', (text) => {
    typed += text;
  });
  guest.write('login: ');
  await first.reads('login: ');
  first.type('root\r');
  await eventually(() => assert.equal(typed, 'root\r'));

  const second = new Viewer(t, bench);
  second.session.open();
  await second.is('viewer');
  await second.reads('login: ');
  assert.equal(second.replayed, 'login: ', 'what was before is not answered to');
  assert.deepEqual(second.queries, ['access=take-if-free', 'access=view']);
  second.type('not sent');
  await eventually(() => assert.equal(first.state?.kind === 'attached' && first.state.viewers, 1));

  second.session.take();
  await second.is('writer');
  await first.is('viewer');
  assert.match(first.state?.kind === 'attached' ? (first.state.reason ?? '') : '', /taken over/);
  first.type('not sent either');
  second.type('from the second');
  await eventually(() => assert.equal(typed, 'root\rfrom the second'));
});

test('a connection that breaks is opened again, and goes on at the byte where it was', async (t) => {
  const bench = await startBench(t);
  const viewer = new Viewer(t, bench);
  viewer.holdsRetries = true;
  viewer.session.open();
  await viewer.is('writer');
  const guest = await bench.guest.connection();
  guest.write('before ');
  await viewer.reads('before ');
  viewer.socket?.terminate();
  await eventually(() => assert.equal(viewer.state?.kind, 'waiting'));
  await eventually(() => assert.deepEqual(bench.server.sessions(), []));
  viewer.type('nobody is there');
  guest.write('meanwhile ');
  viewer.retry();
  await viewer.is('writer');
  guest.write('after');
  await viewer.reads('before meanwhile after');
  assert.match(viewer.queries.at(-1) ?? '', /^access=take-if-free&line=[\w-]+&from=7$/);
  assert.deepEqual([viewer.freshLines, viewer.lostBytes], [1, 0]);
  assert.equal(viewer.replayed, 'meanwhile ');
});

test('what the line no longer remembers is said to be lost', async (t) => {
  const bench = await startBench(t, { options: { scrollbackBytes: 1024 } });
  const viewer = new Viewer(t, bench);
  viewer.holdsRetries = true;
  viewer.session.open();
  await viewer.is('writer');
  const guest = await bench.guest.connection();
  const plain = bench.attach('?access=view');
  await plain.opened();
  viewer.socket?.terminate();
  await eventually(() => assert.equal(viewer.state?.kind, 'waiting'));
  guest.write('x'.repeat(4096));
  await eventually(() => assert.equal(plain.bytes, 4096));
  viewer.retry();
  await viewer.is('writer');
  await eventually(() => assert.equal(viewer.text.length + viewer.lostBytes, 4096));
  assert.ok(viewer.lostBytes > 0);
});

test('who wants to read only takes nobody’s place, and gives up its own', async (t) => {
  const bench = await startBench(t);
  const reader = new Viewer(t, bench);
  reader.session.open();
  await reader.is('writer');
  reader.session.open(true);
  await reader.is('viewer');
  const writer = new Viewer(t, bench);
  writer.session.open();
  await writer.is('writer');
  reader.session.open(false);
  await eventually(() => assert.equal(reader.queries.at(-1)?.startsWith('access=view'), true));
  await reader.is('viewer');
  reader.session.take();
  await reader.is('writer');
});

test('a VM that is gone, and a guest that closes its console, end it until somebody asks', async (t) => {
  const bench = await startBench(t);
  const viewer = new Viewer(t, bench);
  viewer.session.open();
  await viewer.is('writer');
  bench.server.endAll(uid, 'the virtual machine was deleted');
  await eventually(() => assert.deepEqual(viewer.state, { kind: 'ended', reason: 'the virtual machine was deleted' }));
  viewer.session.open();
  await viewer.is('writer');
  assert.equal(viewer.freshLines, 2, 'another line');
  (await bench.guest.connection(2)).end();
  await eventually(() => assert.equal(viewer.state?.kind, 'ended'));
  assert.equal(viewer.queries.length, 2);
});

test('a guest that moves to another node is followed at once: what was shown stays, who typed types, who watched watches', async (t) => {
  const bench = await startBench(t);
  const [writer, watcher] = [new Viewer(t, bench), new Viewer(t, bench)];
  writer.session.open();
  await writer.is('writer');
  watcher.session.open();
  await watcher.is('viewer');
  (await bench.guest.connection(1)).write('before ');
  await eventually(() => assert.deepEqual([writer.text, watcher.text], ['before ', 'before ']));
  for (const viewer of [writer, watcher]) viewer.holdsRetries = true;
  bench.server.moveAll(uid, 'node-2');
  await writer.is('writer');
  const reason = 'the virtual machine goes on at node node-2';
  await eventually(() => assert.deepEqual([writer.moves, watcher.moves], [[reason], [reason]]));
  assert.ok(writer.states.some((state) => state.kind === 'following' && state.reason === reason));
  assert.ok(!writer.states.some(({ kind }) => kind === 'waiting'), 'it was not waited for');
  (await bench.guest.connection(2)).write('after');
  await eventually(() => assert.deepEqual([writer.text, watcher.text], ['before after', 'before after']));
  assert.deepEqual([writer.freshLines, watcher.freshLines], [1, 1]);
  await watcher.is('viewer');
  await writer.is('writer');
});

test('a console that cannot be opened is tried again, with the reason as far as it is told', async (t) => {
  let isThere = false;
  const bench: ConsoleBench = await startBench(t, {
    open: async (signal) => {
      if (!isThere) throw new Error('the guest has no console');
      return connected(bench.guest.path, signal);
    },
  });
  const viewer = new Viewer(t, bench);
  viewer.explanation = 'VMI default/testvm does not exist';
  viewer.session.open();
  await eventually(() =>
    assert.equal(viewer.state?.kind === 'waiting' && viewer.state.reason, 'VMI default/testvm does not exist'),
  );
  viewer.explanation = '';
  await eventually(() =>
    assert.equal(viewer.state?.kind === 'waiting' && viewer.state.reason, 'the console cannot be opened now'),
  );
  isThere = true;
  await viewer.is('writer');
});

test('a long paste is several messages, and arrives whole', async (t) => {
  const bench = await startBench(t);
  const viewer = new Viewer(t, bench);
  viewer.session.open();
  await viewer.is('writer');
  const guest = await bench.guest.connection();
  let bytes = 0;
  guest.on('data', (chunk) => {
    bytes += chunk.length;
  });
  viewer.type('p'.repeat(3_000_000));
  await eventually(() => assert.equal(bytes, 3_000_000));
  assert.equal(viewer.state?.kind, 'attached');
});

test('notices of a newer server are no reason to stop', async (t) => {
  const bench = await startBench(t);
  const viewer = new Viewer(t, bench);
  viewer.session.open();
  await viewer.is('writer');
  for (const text of [
    '',
    '{',
    '[]',
    'null',
    '{"kind":"other"}',
    '{"kind":"attached"}',
    '{"kind":"viewers","count":-1}',
  ]) {
    viewer.socket?.onmessage?.({ data: text } as never);
  }
  assert.equal(viewer.state?.kind, 'attached');
});
