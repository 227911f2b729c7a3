import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type {
  PersistentVolumeClaim,
  VirtualMachine,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
} from '../../../../src/api/index.ts';
import { type ObserveDeps, observeSnapshot } from '../../../../src/controller/snapshot/observe.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, cacheOf } from '../builders.ts';
import { buildClaim, buildContent, buildSnapshot } from '../restore/builders.ts';

const { signal } = new AbortController();
const claims: Readonly<Record<string, string>> = { root: 'slow', data: 'fast', more: 'fast' };
const volumes = Object.keys(claims).map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
const vm = buildVm({ template: { spec: { domain: {}, volumes } } as never });
const withStatus = (status: object): VirtualMachineSnapshot => ({ ...buildSnapshot(), status });
const open = withStatus({ phase: 'InProgress' });
const named = buildContent();
const content = { ...named, metadata: { ...named.metadata, name: 'vmsnapshot-content-uid-snap' } };

interface World {
  readonly snapshots: readonly VirtualMachineSnapshot[];
  readonly contents?: readonly VirtualMachineSnapshotContent[];
  readonly vms?: readonly VirtualMachine[];
}

function depsOf({ snapshots, contents = [], vms = [vm] }: World, asked: string[] = []): ObserveDeps {
  const onClass = ([name, storageClassName]: [string, string]): PersistentVolumeClaim => ({
    ...buildClaim(name),
    spec: { storageClassName },
  });
  return {
    ...{ snapshots: cacheOf(snapshots), contents: cacheOf(contents), vms: cacheOf(vms), vmis: cacheOf([]) },
    claims: cacheOf(Object.entries(claims).map(onClass)),
    stateClaims: () => [],
    ...{ pods: { list: () => [] }, dataVolumes: { fillingOf: () => undefined }, clock: new FakeClock() },
    classes: {
      of: async (name) => {
        asked.push(name);
        return { kind: 'snapshot', snapshotClass: `of-${name}` };
      },
    },
  };
}

describe('which classes of volumes are asked for', () => {
  const askedIn = async (world: World) => {
    const asked: string[] = [];
    const seen = await observeSnapshot('default/snap', depsOf(world, asked), signal);
    const facts = seen.kind === 'present' ? seen.source?.volumes : undefined;
    return { asked, supports: facts?.map(({ support }) => ('snapshotClass' in support ? support.snapshotClass : '')) };
  };

  test('each one once, when the content is yet to be made', async () => {
    const { asked, supports } = await askedIn({ snapshots: [open] });
    assert.deepEqual(supports, ['of-slow', 'of-fast', 'of-fast']);
    assert.deepEqual(asked, ['slow', 'fast']);
  });

  test('none, when the content says what there shall be, or the snapshot is over', async () => {
    assert.deepEqual((await askedIn({ snapshots: [open], contents: [content] })).asked, []);
    for (const phase of ['Succeeded', 'Failed'])
      assert.deepEqual((await askedIn({ snapshots: [withStatus({ phase })] })).asked, []);
  });
});
