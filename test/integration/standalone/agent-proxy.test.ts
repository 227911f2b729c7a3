import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { silentLogger } from '../../../src/base/index.ts';
import { issue } from '../../../src/certificates/index.ts';
import { AgentProxy, agentOf, vmPath } from '../../../src/standalone/index.ts';
import { serverCommonName } from '../../../src/tls/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { eventually, settled } from '../../fixtures/eventually.ts';
import { serveProxy } from '../../fixtures/proxy-server.ts';

const demo = vmPath('default', 'demo');

describe('the way from the page to the agent', () => {
  let agent: AgentStandIn;
  let port: number;
  let stop: () => Promise<void>;

  beforeEach(async () => {
    agent = await AgentStandIn.start();
    const proxy = new AgentProxy({ find: agentOf(agent.paths), log: silentLogger });
    ({ port, stop } = await serveProxy(proxy));
  });
  afterEach(async () => {
    await stop();
    await agent.stop();
  });

  interface Answer {
    readonly status: number;
    readonly type: string | undefined;
    readonly body: Buffer;
  }

  function call(method: string, path: string, body?: string, headers: Record<string, string> = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(
        { host: '127.0.0.1', port, method, path, headers, agent: false },
        (answer: IncomingMessage) => {
          const chunks: Buffer[] = [];
          answer.on('data', (chunk: Buffer) => chunks.push(chunk));
          answer.once('error', reject);
          answer.once('end', () => {
            const type = answer.headers['content-type'];
            resolve({ status: answer.statusCode ?? 0, type, body: Buffer.concat(chunks) });
          });
        },
      );
      sent.once('error', reject);
      sent.end(body);
    });
  }

  function connect(path: string, protocol = 'plain.kubevirt.io'): WebSocket {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, [protocol]);
    socket.on('error', () => undefined);
    return socket;
  }

  test('passes a request and its answer on as they are, without the cookies and tokens of the page', async () => {
    const picture = Buffer.from([0x89, 0x50, 0, 0xff]);
    agent.answers.set(`GET ${demo}/vnc/screenshot`, { status: 200, contentType: 'image/png', body: picture });
    agent.answers.set(`PUT ${demo}/freeze`, { status: 400, body: 'unfreezeTimeout is missing' });
    const got = await call('GET', `${demo}/vnc/screenshot`);
    assert.deepEqual(got, { status: 200, type: 'image/png', body: picture });
    const headers = { cookie: 'virt-web=secret', authorization: 'Bearer secret', 'content-type': 'application/json' };
    const refused = await call('PUT', `${demo}/freeze`, '{"unfreezeTimeout":""}', headers);
    assert.deepEqual([refused.status, refused.body.toString()], [400, 'unfreezeTimeout is missing']);
    const { body, headers: passed } = agent.calls.at(-1) ?? { body: '', headers: {} };
    assert.equal(body, '{"unfreezeTimeout":""}');
    assert.doesNotMatch(JSON.stringify(passed), /secret/);
  });

  test('passes a stream on, with its subprotocol, its query and its close code', async () => {
    const socket = connect(`${demo}/console?access=take`);
    await once(socket, 'open');
    assert.equal(socket.protocol, 'plain.kubevirt.io');
    await eventually(() => assert.equal(agent.guests.length, 1));
    const heard = once(socket, 'message');
    agent.guest.write('login: ');
    assert.equal(String((await heard)[0]), 'login: ');
    const typed = once(agent.guest, 'data');
    socket.send(Buffer.from('root'));
    assert.equal(String((await typed)[0]), 'root');
    const pong = once(socket, 'pong');
    socket.ping('p');
    assert.equal(String((await pong)[0]), 'p');
    const other = connect(`${demo}/console?access=take`);
    const [code, reason] = await once(socket, 'close');
    assert.equal(code, 4001);
    assert.match(String(reason), /\w/);
    assert.ok(agent.calls.some(({ what }) => what.endsWith('/console?access=take')));
    other.close();
    await once(other, 'close');
  });

  test('a stream that the agent refuses is refused with its status and its text', async () => {
    const socket = connect(`${vmPath('default', 'nobody')}/console`);
    const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    assert.equal(answer.statusCode, 404);
    assert.equal(String(await answer.toArray()), 'VMI is unknown');
  });

  test('the guest learns of a client that is gone, and the client of an agent that was killed', async () => {
    const socket = connect(`${demo}/console`);
    await once(socket, 'open');
    await eventually(() => assert.equal(agent.guests.length, 1));
    const ended = once(agent.guest, 'close');
    socket.terminate();
    await ended;
    const second = connect(`${demo}/console`);
    await once(second, 'open');
    const closed = once(second, 'close');
    await agent.kill();
    assert.equal((await closed)[0], 1006);
  });

  test('a slow client makes the guest wait, and loses nothing', async () => {
    const socket = connect(`${demo}/console`);
    await once(socket, 'open');
    await eventually(() => assert.equal(agent.guests.length, 1));
    socket.pause();
    const size = 32 * 1024 * 1024;
    let sentBytes = 0;
    const chunk = Buffer.alloc(64 * 1024);
    const pump = () => {
      while (sentBytes < size) {
        sentBytes += chunk.length;
        if (!agent.guest.write(chunk)) break;
      }
    };
    agent.guest.on('drain', pump);
    let got = 0;
    socket.on('message', (data: Buffer) => {
      got += data.length;
    });
    pump();
    await settled(() => sentBytes, 300);
    assert.ok(sentBytes < size / 2, `${sentBytes} bytes were taken from the guest`);
    socket.resume();
    await eventually(() => assert.equal(got, size), 60_000);
    socket.terminate();
  });

  test('an agent that is away is a 502 in words, for requests and for streams', async () => {
    await agent.kill();
    const answer = await call('PUT', `${demo}/pause`);
    assert.equal(answer.status, 502);
    assert.match(answer.body.toString(), /virt-handler does not answer on 127\.0\.0\.1:\d+/);
    const [, refused] = (await once(connect(`${demo}/vnc`), 'unexpected-response')) as [unknown, IncomingMessage];
    assert.equal(refused.statusCode, 502);
    assert.match(String(await refused.toArray()), /virt-handler does not answer/);
  });

  for (const [what, commonName, usage] of [
    ['another name', 'kubevirt.io:system:client:virt-handler', 'serverAuth'],
    ['the purpose of a client', serverCommonName, 'clientAuth'],
  ] as const) {
    test(`a server whose certificate is our authority's but has ${what} is not talked to`, async () => {
      const dir = agent.paths.certificatesDir;
      const read = (file: string) => readFile(path.join(dir, file), 'utf8');
      const authority = { cert: await read('ca.crt'), key: await read('ca.key') };
      const pair = await issue(authority, { commonName, usage, days: 1 });
      const files = { certFile: path.join(dir, 'other.crt'), keyFile: path.join(dir, 'other.key') };
      await writeFile(files.certFile, pair.cert);
      await writeFile(files.keyFile, pair.key);
      await agent.kill();
      await agent.serve(files);
      const answer = await call('PUT', `${demo}/pause`);
      assert.equal(answer.status, 502);
      assert.match(answer.body.toString(), /do not trust each other|not virt-handler/);
      assert.deepEqual(agent.calls, []);
    });
  }
});
