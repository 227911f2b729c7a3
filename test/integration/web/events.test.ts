import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { memoryRights, vmRow } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let authorization: string;

before(async () => {
  site = await WebSite.start({ events: { intervalMs: 20, keepAliveMs: 50, maxStreams: 3 } });
  authorization = `Bearer ${await site.session()}`;
});

after(() => site?.dispose());

/** Reads events, as a page does. */
class EventReader {
  readonly events: { readonly event: string; readonly data: Record<string, unknown> }[] = [];
  comments = 0;
  readonly #ending = new AbortController();

  async open(): Promise<Response> {
    const { signal } = this.#ending;
    const answer = await fetch(`${site.origin}/api/vms/events`, { headers: { authorization }, signal });
    void this.#read(answer).catch(() => undefined);
    return answer;
  }

  close(): void {
    this.#ending.abort();
  }

  async #read({ body }: Response): Promise<void> {
    let text = '';
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const parts = (text + chunk).split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) this.#take(part);
    }
  }

  #take(part: string): void {
    const event = /^event: (.*)$/m.exec(part)?.[1];
    const data = /^data: (.*)$/m.exec(part)?.[1];
    if (event === undefined || data === undefined) this.comments++;
    else this.events.push({ event, data: JSON.parse(data) });
  }
}

test('the whole list comes first, then what changed, what went, and what keeps the list from being true', async () => {
  const { vms } = site.backend;
  vms.set(vmRow('a'), vmRow('b'));
  const reader = new EventReader();
  const answer = await reader.open();
  assert.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  await eventually(() => assert.equal(reader.events.length, 1));
  assert.deepEqual(reader.events[0], {
    event: 'vms',
    data: { ...memoryRights, node: 'node1', rows: [vmRow('a'), vmRow('b')] },
  });
  vms.set(vmRow('b', { status: 'Stopped' }));
  await eventually(() => assert.equal(reader.events.length, 2));
  const stopped = vmRow('b', { status: 'Stopped' });
  assert.deepEqual(reader.events[1], { event: 'change', data: { gone: [], rows: [stopped] } });
  vms.remove('default/a');
  await eventually(() => assert.deepEqual(reader.events[2]?.data, { gone: ['default/a'], rows: [] }));
  vms.complain('the API is away');
  await eventually(() => assert.deepEqual(reader.events[3]?.data, { problem: 'the API is away', gone: [], rows: [] }));
  vms.complain(undefined);
  await eventually(() => assert.deepEqual(reader.events[4]?.data, { gone: [], rows: [] }));
  reader.close();
  await eventually(() => assert.equal(vms.listeners, 0));
});

test('a hundred changes at once are one event, and a change to the same is none', async () => {
  const { vms } = site.backend;
  const reader = new EventReader();
  await reader.open();
  await eventually(() => assert.equal(reader.events.length, 1));
  for (let turn = 0; turn < 100; turn++) vms.set(vmRow('c', { status: `Starting ${turn}` }));
  await eventually(() => assert.equal(reader.events.length, 2));
  vms.set(vmRow('c', { status: 'Starting 99' }));
  vms.set(vmRow('d'));
  await eventually(() => assert.equal(reader.events.length, 3));
  assert.deepEqual(reader.events[2]?.data, { gone: [], rows: [vmRow('d')] });
  reader.close();
});

test('a quiet stream carries comments, so that a dead one is noticed', async () => {
  const reader = new EventReader();
  await reader.open();
  await eventually(() => assert.ok(reader.comments > 1));
  reader.close();
});

test('a page that is open too many times is told so, and closing one makes room', async () => {
  const { vms } = site.backend;
  await eventually(() => assert.equal(vms.listeners, 0));
  const readers = [new EventReader(), new EventReader(), new EventReader(), new EventReader()];
  const statuses: number[] = [];
  for (const reader of readers) statuses.push((await reader.open()).status);
  assert.deepEqual(statuses, [200, 200, 200, 503]);
  readers[0]?.close();
  const late = new EventReader();
  await eventually(async () => assert.equal((await late.open()).status, 200));
  for (const reader of [...readers, late]) reader.close();
  await eventually(() => assert.equal(vms.listeners, 0));
});

test('a reader that does not read has no queue, and gets the newest state when it reads again', async () => {
  const { vms } = site.backend;
  const wide = (turn: number) =>
    Array.from({ length: 100 }, (_, at) => vmRow(`wide-${at}`, { status: `${turn} ${'x'.repeat(2_000)}` }));
  vms.set(...wide(0));
  const socket = connect(site.port, '127.0.0.1');
  socket.write(
    `GET /api/vms/events HTTP/1.1\r\nHost: 127.0.0.1:${site.port}\r\nAuthorization: ${authorization}\r\n\r\n`,
  );
  await once(socket, 'readable');
  await eventually(() => assert.equal(vms.listeners, 1));
  const before = process.memoryUsage().rss;
  const quick = new EventReader();
  await quick.open();
  const turns = 60;
  for (let turn = 1; turn <= turns; turn++) {
    vms.set(...wide(turn));
    await eventually(() => assert.match(lastStatus(quick), new RegExp(`^${turn} `)));
  }
  const grownMb = (process.memoryUsage().rss - before) / 1e6;
  assert.ok(
    grownMb < 300,
    `grew by ${grownMb} MB; all that was not read would be ${(turns * 0.2).toFixed()} MB twice over`,
  );
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  await eventually(() => assert.match(text.slice(-10_000), new RegExp(`"status":"${turns} x`)));
  const whole = text.match(/"name":"wide-0"/g)?.length ?? 0;
  assert.ok(whole < turns / 2, `${whole} of ${turns} states were sent to who read none`);
  socket.destroy();
  quick.close();
});

function lastStatus(reader: EventReader): string {
  const rows = reader.events.at(-1)?.data.rows as { status: string }[] | undefined;
  return rows?.[0]?.status ?? '';
}
