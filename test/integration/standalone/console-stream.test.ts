import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, test } from 'node:test';
import {
  AgentApi,
  agentOf,
  attachConsole,
  ConsoleStream,
  type ConsoleWish,
  vmPath,
} from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { eventually } from '../../fixtures/eventually.ts';

const demo = { namespace: 'default', name: 'demo', access: 'take-if-free', replay: true } as const;

describe('a console through the agent', () => {
  let agent: AgentStandIn;
  let open: ConsoleStream[];

  beforeEach(async () => {
    agent = await AgentStandIn.start();
    open = [];
  });
  afterEach(async () => {
    for (const stream of open) stream.destroy();
    await agent.stop();
  });

  async function attach(wish: Partial<ConsoleWish> = {}) {
    const reported: string[] = [];
    const deps = { agent: new AgentApi(agentOf(agent.paths)), report: (line: string) => void reported.push(line) };
    const stream = await ConsoleStream.open({ ...demo, ...wish }, deps, AbortSignal.timeout(30_000));
    open.push(stream);
    let seen = '';
    stream.on('error', () => undefined);
    stream.on('data', (chunk: Buffer) => {
      seen += chunk.toString();
    });
    const sees = (text: string) => eventually(() => assert.equal(seen, text));
    return { stream, reported, sees };
  }

  /** What the guest reads. */
  function typed(): { text: string } {
    const read = { text: '' };
    agent.guest.on('data', (chunk) => {
      read.text += chunk;
    });
    return read;
  }

  test('carries bytes both ways, and ends when the guest closes its side', async () => {
    const { stream, sees } = await attach();
    const read = typed();
    agent.guest.write('login: ');
    await sees('login: ');
    stream.write('root\r');
    await eventually(() => assert.equal(read.text, 'root\r'));
    agent.guest.end();
    await once(stream, 'close');
    assert.equal(stream.errored, null);
  });

  test('comes back after kill -9 of the agent, tells so, and what was typed in between arrives', async () => {
    const { stream, reported, sees } = await attach();
    agent.guest.write('before ');
    await sees('before ');
    await agent.kill();
    await eventually(() => assert.match(reported.join('\n'), /went away/));
    stream.write('typed');
    await agent.serve();
    await eventually(() => assert.equal(agent.guests.length, 2));
    const read = typed();
    await eventually(() => assert.equal(read.text, 'typed'));
    agent.guest.write('after');
    await sees('before after');
    assert.match(reported.join('\n'), /connected again; what the guest wrote in between is lost/);
  });

  test('comes back when the agent leaves for an update', async () => {
    const { reported, sees } = await attach();
    await agent.leave();
    await agent.serve();
    await eventually(() => assert.equal(agent.guests.length, 2));
    agent.guest.write('again');
    await sees('again');
    assert.match(reported.join('\n'), /connected again/);
  });

  test('asks for exactly the bytes that it has not seen', async () => {
    const { sees } = await attach();
    agent.guest.write('0123456789');
    await sees('0123456789');
    await agent.leave();
    await agent.serve();
    await eventually(() => assert.match(agent.calls.at(-1)?.what ?? '', /access=take&line=[^&]+&from=10$/));
  });

  test('a second one is refused while somebody types, or takes over and both are told', async () => {
    const first = await attach();
    await assert.rejects(attach(), { code: 'AGENT_REFUSED', httpStatus: 503 });
    const roles: unknown[] = [];
    first.stream.on('role', (...role) => roles.push(role));
    const second = await attach({ access: 'take' });
    await eventually(() => assert.equal(roles.length, 1));
    assert.equal(first.stream.role, 'viewer');
    assert.match(JSON.stringify(roles), /viewer.*\w/);
    const read = typed();
    first.stream.write('nobody hears this');
    second.stream.write('b');
    await eventually(() => assert.equal(read.text, 'b'));
    first.stream.takeOver();
    await eventually(() => assert.equal(second.stream.role, 'viewer'));
    first.stream.write('a');
    await eventually(() => assert.equal(read.text, 'ba'));
    agent.guest.write('seen by both');
    await first.sees('seen by both');
    await second.sees('seen by both');
  });

  test('one who looks on sees what was there before; a program that sends a command does not', async () => {
    const writer = await attach();
    agent.guest.write('past ');
    await writer.sees('past ');
    const viewer = await attach({ access: 'view' });
    await viewer.sees('past ');
    const program = await attach({ access: 'take', replay: false });
    agent.guest.write('present');
    await program.sees('present');
    await viewer.sees('past present');
  });

  test('the next one finds the console free as soon as this one has closed', async () => {
    for (let count = 0; count < 5; count++) {
      const { stream } = await attach();
      stream.destroy();
      await once(stream, 'close');
    }
  });

  test('a VM that is gone ends it with the reason', async () => {
    const { stream } = await attach();
    agent.streams.endAll(agent.uid, 'the virtual machine has ended');
    await assert.rejects(once(stream, 'close'), { code: 'NO_CONSOLE', message: 'the virtual machine has ended' });
  });

  test('a large output reaches a slow reader whole, and a large input a slow guest', async () => {
    const { stream } = await attach();
    const output = new PassThrough({ highWaterMark: 1024 });
    const input = new PassThrough();
    const ended = attachConsole(
      stream,
      { input, output, report: () => undefined },
      { viewOnly: false },
      AbortSignal.timeout(60_000),
    );
    const size = 4 * 1024 * 1024;
    let read = 0;
    agent.guest.on('data', (chunk: Buffer) => {
      read += chunk.length;
    });
    agent.guest.write(Buffer.alloc(size, 'o'));
    input.write(Buffer.alloc(size, 'i'));
    await eventually(() => assert.equal(read, size), 60_000);
    let got = 0;
    output.on('data', (chunk: Buffer) => {
      got += chunk.length;
    });
    await eventually(() => assert.equal(got, size), 60_000);
    agent.guest.end();
    assert.equal(await ended, 'closed');
  });

  test('no agent, another one than ours, and a VM it does not know are told in words', async () => {
    await assert.rejects(attach({ name: 'nobody' }), { code: 'AGENT_REFUSED', httpStatus: 404, message: /unknown/ });
    const api = new AgentApi(agentOf(agent.paths));
    agent.answers.set(`PUT ${vmPath('default', 'demo')}/pause`, { status: 500, body: 'the launcher does not answer' });
    const pause = api.call('PUT', `${vmPath('default', 'demo')}/pause`);
    await assert.rejects(pause, { code: 'AGENT_REFUSED', httpStatus: 500, message: 'the launcher does not answer' });
    await agent.kill();
    await assert.rejects(attach(), { code: 'AGENT_AWAY', message: /does not answer on 127.0.0.1:\d+/ });
  });
});
