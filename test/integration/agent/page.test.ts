import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { AgentPage } from '../../../src/agent/serve/page/index.ts';
import type { Key, VirtualMachineInstance } from '../../../src/api/index.ts';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import type { VmRow } from '../../../src/web/index.ts';

/** The agent's VMIs in memory. */
class Vmis {
  synced = true;
  health = [{ isConnected: true, failures: 0, lastError: undefined as string | undefined }];
  readonly #objects = new Map<Key, VirtualMachineInstance>();
  readonly #listeners = new Set<(key: Key) => void>();

  put(name: string, node: string, more: object = {}): void {
    const metadata = { namespace: 'default', name, uid: `uid-${name}`, labels: { 'kubevirt.io/nodeName': node } };
    const spec = { domain: { devices: {} } };
    const kind = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance' };
    this.#objects.set(`default/${name}`, { ...kind, metadata, spec, status: { phase: 'Running', ...more } });
    for (const listener of this.#listeners) listener(`default/${name}`);
  }

  get(key: Key): VirtualMachineInstance | undefined {
    return this.#objects.get(key);
  }

  keys(): Iterable<Key> {
    return this.#objects.keys();
  }

  onChange(listener: (key: Key) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

suite('the web page that an agent serves', () => {
  let dir: string;
  let vmis: Vmis;
  let ports: number[];
  const pages: AgentPage[] = [];

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'agent-page-'));
    await mkdir(path.join(dir, 'web/assets'), { recursive: true });
    await writeFile(path.join(dir, 'web/index.html'), '<!doctype html><title>the page</title>');
    vmis = new Vmis();
    ports = [];
  });
  afterEach(async () => {
    for (const page of pages.splice(0)) await page.stop();
    await rm(dir, { recursive: true, force: true });
  });

  /** The port is in the log, as a person finds it. */
  const start = async (pageDir = path.join(dir, 'web')) => {
    const log = silentLogger.child({});
    log.info = ((fields: { port: number }) => ports.push(fields.port)) as typeof log.info;
    const api = {
      handle: (_request: unknown, response: { end(text: string): void }) => response.end('the agent'),
      upgrade: () => undefined,
    };
    const page = new AgentPage(
      { nodeName: 'node1', port: 0, pageDir, privateDir: dir },
      {
        ...{ vmis, api, clock: systemClock, log },
        why: async (target) => ({ httpStatus: 200, body: { target } }),
      },
    );
    pages.push(page);
    await page.start();
    return page;
  };
  const tokenOf = async (page: AgentPage) =>
    (await readFile(page.addressFile, 'utf8')).trim().split('#token=')[1] ?? '';
  const enter = async (page: AgentPage) => {
    const origin = `http://127.0.0.1:${ports.at(-1)}`;
    const headers = { authorization: `Bearer ${await tokenOf(page)}`, origin };
    return (target: string, method = 'GET') => fetch(`${origin}${target}`, { method, headers });
  };

  const listOf = async (ask: Awaited<ReturnType<typeof enter>>) =>
    (await (await ask('/api/vms')).json()) as { node: string; actions: boolean; problem?: string; rows: VmRow[] };

  test('lists the VMIs of this node, not those that only come here, and offers no start and stop', async () => {
    vmis.put('mine', 'node1', { conditions: [{ type: 'Paused', status: 'True' }] });
    vmis.put('coming', 'node2');
    const ask = await enter(await start());
    const list = await listOf(ask);
    assert.deepEqual([list.node, list.actions, list.problem], ['node1', false, undefined]);
    assert.deepEqual(
      list.rows.map((row) => [row.name, row.vmi?.paused]),
      [['mine', true]],
    );
    assert.ok((await ask('/api/vms/default/mine/stop', 'POST')).status >= 400);
  });

  test('passes decisions and the routes of a VM on to the agent’s own', async () => {
    vmis.put('mine', 'node1');
    const ask = await enter(await start());
    assert.deepEqual(await (await ask('/api/why/default/mine')).json(), { target: '/why/default/mine' });
    const route = '/v1/namespaces/default/virtualmachineinstances/mine/pause';
    assert.equal(await (await ask(route, 'PUT')).text(), 'the agent');
  });

  test('says why the list may be old, and again when that is over', async () => {
    vmis.synced = false;
    const ask = await enter(await start());
    const problem = async () => (await listOf(ask)).problem;
    assert.equal(await problem(), 'the list is being read');
    vmis.synced = true;
    vmis.health = [{ isConnected: false, failures: 3, lastError: 'connect ECONNREFUSED' }];
    assert.match((await problem()) ?? '', /does not answer: connect ECONNREFUSED/);
    vmis.health = [{ isConnected: true, failures: 3, lastError: 'connect ECONNREFUSED' }];
    assert.equal(await problem(), undefined);
  });

  test('nobody gets in without the token, which only the owner of the node can read and which is another one at each start', async () => {
    const page = await start();
    assert.equal((await fetch(`http://127.0.0.1:${ports.at(-1)}/api/vms`)).status, 401);
    assert.equal((await stat(page.addressFile)).mode & 0o777, 0o600);
    const token = await tokenOf(page);
    assert.match(token, /^[\w-]{32}$/);
    await page.stop();
    assert.notEqual(await tokenOf(await start()), token);
    const answer = await fetch(`http://127.0.0.1:${ports.at(-1)}/api/vms`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(answer.status, 401);
  });

  test('a file with something else in it is replaced', async () => {
    for (const text of ['', 'short\n', 'x'.repeat(100_000), '\0'.repeat(40)]) {
      await writeFile(path.join(dir, 'web-url'), text);
      const page = await start();
      assert.match(await tokenOf(page), /^[\w-]{32}$/);
      await page.stop();
    }
  });

  test('a page that was not built is told and harms nothing', async () => {
    await start(path.join(dir, 'none'));
    assert.deepEqual(ports, []);
  });
});
