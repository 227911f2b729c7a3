import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderLauncherPod } from '../../../../src/controller/index.ts';
import { buildConfig, buildVmi } from '../builders.ts';

const claims = new Map(
  ['c', 'd'].map((name) => [
    name,
    { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name }, spec: { volumeMode: 'Filesystem' } },
  ]),
);
const sharing = (volume: object, domain: object = {}) =>
  buildVmi({
    domain: {
      memory: { guest: '256Mi' },
      devices: { filesystems: [{ name: 'share', virtiofs: {} }] },
      ...domain,
    },
    volumes: [{ name: 'share', ...volume }],
  } as never);
const rendered = (vmi = sharing({ persistentVolumeClaim: { claimName: 'c' } })) =>
  renderLauncherPod(vmi, buildConfig(), 'salt', claims).spec;
const dir = '/var/run/kubevirt/virtiofs-containers';

test('a shared claim has a container of its own, without rights, that serves it on a socket of the pod', () => {
  const { containers, volumes } = rendered();
  const [compute, share, ...others] = containers;
  assert.deepEqual(others, []);
  assert.deepEqual(share, {
    name: 'virtiofs-share',
    image: compute?.image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/usr/libexec/virtiofsd'],
    args: [
      `--socket-path=${dir}/share.sock`,
      '--shared-dir=/share',
      '--sandbox=none',
      '--cache=auto',
      '--migration-on-error=guest-error',
      '--migration-mode=find-paths',
    ],
    volumeMounts: [
      { name: 'virtiofs-containers', mountPath: dir },
      { name: 'share', mountPath: '/share' },
    ],
    resources: { requests: { cpu: '10m', memory: '1M' }, limits: { cpu: '100m', memory: '80M' } },
    securityContext: {
      runAsUser: 107,
      runAsGroup: 107,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    },
  });
  assert.deepEqual(
    volumes?.find(({ name }) => name === 'virtiofs-containers'),
    { name: 'virtiofs-containers', emptyDir: {} },
  );
  assert.ok(compute?.volumeMounts?.some(({ name, mountPath }) => name === 'virtiofs-containers' && mountPath === dir));
});

const places: readonly (readonly [volume: object, place: string])[] = [
  [{ dataVolume: { name: 'd' } }, '/share'],
  [{ configMap: { name: 'm' } }, '/var/run/kubevirt-private/config-map/share'],
  [{ secret: { secretName: 's' } }, '/var/run/kubevirt-private/secret/share'],
  [{ downwardAPI: { fields: [] } }, '/var/run/kubevirt-private/downwardapi/share'],
];

for (const [volume, place] of places) {
  test(`what is shared is where upstream has it: ${Object.keys(volume)}`, () => {
    const share = rendered(sharing(volume)).containers[1];
    assert.ok(share?.args?.includes(`--shared-dir=${place}`));
    assert.deepEqual(share?.volumeMounts?.[1], { name: 'share', mountPath: place });
  });
}

test('the service account is mounted by Kubernetes itself, and its links belong to root in the guest', () => {
  const share = rendered(sharing({ serviceAccount: { serviceAccountName: 'a' } })).containers[1];
  assert.ok(share?.args?.includes('--shared-dir=/var/run/secrets/kubernetes.io/serviceaccount'));
  assert.equal(share?.args?.at(-1), '--translate-uid=host:107:0:1');
  assert.equal(share?.volumeMounts?.length, 1);
});

test('a Guaranteed pod stays one', () => {
  const vmi = sharing({ configMap: { name: 'm' } }, { cpu: { dedicatedCpuPlacement: true } });
  const { requests, limits } = (rendered(vmi).containers[1]?.resources ?? {}) as Record<string, object>;
  assert.deepEqual(requests, limits);
});

test('label virtiofsdDebugLogs reaches the launcher', () => {
  const vmi = sharing({ configMap: { name: 'm' } });
  assert.ok(!JSON.stringify(rendered(vmi)).includes('VIRTIOFSD_DEBUG_LOGS'));
  vmi.metadata.labels = { ...vmi.metadata.labels, virtiofsdDebugLogs: 'True' };
  assert.deepEqual(
    rendered(vmi).containers[0]?.env?.find(({ name }) => name === 'VIRTIOFSD_DEBUG_LOGS'),
    { name: 'VIRTIOFSD_DEBUG_LOGS', value: '1' },
  );
});

const refusals: readonly (readonly [volume: object, why: RegExp])[] = [
  [{ containerDisk: { image: 'x' } }, /file system share .*use a claim/],
  [{ containerPath: { path: '/x' } }, /file system share .*use a claim/],
  [{ persistentVolumeClaim: { claimName: 'c', hotpluggable: true } }, /plugged in can be a disk only/],
  [{ name: 'else', configMap: { name: 'm' } }, /there is no volume of this name/],
];

for (const [volume, message] of refusals) {
  test(`a volume that cannot be shared is refused before there is a pod: ${JSON.stringify(volume)}`, () => {
    assert.throws(() => rendered(sharing(volume)), { code: 'UNSUPPORTED', message });
  });
}

test('a claim that is a block device has no directory to share: no pod is rendered for it', () => {
  const claim = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'c' },
    spec: { volumeMode: 'Block' },
  };
  const claims = new Map([['c', claim]]);
  for (const volume of [{ persistentVolumeClaim: { claimName: 'c' } }, { dataVolume: { name: 'c' } }]) {
    assert.throws(() => renderLauncherPod(sharing(volume), buildConfig(), 'salt', claims), {
      name: 'PodRenderError',
      code: 'UNSUPPORTED',
      message: /file system share cannot .*claim c is a block device.*volumeMode Filesystem/,
    });
  }
});
