import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { ApiClient } from '../fixtures/api-client.ts';
import { ApiProcess } from '../fixtures/api-program.ts';
import { attack, localUser } from '../fixtures/attacker.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can become another user';

/** An honest client waits this long at most, on a loaded machine of two cores. */
const patienceMs = 20_000;
const mebibyte = 1024 * 1024;

/** Asks as the administrator as long as `work` runs; gives its value and the longest time that an answer took. */
async function meanwhile<T>(admin: ApiClient, work: Promise<T>): Promise<{ value: T; longestMs: number }> {
  let isOver = false;
  const value = work.finally(() => {
    isOver = true;
  });
  let longestMs = 0;
  while (!isOver) {
    const startMs = performance.now();
    const { status } = await admin.get('/api/v1/namespaces/default/configmaps/m1');
    assert.equal(status, 200);
    longestMs = Math.max(longestMs, performance.now() - startMs);
  }
  return { value: await value, longestMs };
}

describe('the weakest token of a standalone node', { skip: needsRoot }, () => {
  let api: ApiProcess;
  const maps = '/api/v1/namespaces/default/configmaps';

  before(async () => {
    api = await ApiProcess.start();
    // 40 MB of objects, which every list and watch begins with.
    for (let done = 0; done < 1_000; done += 20) {
      const names = Array.from({ length: 20 }, (_, index) => `m${done + index}`);
      const data = { padding: 'x'.repeat(40_000) };
      await Promise.all(names.map((name) => api.admin.post(maps, { metadata: { name }, data })));
    }
    const guest = { domain: { devices: {}, memory: { guest: '64Mi' } } };
    const vmi = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'victim' },
      spec: guest,
    };
    const made = await api.admin.post('/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances', vmi);
    assert.equal(made.status, 201, made.text);
    const related = { kind: 'Pod', name: 'x'.repeat(200) };
    const events = '/api/v1/namespaces/default/events';
    const event = await api.handler.post(events, {
      metadata: { name: 'mine' },
      related,
      involvedObject: {},
      reason: 'r',
    });
    assert.equal(event.status, 201, event.text);
  });
  after(() => api.stop());

  test('fills no memory with watches, lists and bodies that it never reads or ends', async (t) => {
    const { token } = api.handler;
    const before = await api.forgetPeak();
    const input = { port: api.port, token, holdMs: 3_000, count: 200 };
    const attacking = attack<Record<string, Record<string, number>>>('api-unread', localUser, input);
    const { value, longestMs } = await meanwhile(api.admin, attacking);
    const grown = (await api.peakBytes()) - before;
    t.diagnostic(`longest wait ${Math.round(longestMs)} ms, grown by ${Math.round(grown / mebibyte)} MiB`);
    t.diagnostic(JSON.stringify(value));
    assert.ok(api.isRunning);
    assert.ok(longestMs < patienceMs, `an honest client waited ${Math.round(longestMs)} ms`);
    assert.ok(grown < 768 * mebibyte, `it grew by ${Math.round(grown / mebibyte)} MiB`);
    const refused = Object.values(value).reduce((sum, statuses) => sum + (statuses[429] ?? 0), 0);
    assert.ok(refused > 0, 'some are refused for their number');
  });

  test('ends or blocks the API with no request, however costly', async (t) => {
    const { token } = api.handler;
    const attacking = attack<Record<string, [number, number]>>('api-requests', localUser, {
      port: api.port,
      token,
      name: 'mine',
    });
    const { value, longestMs } = await meanwhile(api.admin, attacking);
    t.diagnostic(
      `longest wait ${Math.round(longestMs)} ms, peak ${Math.round((await api.peakBytes()) / mebibyte)} MiB`,
    );
    for (const [what, [status, tookMs]] of Object.entries(value)) t.diagnostic(`${what}: ${status} after ${tookMs} ms`);
    assert.ok(api.isRunning);
    assert.ok(longestMs < patienceMs, `an honest client waited ${Math.round(longestMs)} ms`);
    const wrong = Object.entries(value).filter(([, [status]]) => typeof status !== 'number' || status >= 500);
    assert.deepEqual(wrong, [], 'each is answered, in few words');
    assert.ok((await api.peakBytes()) < 1_536 * mebibyte, `${await api.peakBytes()} bytes`);
  });
});

interface Granted {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

const methods = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
} as const;
type Verb = keyof typeof methods;
const wholeVerbs: readonly Verb[] = ['list', 'watch', 'create', 'deletecollection'];

interface Found {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

describe('what a token may not do', () => {
  let api: ApiProcess;
  let found: Found[];
  before(async () => {
    api = await ApiProcess.start();
    found = await discover(api.admin);
    assert.ok(found.length > 30, `${found.length} resources`);
  });
  after(() => api.stop());

  test('is refused to virt-handler: all that its ClusterRole does not name', async () => {
    const role = parseAllDocuments(readFileSync('daemonset/base/rbac.yaml', 'utf8'))
      .map((document) => document.toJS())
      .find(({ kind }) => kind === 'ClusterRole');
    const self = { apiGroups: ['authorization.k8s.io', 'authentication.k8s.io'], verbs: ['create'] };
    const selves = ['selfsubjectaccessreviews', 'selfsubjectrulesreviews', 'selfsubjectreviews'];
    const granted: Granted[] = [...role.rules, { ...self, resources: selves }];
    const isGranted = ({ group, resource }: Found, verb: Verb) =>
      granted.some(
        (rule) => rule.apiGroups.includes(group) && rule.resources.includes(resource) && rule.verbs.includes(verb),
      );
    const wrong: string[] = [];
    for (const { resource, verb, status } of await walk(api.handler, found)) {
      if ((status === 403) === isGranted(resource, verb))
        wrong.push(`${verb} ${resource.group}/${resource.resource}: ${status}`);
    }
    assert.deepEqual(wrong, []);
  });

  for (const [who, token] of [
    ['nobody', ''],
    ['a token of nonsense', 'x'.repeat(32)],
  ] as const) {
    test(`is everything for ${who}`, async () => {
      const answers = await walk(api.admin.withToken(token), found);
      assert.deepEqual(
        answers.filter(({ status }) => status !== 401),
        [],
      );
    });
  }

  test('nor does virt-handler become somebody else', async () => {
    for (const headers of [{ 'impersonate-user': 'admin' }, { 'impersonate-group': 'system:masters' }]) {
      const { status } = await api.handler.get('/api/v1/secrets', { headers });
      assert.equal(status, 403);
    }
  });
});

async function discover(admin: ApiClient): Promise<Found[]> {
  const { body: groups } = await admin.get('/apis');
  const names: string[] = groups.groups.flatMap((group: { versions: { groupVersion: string }[] }) =>
    group.versions.map(({ groupVersion }) => groupVersion),
  );
  const lists = await Promise.all(
    ['v1', ...names].map((name) => admin.get(name === 'v1' ? '/api/v1' : `/apis/${name}`)),
  );
  return lists.flatMap(({ body }) => {
    const [version = '', group = ''] = String(body.groupVersion).split('/').reverse();
    return body.resources.map(
      ({ name, namespaced, verbs }: { name: string; namespaced: boolean; verbs: string[] }) => ({
        group,
        version,
        resource: name,
        namespaced,
        verbs,
      }),
    );
  });
}

/** Tries each verb on each resource, on a name that nothing has and with a body that nothing can be made of. */
async function walk(client: ApiClient, found: readonly Found[]) {
  const answers: { resource: Found; verb: Verb; status: number }[] = [];
  for (const resource of found) {
    // Of a sub-resource there is no collection.
    const isPart = resource.resource.includes('/');
    const verbs = (Object.keys(methods) as Verb[]).filter(
      (verb) => !isPart || !wholeVerbs.includes(verb) || verb === 'create',
    );
    for (const verb of verbs) {
      const status = await tryOne(client, resource, verb);
      // There is no such call.
      const isNone = status === 405 || (status === 404 && !resource.verbs.includes(verb));
      if (!isNone) answers.push({ resource, verb, status });
    }
  }
  return answers;
}

async function tryOne(client: ApiClient, { group, version, resource, namespaced }: Found, verb: Verb): Promise<number> {
  const [plural = '', ...sub] = resource.split('/');
  const base = `${group === '' ? '/api' : `/apis/${group}`}/${version}${namespaced ? '/namespaces/default' : ''}/${plural}`;
  const isWhole = wholeVerbs.includes(verb) && sub.length === 0;
  const path = isWhole ? base : [base, 'nothing-of-this-name', ...sub].join('/');
  const query = verb === 'watch' ? '?watch=1&timeoutSeconds=1&resourceVersion=1' : '?dryRun=All';
  if (verb === 'watch') {
    const watch = await client.watch(`${path}${query}`);
    watch.close();
    return watch.status;
  }
  const { status } = await client.call(methods[verb], `${path}${query}`, methods[verb] === 'GET' ? undefined : '[]');
  return status;
}
