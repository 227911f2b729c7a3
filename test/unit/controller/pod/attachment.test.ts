import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import {
  type AttachedClaim,
  AttachmentPods,
  attachmentPodName,
  renderAttachmentPod,
} from '../../../../src/controller/pod/index.ts';
import { buildConfig, buildRunningPod, buildVmi } from '../builders.ts';
import { attachmentPod } from '../vmi/plugged.ts';

const file: AttachedClaim = {
  volume: 'files',
  claim: 'files-claim',
  isBlock: false,
  isMounted: false,
  claimUid: 'uid-f',
};
const block: AttachedClaim = { volume: 'raw', claim: 'raw-claim', isBlock: true, isMounted: false, claimUid: 'uid-r' };
const mounted: AttachedClaim = { ...file, volume: 'there', claim: 'there-claim', isMounted: true };

function rendered(label: string | undefined, claims: readonly AttachedClaim[] = [file]): Pod {
  const vmi = buildVmi({}, { phase: 'Running', ...(label !== undefined && { selinuxContext: label }) });
  const launcher = buildRunningPod();
  launcher.spec.tolerations = [{ key: 'dedicated', operator: 'Exists' }];
  return renderAttachmentPod('hp-volume-abcde', vmi, launcher, claims, buildConfig());
}

function levelOf({ spec }: Pod): unknown {
  const options = spec.containers[0]?.securityContext?.seLinuxOptions;
  return (options as { level?: string } | undefined)?.level;
}

test('an attachment pod is pulled with the secret of the launcher image', () => {
  const vmi = buildVmi({}, { phase: 'Running', selinuxContext: 'none' });
  const config = { ...buildConfig(), imagePullSecret: 'pull' };
  const { spec } = renderAttachmentPod('hp-volume-abcde', vmi, buildRunningPod(), [file], config);
  assert.deepEqual(spec.imagePullSecrets, [{ name: 'pull' }]);
  assert.equal(rendered('none').spec.imagePullSecrets, undefined);
});

test('an attachment pod is what upstream’s agent looks for: owner, label, node, program, claims', () => {
  const { metadata, spec } = rendered('none', [file, block, mounted]);
  assert.deepEqual(metadata.labels, { 'kubevirt.io': 'hotplug-disk' });
  assert.deepEqual(metadata.ownerReferences, [
    {
      apiVersion: 'v1',
      kind: 'Pod',
      name: 'virt-launcher-vm1-abcde',
      uid: 'uid-pod',
      controller: true,
      blockOwnerDeletion: true,
    },
  ]);
  assert.equal(metadata.generateName, 'hp-volume-');
  assert.equal(metadata.namespace, 'default');
  assert.deepEqual(spec.volumes, [
    { name: 'hotplug-disks', emptyDir: {} },
    { name: 'files', persistentVolumeClaim: { claimName: 'files-claim' } },
    { name: 'raw', persistentVolumeClaim: { claimName: 'raw-claim' } },
    { name: 'there', persistentVolumeClaim: { claimName: 'there-claim' } },
  ]);
  const [container] = spec.containers;
  assert.equal(container?.name, 'hotplug-disk');
  assert.deepEqual(container?.command, ['/bin/sh', '-c', '/usr/bin/container-disk --copy-path /path/hp']);
  assert.deepEqual(container?.volumeMounts, [
    { name: 'hotplug-disks', mountPath: '/path', mountPropagation: 'HostToContainer' },
    { name: 'files', mountPath: '/files' },
  ]);
  assert.deepEqual(container?.volumeDevices, [{ name: 'raw', devicePath: '/path/raw/uid-r' }]);
  assert.equal(spec.terminationGracePeriodSeconds, 0);
  assert.deepEqual(spec.affinity, {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['node1'] }] },
        ],
      },
    },
  });
  const keys = (spec.tolerations as { key: string }[]).map(({ key }) => key);
  assert.ok(keys.includes('dedicated') && keys.includes('node.kubernetes.io/disk-pressure'));
});

test('the level of the launcher’s SELinux label is the pod’s; without a label there is no pod', () => {
  assert.equal(levelOf(rendered('none')), 's0');
  assert.equal(levelOf(rendered('system_u:system_r:virt_launcher.process:s0:c1,c2')), 's0:c1,c2');
  assert.throws(() => rendered(undefined), { code: 'NO_SELINUX_CONTEXT' });
  assert.throws(() => rendered('system_u:system_r'), { code: 'NO_SELINUX_CONTEXT' });
});

test('a name is the same for the same claims beside the same pods, and another one for others', () => {
  const name = (salt: string, claims: readonly AttachedClaim[], others: readonly Pod[] = []) =>
    attachmentPodName(salt, buildRunningPod(), claims, others);
  assert.match(name('s', [file]), /^hp-volume-[a-z0-9]{5}$/);
  assert.equal(name('s', [file, block]), name('s', [block, file]));
  const all = [
    name('s', [file]),
    name('t', [file]),
    name('s', [block]),
    name('s', [{ ...file, claim: 'x' }]),
    name('s', [file], [attachmentPod('old', 'Failed')]),
  ];
  assert.equal(new Set(all).size, all.length);
});

test('only pods that were made here, or that KubeVirt has recorded, are believed', () => {
  const vmi = buildVmi();
  const made = attachmentPod('made', 'Pending');
  const pods = new AttachmentPods('salt');
  assert.equal(pods.isOwn(vmi, made), false);
  pods.made(vmi, made);
  assert.equal(pods.isOwn(vmi, made), true);
  const sameName: Pod = { ...made, metadata: { ...made.metadata, uid: 'uid-of-another' } };
  assert.equal(pods.isOwn(vmi, sameName), false);
  assert.equal(pods.adopts(vmi, sameName), false);
  const recorded = buildVmi(
    {},
    {
      phase: 'Running',
      volumeStatus: [{ name: 'a', target: '', hotplugVolume: { attachPodUID: 'uid-before' } }],
    },
  );
  assert.equal(pods.isOwn(recorded, attachmentPod('before', 'Running')), true);
  const lost = attachmentPod('lost', 'Pending');
  assert.equal(pods.adopts(vmi, lost), true);
  assert.equal(pods.isOwn(vmi, lost), true);
  pods.forget('default/vm1');
  assert.equal(pods.isOwn(vmi, lost), false);
});

test('what is known of the pods of one VMI is bounded', () => {
  const vmi = buildVmi();
  const pods = new AttachmentPods('salt');
  for (let number = 0; number < 100; number++) pods.made(vmi, attachmentPod(`p${number}`, 'Running'));
  assert.equal(pods.isOwn(vmi, attachmentPod('p0', 'Running')), false);
  assert.equal(pods.isOwn(vmi, attachmentPod('p99', 'Running')), true);
});
