import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  annotations,
  finalizers,
  type KubeObject,
  type PersistentVolumeClaim,
  type Pod,
  type VirtualMachine,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../../../src/api/index.ts';
import { decideRestore } from '../../../../src/controller/restore/decide.ts';
import { executors } from '../../../../src/controller/restore/execute.ts';
import type { PresentRestore, SourceFacts } from '../../../../src/controller/restore/observation.ts';
import { type ObserveDeps, observeRestore } from '../../../../src/controller/restore/observe.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildPod, buildVm, cacheOf } from '../builders.ts';
import { buildClaim, buildContent, buildSnapshot } from './builders.ts';

const group = 'snapshot.kubevirt.io/v1beta1';

function restoreOf(spec: Partial<VirtualMachineRestore['spec']>, status: object = {}): VirtualMachineRestore {
  const target = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' };
  return {
    ...{ apiVersion: group, kind: 'VirtualMachineRestore', status },
    metadata: {
      ...{ name: 'back', namespace: 'default', uid: 'u', finalizers: [finalizers.vmRestore] },
      ownerReferences: [{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: 'vm1', uid: 'uid-vm1' }],
    },
    spec: { target, virtualMachineSnapshotName: 'snap', ...spec },
  };
}

const into = (name: string) => ({ target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name } });
const onClaims = (...names: string[]) =>
  names.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
const vmOn = (volumes: readonly object[], name = 'vm1', spec: object = {}): VirtualMachine => {
  const vm = buildVm({ template: { spec: { domain: {}, volumes } } as never, runStrategy: 'Halted', ...spec });
  return { ...vm, metadata: { ...vm.metadata, name, uid: `uid-${name}` }, status: { restoreInProgress: 'back' } };
};
const podOn = (claimName: string, phase: 'Running' | 'Succeeded'): Pod => {
  const pod = buildPod({ phase });
  return { ...pod, spec: { ...pod.spec, volumes: [{ name: 'v', persistentVolumeClaim: { claimName } }] } };
};

interface World {
  readonly restore: VirtualMachineRestore;
  readonly vms: readonly VirtualMachine[];
  readonly content?: VirtualMachineSnapshotContent;
  readonly pods?: readonly Pod[];
  readonly snapshot?: VirtualMachineSnapshot;
  readonly claims?: readonly PersistentVolumeClaim[];
  readonly stateClaims?: readonly PersistentVolumeClaim[];
  readonly formerStateClaims?: readonly PersistentVolumeClaim[];
}

const claims = ['root', 'precious'].map(buildClaim);
const ofVm: VirtualMachineSnapshot = {
  ...buildSnapshot(),
  status: { ...buildSnapshot().status, sourceUID: 'uid-vm1' },
};
const ofRoot = buildContent(vmOn(onClaims('root')), { root: 'root' });

function observed(world: World, users: ObserveDeps['pods'] = { list: () => world.pods ?? [] }): PresentRestore {
  const { restore, vms, content = ofRoot, snapshot = ofVm } = world;
  const deps: ObserveDeps = {
    ...{ restores: cacheOf([restore]), snapshots: cacheOf([snapshot]), contents: cacheOf([content]) },
    ...{ volumeSnapshots: cacheOf([]), vms: cacheOf(vms), vmis: cacheOf([]), pods: users },
    ...{ claims: cacheOf(world.claims ?? claims), storageClasses: cacheOf([]) },
    stateClaims: () => world.stateClaims ?? [],
    formerStateClaims: () => world.formerStateClaims ?? [],
    dataVolumes: { lookUp: () => ({ kind: 'absent' }) },
    clock: new FakeClock(),
  };
  const seen = observeRestore('default/back', deps);
  assert.equal(seen.kind, 'present');
  return seen as PresentRestore;
}

const sourceOf = (world: World): SourceFacts => {
  const { source } = observed(world);
  assert.ok(!('problem' in source), 'problem' in source ? source.problem : '');
  return source;
};
const problemOf = (world: World): string => {
  const { source } = observed(world);
  return 'problem' in source ? source.problem : '';
};

const listed = (persistentVolumeClaim: string) => ({
  restores: [{ volumeName: 'root', persistentVolumeClaim, volumeSnapshotName: 'v-root' }],
});
const inPlace = (spec: Partial<VirtualMachineRestore['spec']> = {}, claim = 'root') =>
  restoreOf({ volumeRestorePolicy: 'InPlace', ...spec }, listed(claim));
const own = vmOn(onClaims('root'));
const hold = 'snapshot.kubevirt.io/restore-u';
const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };

/** What is deleted in place: only a claim of the snapshot's own name that nobody besides the target has. */
const inPlaceRows: readonly (readonly [what: string, world: World, rule: string, why: RegExp])[] = [
  ['the target has it', { restore: inPlace(), vms: [own] }, 'claims-in-place', /Creating new PVCs/],
  [
    'a pod of it has ended',
    { restore: inPlace(), vms: [own], pods: [podOn('root', 'Succeeded')] },
    'claims-in-place',
    /Creating new PVCs/,
  ],
  ['nobody has it', { restore: inPlace(into('new')), vms: [] }, 'claims-in-place', /Creating new PVCs/],
  ['the source has it', { restore: inPlace(into('new')), vms: [own] }, 'claims-of-others', /PVC root .* VM vm1/],
  [
    'another VM has it, too',
    { restore: inPlace(), vms: [own, vmOn(onClaims('root'), 'other')] },
    'claims-of-others',
    /PVC root .* VM other/,
  ],
  [
    'another VM has an ephemeral volume on it',
    {
      restore: inPlace(),
      vms: [own, vmOn([{ name: 'e', ephemeral: { persistentVolumeClaim: { claimName: 'root' } } }], 'other')],
    },
    'claims-of-others',
    /PVC root .* VM other/,
  ],
  [
    'a pod has it',
    { restore: inPlace(), vms: [own], pods: [podOn('root', 'Running')] },
    'claims-of-others',
    /PVC root .* pod virt-launcher-vm1/,
  ],
  [
    'it was named by an override',
    {
      restore: inPlace({ volumeRestoreOverrides: [{ volumeName: 'root', restoreName: 'precious' }] }, 'precious'),
      vms: [own],
    },
    'claims-of-others',
    /PVC precious exists and is not the claim that the snapshot was taken of/,
  ],
];

describe('which claims are deleted in place', () => {
  for (const [what, world, rule, why] of inPlaceRows) {
    test(`${what}: ${rule}`, () => {
      const decision = decideRestore(observed(world));
      assert.equal(decision.rule, rule);
      assert.match(decision.says?.progressing?.[1] ?? '', why);
    });
  }
});

test('who has a claim is looked for only where it may be deleted in place, and once', () => {
  const both = vmOn(onClaims('root', 'precious'));
  const content = buildContent(both, { root: 'root', precious: 'precious' });
  const restores = ['root', 'precious'].map((name) => ({
    ...{ volumeName: name, persistentVolumeClaim: name, volumeSnapshotName: `v-${name}` },
  }));
  const looksOf = (spec: Partial<VirtualMachineRestore['spec']>, of = claims) => {
    let looks = 0;
    const list = () => {
      looks += 1;
      return [];
    };
    observed({ restore: restoreOf(spec, { restores }), vms: [both], content, claims: of }, { list });
    return looks;
  };
  assert.equal(looksOf({ volumeRestorePolicy: 'InPlace' }), 1);
  assert.equal(looksOf({}), 0);
  const lastRestore = { [annotations.lastRestore]: 'back-u' };
  const ours = claims.map((each) => ({ ...each, metadata: { ...each.metadata, annotations: lastRestore } }));
  assert.equal(looksOf({ volumeRestorePolicy: 'InPlace' }, ours), 0);
});

test('a snapshot that is being deleted is restored by whoever has deleted claims for it, and by nobody else', () => {
  const snapshot = { ...ofVm, metadata: { ...ofVm.metadata, ...deleted } };
  const content = { ...ofRoot, metadata: { ...ofRoot.metadata, finalizers: [hold], ...deleted } };
  const world = { restore: inPlace(), vms: [own], snapshot };
  assert.match(problemOf(world), /is being deleted/);
  assert.equal(problemOf({ ...world, content }), '');
  assert.deepEqual([observed(world).held.length, observed({ ...world, content }).held.length], [0, 1]);
});

const stateVolume = 'persistent-state-for-vm1';
const withTpm = (volumes: readonly object[]) => ({
  template: { spec: { domain: { devices: { tpm: { persistent: true } } }, volumes } } as never,
});

describe('what a TPM kept, and EFI variables', () => {
  const content = buildContent(vmOn(onClaims('root'), 'vm1', withTpm(onClaims('root'))), {
    root: 'root',
    [stateVolume]: 'state-then',
  });
  const restore = restoreOf(
    {},
    {
      restores: [
        { volumeName: 'root', persistentVolumeClaim: 'restore-u-root', volumeSnapshotName: 'v-root' },
        { volumeName: stateVolume, persistentVolumeClaim: 'restore-u-state', volumeSnapshotName: 'v-state' },
      ],
    },
  );
  const made = (name: string, labels?: Record<string, string>): PersistentVolumeClaim => {
    const claim = buildClaim(name);
    const annotated = { annotations: { [annotations.lastRestore]: 'back-u' }, ...(labels && { labels }) };
    return { ...claim, metadata: { ...claim.metadata, ...annotated } };
  };
  const label = { 'persistent-state-for': 'vm1' };
  const now = { ...buildClaim('state-now'), metadata: { ...buildClaim('state-now').metadata, labels: label } };
  const restored = [made('restore-u-root'), made('restore-u-state')];
  const stepsOf = (world: Partial<World>) => {
    const seen = observed({ restore, vms: [own], content, claims: restored, stateClaims: [now], ...world });
    return decideRestore(seen).steps.map(({ step, ...rest }) => {
      const { claim, former = [], claims: old = [] } = rest as Record<string, never>;
      const names = [claim, ...(former as []), ...(old as [])].flatMap(
        (each: PersistentVolumeClaim | undefined) => each?.metadata.name ?? [],
      );
      return [step, ...names].join(' ');
    });
  };

  test('the restored claim takes the place of the one that the VM has, before the VM itself is changed', () => {
    assert.deepEqual(stepsOf({}), ['switchState restore-u-state state-now', 'writeTarget']);
    const [root = now, state = now] = restored;
    const half = [root, made('restore-u-state', label)];
    assert.deepEqual(stepsOf({ claims: half, stateClaims: [now, ...half.slice(1)] }), [
      'switchState restore-u-state state-now',
      'writeTarget',
    ]);
    assert.deepEqual(stepsOf({ claims: half, stateClaims: half.slice(1) }), ['writeTarget']);
    assert.deepEqual(stepsOf({ stateClaims: [] }), ['switchState restore-u-state', 'writeTarget']);
    assert.deepEqual(stepsOf({ claims: [root, { ...state, status: { phase: 'Pending' } }] }), []);
  });

  test('what it had goes when the VM is restored', () => {
    const lastRestore = { [annotations.lastRestore]: 'back-u' };
    const vms = [{ ...own, metadata: { ...own.metadata, annotations: lastRestore } }];
    assert.deepEqual(stepsOf({ vms, formerStateClaims: [now] }), ['deleteFormerState state-now']);
    const going = { ...now, metadata: { ...now.metadata, ...deleted } };
    assert.deepEqual(stepsOf({ vms, formerStateClaims: [going] }), ['ownRevisions', 'unlockTarget']);
  });
});

describe('a restore is given up: the state that the VM had is put back, by the API server’s own word', () => {
  const mark = { annotations: { [annotations.lastRestore]: 'back-u' } };
  const at = (name: string, metadata: object): PersistentVolumeClaim => {
    const claim = buildClaim(name);
    return { ...claim, metadata: { ...claim.metadata, ...metadata } };
  };
  const aside = { labels: { 'restore.kubevirt.io/cleanup-backend-pvc': stateVolume } };
  const restored = at('restored', { ...mark, labels: { 'persistent-state-for': 'vm1' } });
  const older = at('older', { ...aside, creationTimestamp: '2026-01-01T00:00:00Z' });
  const former = at('former', { ...aside, creationTimestamp: '2026-01-02T00:00:00Z' });
  const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: own.metadata };

  /** Which labels are written when this is what the API server has, and how it ends. */
  async function putBack(stored: readonly KubeObject[]): Promise<string[]> {
    const calls: string[] = [];
    const client = {
      get: async ({ kind }: { kind: string }, { name }: { name: string }) => {
        const found = stored.find((each) => each.kind === kind && each.metadata.name === name);
        if (!found) throw new KubeError('NOT_FOUND', 'no');
        return found;
      },
      list: async ({ kind }: { kind: string }) => ({ items: stored.filter((each) => each.kind === kind) }),
      patch: async (_type: object, { name }: { name: string }, body: { metadata: { labels: object } }) => {
        calls.push(`${name} ${JSON.stringify(Object.values(body.metadata.labels))}`);
      },
    };
    const observation = observed({ restore: restoreOf({}), vms: [own] });
    const context = { client, observation, signal: new AbortController().signal };
    const outcome = await executors.putStateBack({ step: 'putStateBack', vm: own }, context as never);
    return [...calls, outcome.kind];
  }

  test('the one that it had last, and then the restored one is no more', async () => {
    const calls = ['former ["vm1",null]', 'restored [null]', 'done'];
    assert.deepEqual(await putBack([own, older, former, restored]), calls);
    assert.deepEqual(await putBack([own, restored]), calls.slice(1));
  });

  test('nothing where it was not switched, where it is another restore’s, and where the VM was restored', async () => {
    const others = at('others', { ...restored.metadata, annotations: { [annotations.lastRestore]: 'back-other' } });
    const whole = { ...own, metadata: { ...own.metadata, ...mark } };
    for (const world of [
      [own, former],
      [own, former, others],
      [whole, former, restored],
      [former, restored],
    ])
      assert.deepEqual(await putBack(world), ['done']);
  });

  test('nothing where the VM is on a disk that was restored in its place', async () =>
    assert.deepEqual(await putBack([own, former, restored, at('root', mark)]), ['done']));

  test('not while a guest runs', async () => assert.deepEqual(await putBack([own, vmi, former, restored]), ['wait']));
});

describe('what cannot be restored', () => {
  test('a snapshot of a VM that keeps the state of a TPM or of EFI variables, into a VM of another name', () => {
    for (const domain of [
      { devices: { tpm: { persistent: true } } },
      { firmware: { bootloader: { efi: { persistent: true } } } },
    ]) {
      const content = buildContent(buildVm({ template: { spec: { domain } } }), { [stateVolume]: 'state' });
      assert.match(problemOf({ restore: restoreOf(into('new')), vms: [own], content }), /TPM .* EFI .* which new/);
      assert.equal(problemOf({ restore: restoreOf({}), vms: [own], content }), '');
      assert.equal(problemOf({ restore: restoreOf({}), vms: [], content }), '');
    }
  });

  test('one that has nothing of that state, into a VM that is no more: it would begin with none', () => {
    const content = buildContent(vmOn(onClaims('root'), 'vm1', withTpm(onClaims('root'))), { root: 'root' });
    assert.match(problemOf({ restore: restoreOf({}), vms: [], content }), /volumes persistent-state-for-vm1: a new VM/);
    assert.equal(problemOf({ restore: restoreOf({}), vms: [own], content }), '');
  });

  test('one that has not all disks, into a new VM: that would be on the disks of its source', () => {
    const content = buildContent(vmOn(onClaims('root', 'data')), { root: 'root' });
    assert.match(problemOf({ restore: restoreOf(into('new')), vms: [own], content }), /volumes data: a new VM/);
    assert.equal(problemOf({ restore: restoreOf({}), vms: [own], content }), '');
    assert.equal(problemOf({ restore: restoreOf(into('new')), vms: [own] }), '');
  });
});

test('DataVolumes are deleted when their volumes are on others now, and stay when the snapshot has nothing of them', () => {
  const template = (name: string) => ({ metadata: { name }, spec: {} });
  const volume = (name: string, dataVolume: string) => ({ name, dataVolume: { name: dataVolume } });
  const templates = (...names: string[]) => ({ dataVolumeTemplates: names.map(template) });
  const kept = vmOn([volume('root', 'root')], 'vm1', templates('root'));
  const target = vmOn([volume('root', 'root'), volume('data', 'later')], 'vm1', templates('root', 'later', 'unnamed'));
  const content = buildContent(kept, { root: 'root' });
  const { obsolete, unkept, wanted } = sourceOf({
    restore: restoreOf({}, listed('restore-u-root')),
    vms: [target],
    content,
  });
  assert.equal(wanted?.metadata.annotations?.[annotations.lastRestore], 'back-u');
  assert.deepEqual([obsolete, unkept], [['root'], ['later', 'unnamed']]);
});

describe('claims are deleted by the API server’s own word only', () => {
  const seen = observed({ restore: inPlace(), vms: [own] });
  const ready = { apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshot', status: { readyToUse: true } };
  const volumeSnapshot = { ...ready, metadata: { name: 'v-root', namespace: 'default' } };
  const all: readonly KubeObject[] = [ofVm, ofRoot, volumeSnapshot, own];

  /** What is deleted when this is what the API server has. */
  async function deletedOf(stored: readonly KubeObject[]): Promise<string[]> {
    const calls: string[] = [];
    const client = {
      get: async ({ kind }: { kind: string }, { name }: { name: string }) => {
        const found = stored.find((each) => each.kind === kind && each.metadata.name === name);
        if (!found) throw new KubeError('NOT_FOUND', 'no');
        return found;
      },
      list: async ({ kind }: { kind: string }) => ({ items: stored.filter((each) => each.kind === kind) }),
      delete: async (_type: object, { name }: { name: string }, { uid }: { uid?: string }) => {
        calls.push(`${name} ${uid}`);
      },
      patch: async (_type: object, { name }: { name: string }, body: { metadata?: { finalizers?: string[] } }) => {
        calls.push(`${name} ${body.metadata?.finalizers?.join(' ')}`);
        return { ...ofRoot, ...body };
      },
      update: async (_type: object, object: KubeObject) => object,
    };
    const decision = decideRestore(seen);
    const step = decision.steps.find((each) => each.step === 'replaceClaims');
    assert.ok(step?.step === 'replaceClaims');
    const contents = cacheOf([ofRoot]);
    const context = { client, observation: seen, content: ofRoot, contents, signal: new AbortController().signal };
    await executors.replaceClaims(step, context as never);
    return calls;
  }
  const changed = (kind: string, metadata: object) =>
    all.map((each) => (each.kind === kind ? { ...each, metadata: { ...each.metadata, ...metadata } } : each));

  test('when nothing is against it', async () => {
    assert.deepEqual(await deletedOf(all), [`content ${hold}`, 'root uid-root']);
  });

  test('those that are left, when its snapshot is being deleted since: the content waits for the restore', async () => {
    const held = changed('VirtualMachineSnapshotContent', { finalizers: [hold], ...deleted });
    const world = held.map((each) => (each === ofVm ? { ...ofVm, metadata: { ...ofVm.metadata, ...deleted } } : each));
    assert.deepEqual(await deletedOf(world), ['root uid-root']);
  });

  for (const kind of ['VirtualMachineSnapshot', 'VirtualMachineSnapshotContent']) {
    test(`not when its ${kind} is gone, being deleted, or another one`, async () => {
      const worlds = [
        all.filter((each) => each.kind !== kind),
        changed(kind, deleted),
        changed(kind, { uid: 'other' }),
      ];
      for (const world of worlds) await assert.rejects(deletedOf(world), new RegExp(`^Error: ${kind} `));
    });
  }

  test('not when its VolumeSnapshot is being deleted', () =>
    assert.rejects(deletedOf(changed('VolumeSnapshot', deleted)), /VolumeSnapshot v-root is not ready to use/));

  test('not when another VM or a pod has the claim by now', async () => {
    await assert.rejects(
      deletedOf([...all, vmOn(onClaims('root'), 'late')]),
      /PVC root stays: it is a disk of VM late/,
    );
    await assert.rejects(deletedOf([...all, podOn('root', 'Running')]), /PVC root stays: it is in use by pod/);
  });
});
