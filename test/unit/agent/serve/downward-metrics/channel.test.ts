import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { serveChannel } from '../../../../../src/agent/serve/downward-metrics/channel.ts';
import { ChannelRequests } from '../../../../../src/agent/serve/downward-metrics/requests.ts';
import { eventually, stays } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const cases: readonly (readonly [title: string, text: string, answers: readonly (string | undefined)[]])[] = [
  ['a request of upstream', 'GET /metrics/XML\n\n', ['figures', undefined]],
  ['lines that end as those of DOS', 'GET /metrics/XML\r\n\r\n', ['figures', undefined]],
  ['two at once', 'GET /metrics/XML\n\nGET /metrics/XML?a=b\n\n', ['figures', 'figures', undefined]],
  ['half of one', 'GET /metrics/XML\n', [undefined]],
  ['another method', 'PUT /metrics/XML\n\nGET /metrics/XML\n\n', ['invalid', 'figures', undefined]],
  ['another path', 'GET /\n\n', ['invalid', undefined]],
  ['words behind it', 'GET /metrics/XML HTTP/1.1\n\n', ['invalid', undefined]],
  ['no empty line: what came with it goes, too', 'GET /metrics/XML\nx\nGET /metrics/XML\n\n', ['invalid', undefined]],
  ['a line without an end', 'x'.repeat(5000), ['invalid', undefined]],
];

for (const [title, text, answers] of cases) {
  test(`what a guest asks: ${title}`, () => {
    const requests = new ChannelRequests();
    requests.push(Buffer.from(text));
    assert.deepEqual(
      answers.map(() => requests.next()),
      answers,
    );
  });
}

/** The two ends of a connection. */
async function pair(t: TestContext): Promise<readonly [agent: Socket, guest: Socket]> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address && typeof address === 'object');
  const guest = connect(address.port, '127.0.0.1');
  const [agent] = (await once(server, 'connection')) as [Socket];
  for (const socket of [agent, guest]) socket.on('error', () => undefined);
  t.after(() => {
    guest.destroy();
    server.close();
  });
  return [agent, guest];
}

test('requests are answered in order, one in a second, until the guest has gone', async (t) => {
  const [agent, guest] = await pair(t);
  const clock = new FakeClock();
  let asked = 0;
  const report = async () => `<metrics>${++asked}</metrics>`;
  const served = serveChannel(agent, { report, clock }, new AbortController().signal);
  let shown = '';
  guest.setEncoding('latin1').on('data', (text) => (shown += text));
  guest.write('GET /metrics/XML\n\nnonsense\n\nGET /metrics/XML\n\n');
  const expected = ['<metrics>1</metrics>\n\n', 'INVALID REQUEST\n\n', '<metrics>2</metrics>\n\n'];
  for (const count of [1, 2, 3]) {
    await eventually(() => assert.equal(shown, expected.slice(0, count).join('')));
    await clock.pass(999);
    assert.equal(shown, expected.slice(0, count).join(''));
    await clock.pass(1);
  }
  guest.end();
  await served;
  assert.equal(clock.timers, 0);
});

test('a guest that goes while its answer waits is forgotten at once', async (t) => {
  const [agent, guest] = await pair(t);
  guest.pause();
  let asked = 0;
  const report = async () => {
    asked++;
    return 'x'.repeat(32 * 2 ** 20);
  };
  const served = serveChannel(agent, { report, clock: new FakeClock() }, new AbortController().signal);
  guest.write('GET /metrics/XML\n\n');
  await eventually(() => assert.equal(asked, 1));
  guest.destroy();
  await served;
});

test('a guest that does not read keeps one answer waiting, and the agent can leave', async (t) => {
  const [agent, guest] = await pair(t);
  guest.pause();
  const ending = new AbortController();
  let asked = 0;
  const clock = new FakeClock();
  const large = 'x'.repeat(32 * 2 ** 20);
  const served = serveChannel(
    agent,
    {
      report: async () => {
        asked++;
        return large;
      },
      clock,
    },
    ending.signal,
  );
  guest.write('GET /metrics/XML\n\n'.repeat(100));
  await eventually(() => assert.equal(asked, 1));
  await stays(async () => {
    await clock.pass(1_000);
    assert.equal(asked, 1);
  }, 200);
  ending.abort();
  await served;
  assert.equal(asked, 1);
  assert.equal(agent.destroyed, true);
});
