import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { isKubeError, KubeError } from '../../../src/kube/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';

/** Migrations, policies and evictions as nobody should write them: each has a clear end, and guests and other migrations go on. */

let cluster: Cluster;
let play: MigrationPlay;
before(async () => {
  cluster = new Cluster(await embeddedApi());
  for (const name of ['node1', 'node2']) {
    const cpu = ['host-model-cpu', 'cpu-model-migration'].map((kind) => [`${kind}.node.kubevirt.io/Penryn`, 'true']);
    const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name };
    await cluster.addNode(name, { ...own, ...Object.fromEntries(cpu) });
  }
  await cluster.startController();
  play = new MigrationPlay(cluster);
});
after(() => cluster.stop());

/** The words of a refusal, by the API server or as the cause of the failure. */
async function endOf(name: string, spec: object, metadata: object = {}): Promise<string> {
  const kind = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceMigration' };
  try {
    await cluster.client.create(resources.migrations, {
      ...kind,
      metadata: { name, namespace: 'default', ...metadata },
      spec,
    } as KubeObject);
  } catch (error) {
    assert.ok(error instanceof KubeError);
    return error.message;
  }
  return (await play.untilFailed(name)).message;
}

test('a hundred evictions of one guest at once make one migration, and each is told to come again', async () => {
  const { metadata } = await play.guest('stormed');
  const [pod] = await cluster.pods(metadata.uid ?? '');
  assert.ok(pod);
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod.metadata.name } };
  const evictions = Array.from({ length: 100 }, () =>
    cluster.client.createSubresource(resources.pods, pod.metadata, 'eviction', body).then(
      () => 'taken',
      (error: unknown) => (isKubeError(error) ? error.httpStatus : error),
    ),
  );
  assert.deepEqual(new Set(await Promise.all(evictions)), new Set([429]));
  const evacuation = await play.evacuationOf('stormed');
  await cluster.runPod(await play.target(evacuation, 'bound', ({ spec }) => spec.nodeName === 'node2'));
  await play.untilPhase(evacuation.metadata.name, 'PreparingTarget');
  assert.equal((await play.evacuationsOf('stormed')).length, 1);
});

const malformed: Readonly<Record<string, object>> = {
  'no VMI': {},
  'a number as VMI': { vmiName: 7 },
  'an empty name': { vmiName: '' },
  'a path as VMI': { vmiName: '../../default/victim' },
  'a VMI of another namespace': { vmiName: 'elsewhere/victim' },
  'no VMI of this name': { vmiName: 'nobody' },
  'a text as selector': { vmiName: 'victim', addedNodeSelector: 'x' },
  'a list as selector': { vmiName: 'victim', addedNodeSelector: ['x'] },
  'a priority of a user': { vmiName: 'victim', priority: 'nonsense' },
  'between clusters': { vmiName: 'victim', sendTo: { migrationID: 'x', connectURL: 'y' } },
};

test('malformed migrations are refused or fail with a cause, and a good one goes through after them', async () => {
  await play.guest('victim');
  let number = 0;
  for (const [what, spec] of Object.entries(malformed)) {
    const name = `bad-${number++}`;
    const kind = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceMigration' };
    const created = await cluster.client
      .create(resources.migrations, { ...kind, metadata: { name, namespace: 'default' }, spec } as KubeObject)
      .catch((error: unknown) => {
        assert.ok(isKubeError(error), what);
        assert.match(error.message, /\w{4}/, what);
        return undefined;
      });
    if (created) await cluster.client.delete(resources.migrations, created.metadata);
    await cluster.untilGone(resources.migrations, name);
    for (const pod of await cluster.pods((await cluster.untilPhase('victim', 'Running')).metadata.uid ?? '')) {
      if (pod.metadata.labels?.['kubevirt.io/migrationJobUID']) await play.endPod(pod, 'Failed');
    }
  }
  await play.carryOut('victim', 'good');
});

test('a migration in another namespace finds no VMI of the same name', async () => {
  await play.guest('namesake');
  const said = await endOf('stray', { vmiName: 'namesake' }, { namespace: 'other' }).catch(
    (error: Error) => error.message,
  );
  assert.match(said, /does not exist|not found|not "Failed/i);
  assert.deepEqual(await play.stateOf('namesake'), {});
});

test('policies of any form overrule nothing that they do not say, and stop no migration', async () => {
  await play.guest('governed');
  const broken: readonly unknown[] = [
    'x',
    { selectors: 'x' },
    { selectors: { virtualMachineInstanceSelector: 7, namespaceSelector: ['a'] }, bandwidthPerMigration: {} },
    { selectors: {}, allowPostCopy: 'maybe', completionTimeoutPerGiB: 'soon' },
  ];
  for (const [number, spec] of broken.entries()) {
    const policy = {
      apiVersion: 'migrations.kubevirt.io/v1alpha1',
      kind: 'MigrationPolicy',
      metadata: { name: `p${number}` },
    };
    await cluster.client
      .create(resources.migrationPolicies, { ...policy, spec } as KubeObject)
      .catch((error: unknown) => {
        assert.ok(isKubeError(error));
      });
  }
  await play.carryOut('governed', 'governed-1');
});

test('a guest that ends, or is paused, while it is to move: the first fails the migration by name, the second changes nothing', async () => {
  await play.guest('ends');
  const { pod } = await play.handedOver('ends', 'ends-1');
  await play.report('ends', { phase: 'Succeeded' });
  const { reason } = await play.untilFailed('ends-1');
  assert.equal(reason, 'VmiEnded');
  await cluster.untilGone(resources.pods, pod.metadata.name, { orEnding: true });
  await play.guest('paused');
  const { status } = await cluster.untilPhase('paused', 'Running');
  const condition = {
    type: 'Paused',
    status: 'True',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    reason: 'PausedByUser',
  };
  await play.report('paused', { conditions: [...(status?.conditions ?? []), condition] });
  await play.carryOut('paused', 'paused-1');
});
