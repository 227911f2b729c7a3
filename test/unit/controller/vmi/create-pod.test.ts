import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, Pod } from '../../../../src/api/index.ts';
import { LauncherPods } from '../../../../src/controller/pod/launcher-pods.ts';
import { renderLauncherPod } from '../../../../src/controller/pod/render.ts';
import { NamespaceQuotas } from '../../../../src/controller/quota/index.ts';
import { type ExecuteContext, executors } from '../../../../src/controller/vmi/execute.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildConfig, buildPod, buildVmi } from '../builders.ts';

const vmi = buildVmi({}, { phase: 'Pending' });

/** Objects by name, as an API server keeps them; `losesAnswer`: the creation is done and its answer does not come. */
class Api {
  readonly objects = new Map<string, KubeObject>([[vmi.metadata.name, vmi]]);
  readonly calls: string[] = [];
  readonly reads: string[] = [];
  losesAnswer = false;
  refusesDeletion = false;

  async create(_type: unknown, object: Pod): Promise<Pod> {
    const { name } = object.metadata;
    this.calls.push(`create ${name}`);
    if (this.objects.has(name)) throw new KubeError('ALREADY_EXISTS', `${name} exists`);
    const made = { ...object, metadata: { ...object.metadata, uid: `uid-of-${name}` } };
    this.objects.set(name, made);
    if (this.losesAnswer) throw new KubeError('TIMEOUT', 'no answer');
    return made;
  }

  async get(_type: unknown, { name }: { name: string }): Promise<KubeObject> {
    this.reads.push(name);
    const found = this.objects.get(name);
    if (!found) throw new KubeError('NOT_FOUND', `${name} is not there`);
    return found;
  }

  /** There are no quotas. */
  async list(): Promise<{ items: KubeObject[] }> {
    return { items: [] };
  }

  async delete(_type: unknown, { name }: { name: string }): Promise<void> {
    this.calls.push(`delete ${name}`);
    if (this.refusesDeletion) throw new KubeError('FORBIDDEN', 'admission webhook "keep" denied the request');
  }
}

function context(api: Api): ExecuteContext & { readonly newer: KubeObject[] } {
  const newer: KubeObject[] = [];
  const saw = (object: KubeObject) => void newer.push(object);
  const launchers = new LauncherPods('salt');
  const ownPods = { created: () => undefined };
  const quotas = new NamespaceQuotas({ client: api, clock: new FakeClock() } as never);
  const rest = { vmi, saw, ownPods, quotas, now: new Date(0), signal: AbortSignal.timeout(10_000) };
  return { client: api, launchers, newer, ...rest } as unknown as ExecuteContext & { newer: KubeObject[] };
}

const pod = renderLauncherPod(vmi, buildConfig(), 'salt');
const step = (...leftovers: Pod[]) => ({ step: 'createPod', pod, leftovers }) as const;
const stale = { kind: 'failed', code: 'STALE' };

async function createPod(wanted: ReturnType<typeof step>, given: ExecuteContext) {
  const outcome = await executors.createPod(wanted, given);
  return outcome.kind === 'failed'
    ? { kind: outcome.kind, code: outcome.error.code, said: outcome.error.message }
    : outcome;
}

test('a creation whose answer was lost is made again, finds its own pod and makes no second one', async () => {
  const api = new Api();
  const given = context(api);
  api.losesAnswer = true;
  assert.equal((await createPod(step(), given)).kind, 'failed');
  assert.equal((await createPod(step(), given)).kind, 'done');
  assert.equal(api.objects.size, 2);
});

test('a pod of the name that has another owner is not taken, and the VMI says so', async () => {
  const api = new Api();
  const given = context(api);
  await createPod(step(), given);
  const [, made] = [...api.objects.values()] as [KubeObject, Pod];
  api.objects.set(made.metadata.name, { ...made, metadata: { ...made.metadata, ownerReferences: [] } } as Pod);
  const outcome = await createPod(step(), given);
  assert.ok(outcome.kind === 'failed');
  assert.match('said' in outcome ? outcome.said : '', /that is not ours exists/);
});

test('leftovers go before the pod is made', async () => {
  const api = new Api();
  const given = context(api);
  await createPod(step(buildPod({}, { name: 'left' })), given);
  assert.deepEqual(
    api.calls.map((call) => call.split(' ')[0]),
    ['delete', 'create'],
  );
});

test('a leftover that cannot be deleted is reported, and the pod is made', async () => {
  const api = new Api();
  api.refusesDeletion = true;
  const outcome = await executors.createPod(step(buildPod({}, { name: 'left' })), context(api));
  assert.equal(outcome.kind, 'done');
  assert.deepEqual(
    outcome.events?.map(({ reason }) => reason),
    ['FailedDelete', 'SuccessfulCreate'],
  );
  assert.match(outcome.parts?.[0]?.because ?? '', /Error deleting pod left: .*webhook "keep" denied/);
  assert.equal(api.objects.has(pod.metadata.name), true);
});

test('on an old view of the VMI nothing is made and nothing goes: it may have its pod already', async () => {
  for (const newer of [{ resourceVersion: '11' }, { uid: 'uid-other' }]) {
    const api = new Api();
    api.objects.set('vm1', { ...vmi, metadata: { ...vmi.metadata, ...newer } });
    const given = context(api);
    const { said: _said, ...outcome } = { said: '', ...(await createPod(step(buildPod()), given)) };
    assert.deepEqual(outcome, stale);
    assert.deepEqual(api.calls, []);
    assert.equal(given.newer.length, 1, 'the newest state is known now');
  }
  const gone = new Api();
  gone.objects.clear();
  const { said: _said, ...outcome } = { said: '', ...(await createPod(step(buildPod()), context(gone))) };
  assert.deepEqual(outcome, stale);
});

test('of a VMI that this process made no other can have made a launcher: it is not asked for, and gets one pod', async () => {
  const api = new Api();
  const given = context(api);
  given.launchers.madeVmi(vmi);
  assert.equal((await createPod(step(), given)).kind, 'done');
  assert.deepEqual(api.reads, []);
  assert.equal((await createPod(step(), given)).kind, 'done');
  assert.equal(api.objects.size, 2);
});

test('a VMI that comes after it under its name was not made by this process', async () => {
  const api = new Api();
  const given = context(api);
  given.launchers.madeVmi({ ...vmi, metadata: { ...vmi.metadata, uid: 'uid-before' } });
  assert.equal((await createPod(step(), given)).kind, 'done');
  assert.deepEqual(api.reads, [vmi.metadata.name]);
});
