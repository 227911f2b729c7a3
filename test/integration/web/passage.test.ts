import assert from 'node:assert/strict';
import type { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { TimelineReport } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { memoryRights } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let key: string;

before(async () => {
  site = await WebSite.start();
  key = await site.session();
});
after(() => site?.dispose());

const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';

function ask(method: string, target: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${site.origin}${target}`, {
    ...init,
    method,
    headers: { authorization: `Bearer ${key}`, ...init.headers },
  });
}

test('a request to the API goes on as it is, without the secrets of the page, and so does its refusal', async () => {
  const status = { kind: 'Status', message: 'it is wrong', details: { causes: [{ field: 'spec', message: 'no' }] } };
  site.backend.kube.answer = { httpStatus: 422, contentType: 'application/json', text: JSON.stringify(status) };
  const headers = { 'content-type': 'application/yaml', accept: 'application/json', cookie: 'a=b' };
  const answer = await ask('POST', `/kube${vms}?dryRun=All`, { headers, body: 'kind: VirtualMachine' });
  assert.deepEqual([answer.status, await answer.json()], [422, status]);
  assert.deepEqual(site.backend.kube.requests, [
    {
      method: 'POST',
      path: `${vms}?dryRun=All`,
      headers: { accept: 'application/json', 'content-type': 'application/yaml' },
      body: 'kind: VirtualMachine',
    },
  ]);
});

test('what is not on the list, what has no session, and what another site sends does not', async () => {
  const before = site.backend.kube.requests.length;
  assert.equal((await ask('GET', '/kube/api/v1/secrets')).status, 404);
  assert.equal((await ask('DELETE', `/kube${vms}`)).status, 404);
  assert.equal((await fetch(`${site.origin}/kube${vms}`)).status, 401);
  assert.equal((await ask('GET', `/kube${vms}`, { headers: { origin: 'http://elsewhere.test' } })).status, 403);
  assert.equal(
    (await ask('POST', '/api/images/my%2Fx', { headers: { authorization: 'Bearer wrong' }, body: 'x' })).status,
    401,
  );
  assert.equal(site.backend.kube.requests.length, before);
});

test('what is written anywhere is never a page of this origin', async () => {
  site.backend.kube.answer = { httpStatus: 200, contentType: 'text/html', text: '<script>alert(1)</script>' };
  const answer = await ask('GET', '/kube/api/v1/namespaces/default/pods/a/log');
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
});

test('an API that does not answer is told in words; a body beyond every object is refused', async () => {
  site.backend.kube.failure = new Error('connect ECONNREFUSED');
  const answer = await ask('GET', `/kube${vms}/demo`);
  site.backend.kube.failure = undefined;
  const message = 'the Kubernetes API does not answer: connect ECONNREFUSED';
  assert.deepEqual([answer.status, await answer.json()], [502, { message }]);
  assert.equal((await ask('POST', `/kube${vms}`, { body: 'x'.repeat(3 * 2 ** 20 + 1) })).status, 413);
});

async function sizeOf(content: Readable): Promise<number> {
  let bytes = 0;
  for await (const chunk of content as AsyncIterable<Buffer>) bytes += chunk.length;
  return bytes;
}

test('an upload reaches the images whole, and what they say against it reaches who sends', async () => {
  const sizeBytes = 5 * 2 ** 20;
  site.backend.images.receive = async (content) => sizeOf(content);
  const body = Buffer.alloc(sizeBytes, 7);
  const done = await ask('POST', '/api/images/my%2Fdebian%3A12', { body });
  assert.deepEqual([done.status, await done.json()], [201, { reference: 'my/debian:12', boots: 'disk', sizeBytes }]);
  site.backend.images.receive = async () => {
    throw new Error('it is a web page');
  };
  const refused = await ask('POST', '/api/images/my%2Fx', { body });
  assert.deepEqual([refused.status, await refused.json()], [422, { message: 'it is a web page' }]);
  assert.deepEqual(await (await ask('GET', '/api/images')).json(), { items: [] });
});

test('an upload that is given up ends what reads it', async () => {
  let reason: unknown;
  site.backend.images.receive = async (content, signal) => {
    signal.addEventListener('abort', () => {
      reason = signal.reason;
    });
    return sizeOf(content).catch(() => 0);
  };
  const ending = new AbortController();
  const body = new ReadableStream({ pull: (stream) => stream.enqueue(Buffer.alloc(1_024)) }, { highWaterMark: 0 });
  const sending = ask('POST', '/api/images/my%2Fx', { body, signal: ending.signal, duplex: 'half' } as RequestInit);
  const ended = sending.catch((error: Error) => error.name);
  ending.abort();
  assert.equal(await ended, 'AbortError');
  await eventually(() => assert.match(String(reason), /the client has gone|undefined/));
});

test('how a VM came to run is what the node knows of it', async () => {
  const { kind, name } = (await (await ask('GET', '/api/timeline/default/demo')).json()) as TimelineReport;
  assert.deepEqual([kind, name], ['Timeline', 'demo']);
  assert.equal((await ask('POST', '/api/timeline/default/demo')).status, 404);
});

test('figures are the agent’s', async () => {
  assert.deepEqual(await (await ask('GET', '/api/figures/default/demo')).json(), { figures: 'default/demo' });
});

test('an agent that is away, or not ready, is told beside the list, which is as it is now', async () => {
  const noticeOf = async () => {
    const { notice } = (await (await ask('GET', '/api/vms')).json()) as { notice?: string };
    return notice;
  };
  site.backend.nodes.set({ name: 'node1', agent: 'away', isCordoned: false });
  assert.match((await noticeOf()) ?? '', /^the agent of node1 does not answer: machines that run go on/);
  site.backend.nodes.set({ name: 'node1', agent: 'not-ready', reason: 'no libvirt', isCordoned: false });
  assert.match((await noticeOf()) ?? '', /^the agent of node1 is not ready \(no libvirt\)/);
  site.backend.nodes.set({ name: 'node1', agent: 'ready', isCordoned: false });
  assert.equal(await noticeOf(), undefined);
  site.backend.nodes.set();
});

test('the list tells what the page may do', async () => {
  const list = await (await ask('GET', '/api/vms')).json();
  assert.deepEqual(list, { ...memoryRights, node: 'node1', rows: [] });
});
