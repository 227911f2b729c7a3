import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KubeObject, keyOf, type VirtualMachine } from '../../../../src/api/index.ts';
import { type ExecuteContext, executors } from '../../../../src/controller/pool/execute.ts';
import { Revisions } from '../../../../src/controller/pool/revisions.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildPool, owner, template, vmiOf, vmOf } from './situations.ts';

type Code = ConstructorParameters<typeof KubeError>[0];

/** An API server in memory; `refuse` gives the code that a request is refused with, `lose` those whose answer is lost. */
function world(
  stored: readonly KubeObject[] = [],
  {
    refuse = () => undefined,
    lose = () => false,
  }: { refuse?: (call: string) => Code | undefined; lose?: (call: string) => boolean } = {},
) {
  const objects = new Map(stored.map((object) => [`${object.kind}/${keyOf(object)}`, object]));
  const calls: string[] = [];
  const created: string[] = [];
  let pruned = 0;
  function called<T>(call: string, act: () => T): T {
    calls.push(call);
    const code = refuse(call);
    if (code) throw new KubeError(code, `${call}: ${code}`);
    const result = act();
    if (lose(call)) throw new KubeError('UNREACHABLE', 'no answer');
    return result;
  }
  const find = (type: { kind: string }, { namespace, name }: { namespace?: string; name: string }) =>
    objects.get(`${type.kind}/${namespace}/${name}`);
  type Type = { kind: string };
  type Ref = { namespace?: string; name: string };
  const client = {
    create: async (type: Type, object: KubeObject) =>
      called(`create ${type.kind} ${object.metadata.name}`, () => {
        if (find(type, object.metadata)) throw new KubeError('ALREADY_EXISTS', 'exists');
        const made = { ...object, metadata: { ...object.metadata, uid: 'uid-made' } };
        objects.set(`${type.kind}/${keyOf(object)}`, made);
        return made;
      }),
    get: async (type: Type, ref: Ref) =>
      called(`get ${type.kind} ${ref.name}`, () => {
        const found = find(type, ref);
        if (!found) throw new KubeError('NOT_FOUND', 'no');
        return found;
      }),
    list: async () => ({ items: [...objects.values()].filter(({ kind }) => kind === 'ControllerRevision') }),
    delete: async (type: Type, { name }: Ref, { uid }: { uid?: string }) =>
      called(`delete ${type.kind} ${name} ${uid}`, () => undefined),
    patch: async (type: Type, { name }: Ref, body: unknown, kind: string) =>
      called(`${kind} ${type.kind} ${name} ${JSON.stringify(body)}`, () => vmOf(0)),
    update: async (type: Type, object: KubeObject) =>
      called(`update ${type.kind} ${object.metadata.name}`, () => object),
  };
  const overlay = { get: () => undefined, saw: () => undefined, deleted: () => undefined };
  const context = {
    ...{ client, pools: overlay, vms: overlay, vmis: overlay, revisions: new Revisions(client as never) },
    members: { created: ({ metadata }: VirtualMachine) => created.push(metadata.name) },
    ...{
      templates: new Map(),
      inUse: new Set(['web-2']),
      pruned: () => pruned++,
      key: 'default/web',
      pool: buildPool(),
    },
    signal: new AbortController().signal,
  } as unknown as ExecuteContext;
  return { context, calls, created, prunes: () => pruned };
}

function revision(name: string, uid = 'uid-pool', virtualMachineTemplate: unknown = template()): KubeObject {
  const metadata = { name, namespace: 'default', uid: `uid-${name}`, ownerReferences: [{ ...owner, uid }] };
  const data = { virtualMachineTemplate };
  const object: KubeObject & { data: object } = { apiVersion: 'apps/v1', kind: 'ControllerRevision', metadata, data };
  return object;
}

test('a VM whose creation had no answer is found by its name, and is not made twice', async () => {
  const answers = [true, false];
  const { context, created, calls } = world([], {
    lose: (call) => call.startsWith('create') && answers.shift() === true,
  });
  const create = () => executors.createVms({ step: 'createVms', count: 1 }, context);
  assert.deepEqual([(await create()).kind, (await create()).kind], ['failed', 'done']);
  assert.deepEqual(created, ['web-0']);
  assert.deepEqual(
    calls,
    ['create', 'create', 'get'].map((call) => `${call} VirtualMachine web-0`),
  );
});

test('a name that another’s VM has is known as taken after the first try', async () => {
  const foreign = { ...vmOf(0), metadata: { ...vmOf(0).metadata, ownerReferences: [] } };
  const { context, created } = world([foreign]);
  const outcome = await executors.createVms({ step: 'createVms', count: 1 }, context);
  assert.deepEqual([outcome.kind, created], ['failed', ['web-0']]);
  assert.deepEqual(
    outcome.events?.map(({ reason }) => reason),
    ['FailedCreate', 'FailedScaleOut'],
  );
});

test('a VM is let go by what was observed of it; while others change it nothing that depends on it is done', async () => {
  const { context, calls } = world();
  const step = { step: 'releaseVms', vms: [vmOf(0)], disownFrom: 'uid-pool' } as const;
  assert.equal((await executors.releaseVms(step, context)).kind, 'done');
  const finalizer = ['pool.kubevirt.io/finalizer'];
  assert.deepEqual(JSON.parse(calls[0]?.replace('json VirtualMachine web-0 ', '') ?? ''), [
    { op: 'test', path: '/metadata/uid', value: 'uid-web-0' },
    { op: 'test', path: '/metadata/finalizers', value: finalizer },
    { op: 'replace', path: '/metadata/finalizers', value: [] },
    { op: 'test', path: '/metadata/uid', value: 'uid-web-0' },
    { op: 'test', path: '/metadata/ownerReferences', value: [owner] },
    { op: 'replace', path: '/metadata/ownerReferences', value: [] },
  ]);
  for (const [code, kind] of [
    ['INVALID', 'wait'],
    ['CONFLICT', 'wait'],
    ['NOT_FOUND', 'done'],
  ] as const)
    assert.equal((await executors.releaseVms(step, world([], { refuse: () => code }).context)).kind, kind, code);
});

test('the template is kept once, and a revision of another pool is not taken for it', async () => {
  const { context, calls } = world();
  for (const _ of [1, 2]) assert.equal((await executors.keepRevision({ step: 'keepRevision' }, context)).kind, 'done');
  assert.deepEqual(calls, ['create ControllerRevision web-2']);
  const own = world([revision('web-2')]);
  assert.equal((await executors.keepRevision({ step: 'keepRevision' }, own.context)).kind, 'done');
  for (const other of [revision('web-2', 'uid-other'), revision('web-2', 'uid-pool', {})]) {
    const outcome = await executors.keepRevision({ step: 'keepRevision' }, world([other]).context);
    assert.match(outcome.kind === 'failed' ? outcome.error.message : 'done', /web-2 is there and is not of this pool/);
  }
});

test('revisions of the pool that nothing uses are deleted, and no others', async () => {
  const { context, calls, prunes } = world([revision('web-1'), revision('web-2'), revision('other-1', 'uid-other')]);
  assert.equal((await executors.pruneRevisions({ step: 'pruneRevisions' }, context)).kind, 'done');
  assert.deepEqual([calls, prunes()], [['delete ControllerRevision web-1 uid-web-1'], 1]);
});

test('only what the VM itself controls is taken from it', async () => {
  const vm = vmOf(0);
  vm.spec.template.spec.volumes = ['own', 'users', 'gone'].map((name) => ({
    ...{ name, persistentVolumeClaim: { claimName: name } },
  }));
  const claim = (name: string, uid: string): KubeObject => ({
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
    metadata: { name, namespace: 'default', uid: `uid-${name}`, ownerReferences: [{ ...owner, uid }] },
  });
  const { context, calls } = world([claim('own', 'uid-web-0'), claim('users', 'uid-other')]);
  assert.equal((await executors.keepStorage({ step: 'keepStorage', vms: [vm] }, context)).kind, 'done');
  const patches = calls.filter((call) => call.startsWith('json'));
  assert.equal(patches.length, 1);
  assert.match(patches[0] ?? '', /PersistentVolumeClaim own .*"value":\[\]/);
});

test('guests are restarted and VMs deleted by their UID; what others changed meanwhile is looked at again', async () => {
  const { context, calls } = world();
  await executors.restartVmis({ step: 'restartVmis', vmis: [vmiOf(0, 1)] }, context);
  await executors.deleteVms({ step: 'deleteVms', vms: [vmOf(1)], why: 'surplus' }, context);
  assert.deepEqual(calls, ['delete VirtualMachineInstance web-0 uid-vmi-0', 'delete VirtualMachine web-1 uid-web-1']);
  const conflict = world([], { refuse: () => 'CONFLICT' });
  const updated = await executors.updateVms({ step: 'updateVms', vms: [vmOf(0)] }, conflict.context);
  assert.deepEqual([updated.kind, updated.events], ['done', []]);
  const forbidden = world([], { refuse: () => 'FORBIDDEN' });
  const refused = await executors.updateVms({ step: 'updateVms', vms: [vmOf(0)] }, forbidden.context);
  assert.deepEqual(
    refused.events?.map(({ reason }) => reason),
    ['FailedUpdate'],
  );
});
