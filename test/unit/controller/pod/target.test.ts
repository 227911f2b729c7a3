import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { listOf, memberAt } from '../../../../src/base/index.ts';
import { podFacts } from '../../../../src/controller/pod/index.ts';
import { LauncherPods } from '../../../../src/controller/pod/launcher-pods.ts';
import { renderReceivingPod, renderTargetPod, type TargetOf } from '../../../../src/controller/pod/target.ts';
import { buildConfig, buildPod, buildVmi } from '../builders.ts';

const migration = { name: 'job', uid: 'uid-job', addedNodeSelector: {} };
const running: VirtualMachineInstance['status'] = { phase: 'Running', nodeName: 'node1', selinuxContext: 'none' };

function render(
  vmi: VirtualMachineInstance,
  more: Partial<TargetOf> = {},
  configuration: Record<string, unknown> = {},
) {
  const target = { podName: 'target', migration, sourcePod: buildPod(), nodeLabels: {}, claims: new Map(), ...more };
  return renderTargetPod(vmi, buildConfig(configuration), target);
}

test('a target pod says of which migration it is, stays away from its source, and belongs to no node yet', () => {
  const labels = { 'kubevirt.io/nodeName': 'node1', 'kubevirt.io/migrationTargetNodeName': 'node3', mine: 'yes' };
  const pod = render(buildVmi({}, running, { labels }));
  assert.deepEqual(
    [pod.metadata.name, pod.metadata.labels?.['kubevirt.io/migrationJobUID'], pod.metadata.labels?.mine],
    ['target', 'uid-job', 'yes'],
  );
  assert.equal(pod.metadata.annotations?.['kubevirt.io/migrationJobName'], 'job');
  for (const name of ['nodeName', 'migrationTargetNodeName'])
    assert.ok(!(`kubevirt.io/${name}` in (pod.metadata.labels ?? {})));
  assert.deepEqual((pod.spec.affinity as { podAntiAffinity?: object }).podAntiAffinity, {
    requiredDuringSchedulingIgnoredDuringExecution: [
      {
        labelSelector: { matchLabels: { 'kubevirt.io/created-by': 'uid-vmi' } },
        topologyKey: 'kubernetes.io/hostname',
      },
    ],
  });
});

test('the pod for a guest of another VMI object goes by what the other side says of its node, and not onto that node', () => {
  const zones = ['a', 'b'].map((zone) => ({ matchExpressions: [{ key: 'zone', operator: 'In', values: [zone] }] }));
  const required = 'requiredDuringSchedulingIgnoredDuringExecution';
  const nodeAffinity = { [required]: { nodeSelectorTerms: zones } };
  const { spec } = buildVmi({ affinity: { nodeAffinity }, domain: hostModel.spec.domain });
  const target = { podName: 'target', migration, claims: new Map() };
  const source = { node: 'node9', nodeSelectors: intel, selinuxContext: 'system_u:object_r:container_file_t:s0:c1,c2' };
  const waiting = buildVmi(spec, { phase: 'WaitingForSync' });
  const pod = renderReceivingPod(waiting, buildConfig(), target, source);
  const away = { key: 'kubernetes.io/hostname', operator: 'NotIn', values: ['node9'] };
  const terms = listOf(memberAt(pod.spec.affinity, 'nodeAffinity', required, 'nodeSelectorTerms'));
  assert.deepEqual(
    terms.map((term) => [
      listOf(memberAt(term, 'matchExpressions'))[0],
      listOf(memberAt(term, 'matchExpressions')).at(-1),
    ]),
    zones.map(({ matchExpressions: [zone] }) => [zone, away]),
  );
  assert.equal(pod.spec.nodeSelector?.['cpu-model-migration.node.kubevirt.io/Skylake'], 'true');
  assert.equal(pod.spec.nodeSelector?.['cpu-vendor.node.kubevirt.io/Intel'], 'true');
  assert.deepEqual(pod.spec.securityContext?.seLinuxOptions, { level: 's0:c1,c2' });
  assert.equal(pod.metadata.labels?.['kubevirt.io/migrationJobUID'], 'uid-job');
  const unsaid = () => renderReceivingPod(waiting, buildConfig(), target, { node: 'node9', nodeSelectors: intel });
  assert.throws(unsaid, /SELinux context not set/);
});

test("the VMI's own affinity and node selector are kept, and win over what the migration adds", () => {
  const nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }] };
  const cpu = { model: 'host-passthrough' };
  const domain = { memory: { guest: '128Mi' }, cpu };
  const own = { domain, affinity: { nodeAffinity }, nodeSelector: { zone: 'a' } };
  const added = { ...migration, addedNodeSelector: { zone: 'b', disk: 'fast' } };
  const { spec } = render(buildVmi(own, running), { migration: added });
  assert.deepEqual((spec.affinity as { nodeAffinity?: object }).nodeAffinity, nodeAffinity);
  assert.deepEqual([spec.nodeSelector?.zone, spec.nodeSelector?.disk], ['a', 'fast']);
});

const hostModel = buildVmi({ domain: { memory: { guest: '128Mi' }, cpu: { model: 'host-model' } } }, running);
const intel = {
  'host-model-cpu.node.kubevirt.io/Skylake': 'true',
  'host-model-required-features.node.kubevirt.io/vmx': 'true',
  'cpu-vendor.node.kubevirt.io/Intel': 'true',
};

test('a guest with the model of its host goes where that model, its features and its vendor are known', () => {
  const { nodeSelector = {} } = render(hostModel, { nodeLabels: intel }).spec;
  const wanted = [
    'cpu-model-migration.node.kubevirt.io/Skylake',
    'cpu-feature.node.kubevirt.io/vmx',
    'cpu-vendor.node.kubevirt.io/Intel',
  ];
  assert.deepEqual(
    wanted.map((name) => nodeSelector[name]),
    ['true', 'true', 'true'],
  );
});

test('a guest that has moved before keeps the model of the host that it started on', () => {
  const sourcePod = buildPod();
  sourcePod.spec.nodeSelector = { 'cpu-model-migration.node.kubevirt.io/Haswell': 'true' };
  const { nodeSelector = {} } = render(hostModel, { sourcePod, nodeLabels: intel }).spec;
  assert.ok('cpu-model-migration.node.kubevirt.io/Haswell' in nodeSelector);
  assert.ok(!('cpu-model-migration.node.kubevirt.io/Skylake' in nodeSelector));
});

test('a host model that the node does not name is refused, unless CPUs are emulated', () => {
  assert.throws(() => render(hostModel), { code: 'NO_HOST_MODEL' });
  assert.ok(render(hostModel, {}, { developerConfiguration: { useEmulation: true } }));
});

test('the SELinux level is that of the source, unless the cluster says otherwise', () => {
  const labelled = (selinuxContext: string) => buildVmi({}, { ...running, selinuxContext });
  const levelOf = ({ spec }: Pod) => (spec.securityContext?.seLinuxOptions as { level?: string } | undefined)?.level;
  assert.equal(levelOf(render(labelled('system_u:system_r:container_t:s0:c1,c2'))), 's0:c1,c2');
  assert.equal(levelOf(render(labelled('none'))), undefined);
  assert.throws(() => render(labelled('')), { code: 'NO_SELINUX_CONTEXT' });
  assert.ok(render(labelled(''), {}, { migrations: { matchSELinuxLevelOnMigration: false } }));
});

test('images of disks are those that the guest runs from, by their digests', () => {
  const disk = { name: 'root', containerDisk: { image: 'registry/disk:1' } };
  const vmi = buildVmi({ volumes: [disk] }, running);
  const digest = `registry/disk@sha256:${'a'.repeat(64)}`;
  const sourcePod = buildPod({
    containerStatuses: [
      { name: 'volumeroot', ready: true, restartCount: 0, image: 'x', imageID: `docker-pullable://${digest}` },
    ],
  });
  sourcePod.spec.containers.push({ name: 'volumeroot', image: 'registry/disk:1' });
  const { spec } = render(vmi, { sourcePod });
  const text = JSON.stringify(spec);
  assert.ok(text.includes(digest));
  assert.ok(!text.includes('registry/disk:1'));
});

test('a target pod has a name that only this process knows, and is believed by it before it is recorded', () => {
  const [ours, others] = [new LauncherPods('salt'), new LauncherPods('other salt')];
  const vmi = buildVmi({}, running);
  const labels = { 'kubevirt.io/migrationJobUID': 'uid-job' };
  const named = (name: string, uid: string) => buildPod({}, { name, uid, labels });
  const pod = named(ours.targetName(vmi, 'uid-job'), 'uid-1');
  assert.notEqual(ours.targetName(vmi, 'uid-job'), ours.targetName(vmi, 'uid-other'));
  assert.deepEqual(ours.sort(vmi, [pod]).own, [pod]);
  assert.deepEqual(others.sort(vmi, [pod]).own, []);
  const successor = named(pod.metadata.name, 'uid-2');
  assert.deepEqual(ours.sort(vmi, [successor]).own, []);
});

test('a target that was put beside its source is not the pod of the guest, one that the guest moved to is', () => {
  const labels = { 'kubevirt.io/migrationJobUID': 'uid-job' };
  const source = buildPod();
  const target = buildPod({}, { name: 'target', uid: 'uid-target', labels, creationTimestamp: '2026-01-02T00:00:00Z' });
  const before = buildVmi({}, running);
  assert.equal(podFacts.currentPod(before, [source, target]), source);
  const after = buildVmi({}, { ...running, migrationState: { targetPod: 'target', completed: true } });
  assert.equal(podFacts.currentPod(after, [source, target]), target);
});
