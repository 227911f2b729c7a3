import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../../../src/api/index.ts';
import { withPolicy } from '../../../../src/cluster-config/index.ts';
import { matchingPolicy } from '../../../../src/controller/migration/policies.ts';
import { buildConfig } from '../builders.ts';

function policy(name: string, selectors?: object): KubeObject {
  const object: KubeObject & { spec: object } = {
    apiVersion: 'migrations.kubevirt.io/v1alpha1',
    kind: 'MigrationPolicy',
    metadata: { name },
    spec: { ...(selectors && { selectors }) },
  };
  return object;
}

const own = (labels: object) => ({ virtualMachineInstanceSelector: labels });
const around = (labels: object) => ({ namespaceSelector: labels });
const vmi = { app: 'db', size: 'big' };
const namespace = { team: 'a', zone: 'x' };
const nameOf = (...policies: KubeObject[]) => matchingPolicy(policies, vmi, namespace)?.metadata.name;

test('the policy with most labels that fit is taken; of those the one with more of the VMI, then the first by name', () => {
  const [one, two] = [policy('z-one', own({ app: 'db' })), policy('two', own(vmi))];
  assert.equal(nameOf(one, two), 'two');
  assert.equal(nameOf(policy('ns', around(namespace)), two), 'two');
  assert.equal(nameOf(policy('ns', around(namespace)), one), 'ns');
  assert.equal(nameOf(one, policy('a-one', own({ size: 'big' }))), 'a-one');
  assert.equal(nameOf(policy('both', { ...own({ app: 'db' }), ...around(namespace) }), two), 'both');
});

test('a policy of which one label does not fit, and one without selectors, is not taken; with empty ones it fits all', () => {
  assert.equal(
    nameOf(policy('other', own({ app: 'web' })), policy('half', own({ app: 'db', size: 'small' }))),
    undefined,
  );
  assert.equal(nameOf(policy('none')), undefined);
  assert.equal(nameOf(policy('all', {})), 'all');
});

test('to a VMI without labels no selector applies, as upstream has it', () => {
  const found = matchingPolicy([policy('ns', around({ team: 'other' }))], undefined, namespace);
  assert.equal(found?.metadata.name, 'ns');
});

test('a selector that is no map fits nothing', () => {
  for (const selector of [7, 'x', ['a'], true]) {
    const broken = policy('broken', { virtualMachineInstanceSelector: selector });
    assert.equal(matchingPolicy([broken], { app: 'x' }, {}), undefined, JSON.stringify(selector));
  }
});

test('a policy overrules the cluster, which overrules the defaults; post-copy means disruption, too', () => {
  const { options } = buildConfig({ migrations: { progressTimeout: 9, parallelMigrationsPerCluster: 7 } }).migrations;
  assert.deepEqual([options.progressTimeout, options.completionTimeoutPerGiB, options.allowPostCopy], [9, 150, false]);
  const named = withPolicy(options, {
    allowPostCopy: true,
    completionTimeoutPerGiB: 20,
    parallelMigrationsPerCluster: 1,
  });
  assert.deepEqual(
    [
      named.allowPostCopy,
      named.allowWorkloadDisruption,
      named.completionTimeoutPerGiB,
      named.parallelMigrationsPerCluster,
    ],
    [true, true, 20, 7],
  );
});
