import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { NewNames } from '../../../../src/controller/owned/index.ts';
import { type ExecuteContext, executors } from '../../../../src/controller/replica-set/execute.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildSet, member, owner, running } from './situations.ts';

type Vmi = VirtualMachineInstance;

/** An API server with VMIs in memory; `answer` may refuse a creation, or lose its answer. */
function world(answer: (attempt: number) => 'made' | 'refused' | 'lost' | 'lost before' = () => 'made') {
  const stored = new Map<string, Vmi>();
  const calls: string[] = [];
  const created: string[] = [];
  let attempts = 0;
  let serial = 0;
  const client = {
    create: async (_type: unknown, vmi: Vmi) => {
      const how = answer(++attempts);
      calls.push(`create ${how}`);
      if (how === 'refused') throw new KubeError('FORBIDDEN', 'exceeded quota', { httpStatus: 403 });
      if (how === 'lost before') throw new KubeError('UNREACHABLE', 'refused connection');
      if (stored.has(keyOf(vmi))) throw new KubeError('ALREADY_EXISTS', 'exists', { httpStatus: 409 });
      const made = { ...vmi, metadata: { ...vmi.metadata, uid: `uid-${++serial}` } };
      stored.set(keyOf(vmi), made);
      if (how === 'lost') throw new KubeError('TIMEOUT', 'no answer');
      return made;
    },
    get: async (type: { resource: string }, { namespace, name }: { namespace?: string; name: string }) => {
      calls.push(`get ${type.resource}`);
      if (type.resource !== 'virtualmachineinstances') return buildSet();
      const found = stored.get(`${namespace}/${name}`);
      if (!found) throw new KubeError('NOT_FOUND', 'no', { httpStatus: 404 });
      return found;
    },
    delete: async (_type: unknown, { name }: { name: string }, options: { uid?: string }) => {
      calls.push(`delete ${name} ${options.uid}`);
      if (name === 'gone') throw new KubeError('NOT_FOUND', 'no', { httpStatus: 404 });
      if (name === 'stuck') throw new KubeError('FORBIDDEN', 'no', { httpStatus: 403 });
    },
    patch: async (_type: unknown, { name }: { name: string }, body: unknown, kind: string) => {
      calls.push(`${kind} ${name} ${JSON.stringify(body)}`);
      return member(name, running);
    },
  };
  const context = {
    client,
    vmis: { saw: () => undefined, deleted: () => undefined },
    members: { created: ({ metadata }: Vmi) => created.push(metadata.name) },
    names: new NewNames(Math.random),
    seen: new Set(),
    key: 'default/web',
    set: buildSet(),
    signal: new AbortController().signal,
  } as unknown as ExecuteContext;
  return { stored, calls, created, context };
}

const create = (count: number, context: ExecuteContext) => executors.createVmis({ step: 'createVmis', count }, context);

test('VMIs are made from the template, with names of the set', async () => {
  const { stored, context } = world();
  const set = buildSet({
    template: {
      metadata: { name: 'node-', labels: { app: 'web' }, annotations: { note: 'x' } },
      spec: { domain: { memory: { guest: '64Mi' } } },
    },
  });
  assert.equal((await create(1, { ...context, set })).kind, 'done');
  const [vmi] = stored.values();
  assert.match(vmi?.metadata.name ?? '', /^node-[a-z0-9]{5}$/);
  assert.deepEqual(vmi?.metadata.ownerReferences, [owner]);
  assert.deepEqual([vmi?.metadata.labels, vmi?.metadata.annotations], [{ app: 'web' }, { note: 'x' }]);
});

test('where one is refused no more are asked for, and those that were made are told', async () => {
  const { calls, context } = world((attempt) => (attempt <= 3 ? 'made' : 'refused'));
  const outcome = await create(100, context);
  assert.equal(outcome.kind, 'failed');
  assert.equal(calls.length, 1 + 2 + 4);
  const reasons = outcome.events?.map(({ reason }) => reason) ?? [];
  assert.deepEqual(reasons, ['SuccessfulCreate', 'SuccessfulCreate', 'SuccessfulCreate', 'FailedCreate']);
});

test('a name whose creation had no answer is used again, and what is there already is not made twice', async () => {
  const { stored, created, context } = world((attempt) => (attempt === 1 ? 'lost' : 'made'));
  assert.equal((await create(1, context)).kind, 'failed');
  assert.equal((await create(1, context)).kind, 'done');
  assert.equal(stored.size, 1);
  assert.deepEqual(
    created,
    [...stored.values()].map(({ metadata }) => metadata.name),
  );
});

test('one that was seen to be there meanwhile does not count as made: a new one is', async () => {
  const { stored, context } = world((attempt) => (attempt === 1 ? 'lost' : 'made'));
  assert.equal((await create(1, context)).kind, 'failed');
  const seen = new Set([...stored.values()].map(({ metadata }) => metadata.name));
  assert.equal((await create(1, { ...context, seen })).kind, 'done');
  assert.equal(stored.size, 2);
});

test('the same where the request never came', async () => {
  const { stored, context } = world((attempt) => (attempt === 1 ? 'lost before' : 'made'));
  assert.equal((await create(2, context)).kind, 'failed');
  assert.equal((await create(2, context)).kind, 'done');
  assert.equal(stored.size, 2);
});

test('a name that belongs to another is not taken for an own one, and is not tried again', async () => {
  const { stored, created, context } = world();
  const [name = ''] = context.names.take(context.key, 'web', 1, context.seen);
  context.names.unanswered(context.key, name);
  stored.set(`default/${name}`, { ...member(name), metadata: { name, namespace: 'default', uid: 'foreign' } });
  assert.equal((await create(1, context)).kind, 'failed');
  assert.equal((await create(1, context)).kind, 'done');
  assert.equal(created.length, 1);
  assert.notEqual(created[0], name);
});

test('VMIs are deleted by their UID; one that is gone is no failure', async () => {
  const { calls, context } = world();
  const vmis = [member('one'), member('gone')];
  const outcome = await executors.deleteVmis({ step: 'deleteVmis', vmis }, context);
  assert.equal(outcome.kind, 'done');
  assert.deepEqual(calls, ['delete one uid-one', 'delete gone uid-gone']);
  assert.deepEqual(
    outcome.events?.map(({ reason }) => reason),
    ['SuccessfulDelete'],
  );
  const failed = await executors.deleteVmis({ step: 'deleteVmis', vmis: [member('stuck')] }, context);
  assert.deepEqual([failed.kind, failed.events?.map(({ reason }) => reason)], ['failed', ['FailedDelete']]);
});

test('before VMIs are taken in the API server is asked whether the set is still there', async () => {
  const { calls, context } = world();
  const vmis = [member('orphan', running, { ownerReferences: [] })];
  await executors.adoptVmis({ step: 'adoptVmis', vmis }, { ...context, set: buildSet({}, { uid: 'another' }) });
  assert.deepEqual(calls, ['get virtualmachineinstancereplicasets']);
  await executors.adoptVmis({ step: 'adoptVmis', vmis }, context);
  const body = { metadata: { uid: 'uid-orphan', resourceVersion: '10', ownerReferences: [owner] } };
  assert.equal(calls.at(-1), `merge orphan ${JSON.stringify(body)}`);
});

test('a VMI is let go by what was observed of it', async () => {
  const { calls, context } = world();
  await executors.releaseVmis({ step: 'releaseVmis', vmis: [member('stray')] }, context);
  const path = '/metadata/ownerReferences';
  const operations = [
    { op: 'test', path: '/metadata/uid', value: 'uid-stray' },
    { op: 'test', path, value: [owner] },
    { op: 'replace', path, value: [] },
  ];
  assert.deepEqual(calls, [`json stray ${JSON.stringify(operations)}`]);
});
