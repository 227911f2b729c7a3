import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { renderLauncherPod } from '../../../../src/controller/index.ts';
import { buildConfig, buildVmi } from '../builders.ts';

const goldenFile = 'test/fixtures/launcher-pod.golden.json';

/** One of each kind of storage that a standalone node knows. */
const everyStorage = buildVmi({
  domain: {
    memory: { guest: '256Mi' },
    machine: { type: 'q35' },
    firmware: {
      uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223',
      kernelBoot: {
        kernelArgs: 'console=ttyS0',
        container: { image: 'registry.example/boot:v1', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initrd' },
      },
    },
    devices: {
      disks: [{ name: 'root', disk: { bus: 'virtio' } }, { name: 'seed' }, { name: 'data' }, { name: 'scratch' }],
      interfaces: [{ name: 'default', masquerade: {}, ports: [{ port: 22 }] }],
    },
  },
  networks: [{ name: 'default', pod: {} }],
  volumes: [
    { name: 'root', containerDisk: { image: 'registry.example/guest:v1', imagePullPolicy: 'IfNotPresent' } },
    { name: 'seed', cloudInitNoCloud: { secretRef: { name: 'seed-secret' } } },
    { name: 'data', hostDisk: { path: '/srv/vms/data.img', type: 'DiskOrCreate', capacity: '1Gi' } },
    { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
  ],
  terminationGracePeriodSeconds: 10,
});

test('the launcher pod is the committed one, for a VMI with each kind of storage', () => {
  const pod = renderLauncherPod(everyStorage, buildConfig({ developerConfiguration: { useEmulation: true } }), 'salt');
  if (process.env.UPDATE_GOLDEN) writeFileSync(goldenFile, `${JSON.stringify(pod, null, 2)}\n`);
  assert.deepEqual(pod, JSON.parse(readFileSync(goldenFile, 'utf8')));
});

test('a disk whose changes are to be tracked is refused: nobody would track them', () => {
  const volumes = [{ name: 'root', containerDisk: { image: 'i' } }];
  const of = (changedBlockTracking: boolean) =>
    buildVmi({ domain: { devices: { disks: [{ name: 'root', changedBlockTracking }] } }, volumes });
  assert.throws(() => renderLauncherPod(of(true), buildConfig(), 'salt'), {
    code: 'UNSUPPORTED',
    message: /^spec\.domain\.devices\.disks\[root\]\.changedBlockTracking: .*: remove it$/,
  });
  assert.doesNotThrow(() => renderLauncherPod(of(false), buildConfig(), 'salt'));
});

test('what the command line says of launcher pods is in each of them', () => {
  const vmi = buildVmi({
    volumes: [{ name: 'root', containerDisk: { image: 'i', imagePullSecret: 'of-the-disk' } }],
  });
  const secretsOf = (imagePullSecret: string) =>
    renderLauncherPod(vmi, { ...buildConfig(), imagePullSecret }, 'salt').spec.imagePullSecrets;
  assert.deepEqual(secretsOf('pull'), [{ name: 'of-the-disk' }, { name: 'pull' }]);
  assert.deepEqual(secretsOf('of-the-disk'), [{ name: 'of-the-disk' }]);
  const said = { ...buildConfig(), qemuTimeoutSeconds: 1000, launcherGroup: 108 };
  const { spec } = renderLauncherPod(vmi, said, 'salt');
  const [compute] = spec.containers;
  const timeout = compute?.command?.at((compute.command.indexOf('--qemu-timeout') ?? 0) + 1) ?? '';
  assert.match(timeout, /^1[01]\d\ds$/);
  assert.equal((spec.securityContext as { fsGroup?: number }).fsGroup, 108);
});

test('without image volumes each image runs in a side container, with a program from the launcher image', () => {
  const config = buildConfig({ developerConfiguration: { disabledFeatureGates: ['ImageVolume'] } });
  const { spec } = renderLauncherPod(everyStorage, config, 'salt');
  const shared = '/var/run/kubevirt/container-disks/uid-vmi';
  const [compute, root, kernel, ...others] = spec.containers;
  assert.deepEqual(others, []);
  assert.ok(!compute?.command?.includes('--image-volume'));
  assert.deepEqual(root, {
    name: 'volumeroot',
    image: 'registry.example/guest:v1',
    imagePullPolicy: 'IfNotPresent',
    command: ['/usr/bin/container-disk'],
    args: ['--copy-path', `${shared}/disk_0`],
    volumeMounts: [
      { name: 'container-disks', mountPath: shared },
      { name: 'virt-bin-share-dir', mountPath: '/usr/bin' },
    ],
    resources: {
      requests: { cpu: '1m', memory: '1M', 'ephemeral-storage': '50M' },
      limits: { cpu: '10m', memory: '40M' },
    },
    securityContext: {
      runAsUser: 107,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    },
  });
  assert.deepEqual(
    [kernel?.name, kernel?.args],
    ['volumekernel-boot-volume', ['--copy-path', `${shared}/kernel-boot`]],
  );
  assert.deepEqual(
    spec.initContainers?.slice(1).map(({ name, args }) => [name, args]),
    [
      ['container-disk-binary', undefined],
      ['volumeroot-init', ['--no-op']],
      ['volumekernel-boot-volume-init', ['--no-op']],
    ],
  );
  assert.deepEqual(spec.initContainers?.[1]?.command, [
    '/usr/bin/cp',
    '--preserve=all',
    '/usr/bin/container-disk',
    '/init/usr/bin/container-disk',
  ]);
  const names = spec.volumes?.map(({ name }) => name) ?? [];
  assert.ok(names.includes('virt-bin-share-dir'));
  assert.deepEqual(
    names.filter((name) => name === 'root' || name === 'kernel-boot-volume'),
    [],
  );
});

test('a VMI without images has no side containers, whatever the gate says', () => {
  const config = buildConfig({ developerConfiguration: { disabledFeatureGates: ['ImageVolume'] } });
  const vmi = buildVmi({ domain: { memory: { guest: '1Gi' }, devices: { logSerialConsole: false } } });
  const { spec } = renderLauncherPod(vmi, config, 'salt');
  assert.deepEqual([spec.containers.length, spec.initContainers], [1, undefined]);
});

test('side containers of a VMI with dedicated CPUs ask for what they are limited to', () => {
  const config = buildConfig({ developerConfiguration: { disabledFeatureGates: ['ImageVolume'] } });
  const vmi = buildVmi({
    domain: { memory: { guest: '256Mi' }, cpu: { dedicatedCpuPlacement: true } },
    volumes: [{ name: 'root', containerDisk: { image: 'x' } }],
  });
  const { containers, initContainers = [] } = renderLauncherPod(vmi, config, 'salt').spec;
  for (const { resources } of [...containers.slice(1), ...initContainers]) {
    const { requests, limits } = resources as Record<string, Record<string, string>>;
    assert.deepEqual([requests?.cpu, requests?.memory], [limits?.cpu, limits?.memory]);
  }
  assert.equal(containers.length, 2);
});

test('rendering the same VMI twice gives the same pod, name and timeout included', () => {
  assert.deepEqual(
    renderLauncherPod(everyStorage, buildConfig(), 'salt'),
    renderLauncherPod(everyStorage, buildConfig(), 'salt'),
  );
});

test('VMIs of the same name with another UID get another pod name', () => {
  const names = ['a', 'b', 'c'].map(
    (uid) => renderLauncherPod(buildVmi({}, {}, { uid }), buildConfig(), 'salt').metadata.name,
  );
  assert.equal(new Set(names).size, 3);
  for (const name of names) assert.match(name, /^virt-launcher-vm1-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
});

test('a pod name stays within 63 characters, for a VMI name of 63', () => {
  const pod = renderLauncherPod(buildVmi({}, {}, { name: 'v'.repeat(63) }), buildConfig(), 'salt');
  assert.equal(pod.metadata.name.length, 63);
});

test('memory is the guest memory plus overhead, when the VMI says only the guest memory', () => {
  const [compute] = renderLauncherPod(buildVmi(), buildConfig(), 'salt').spec.containers;
  const Mi = 2 ** 20;
  const overhead = (128 * Mi) / 512 + (220 + 8 + 8 + 32) * Mi;
  assert.deepEqual(compute?.resources, {
    requests: { memory: String(128 * Mi + overhead), cpu: '100m', 'ephemeral-storage': '50000000' },
    limits: { 'devices.kubevirt.io/tun': '1', 'devices.kubevirt.io/kvm': '1' },
  });
});

test('an emulated guest asks for no KVM device and the launcher may emulate', () => {
  const config = buildConfig({ developerConfiguration: { useEmulation: true } });
  const [compute] = renderLauncherPod(buildVmi(), config, 'salt').spec.containers;
  assert.ok(compute?.command?.includes('--allow-emulation'));
  assert.match(JSON.stringify(compute?.resources), /"limits":\{"devices.kubevirt.io\/tun":"1"\}/);
});

test('a launcher without root runs as 107 with no privileges', () => {
  const pod = renderLauncherPod(buildVmi({}, { runtimeUser: 107 }), buildConfig(), 'salt');
  assert.deepEqual(pod.spec.securityContext, { fsGroup: 107, runAsUser: 107, runAsGroup: 107, runAsNonRoot: true });
  assert.ok(pod.spec.containers[0]?.command?.includes('--run-as-nonroot'));
  assert.deepEqual(
    pod.spec.containers[0]?.env?.slice(0, 3).map(({ name }) => name),
    ['XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'XDG_RUNTIME_DIR'],
  );
});

const refused: readonly (readonly [string, Parameters<typeof buildVmi>, RegExp])[] = [
  [
    'a volume with a name of the pod itself',
    [{ volumes: [{ name: 'public', emptyDisk: { capacity: '1Gi' } }] }],
    /public/,
  ],
  ['memory that is no quantity', [{ domain: { memory: { guest: 'plenty' } } }], /domain.memory.guest: "plenty"/],
  [
    'a claim that is not there: a pod that takes it for a directory could not be changed',
    [{ volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'c' } }] }],
    /volume data: claim c does not exist: create/,
  ],
  ['a volume of an unknown kind', [{ volumes: [{ name: 'v', novel: {} } as never] }], /volume v: .*novel/],
  ['sysprep without a source', [{ volumes: [{ name: 'v', sysprep: {} }] }], /volume v: sysprep needs/],
  ['credentials of no secret', [{ accessCredentials: [{ sshPublicKey: {} }] }], /accessCredentials: each needs/],
  ['a probe that asks for nothing', [{ readinessProbe: { periodSeconds: 1 } }], /readinessProbe.*one of httpGet/],
  ['a probe that is no object', [{ livenessProbe: 'ping' }], /livenessProbe must be an object/],
  ['a probe without a command', [{ livenessProbe: { exec: { command: [] } } }], /exec.command is empty/],
  [
    'hooks that are no JSON',
    [{}, {}, { annotations: { 'hooks.kubevirt.io/hookSidecars': '[{' } }],
    /hookSidecars is no list of containers in JSON/,
  ],
  [
    'a hook without an image',
    [{}, {}, { annotations: { 'hooks.kubevirt.io/hookSidecars': '[{"args":[]}]' } }],
    /\[0\].image is missing/,
  ],
  [
    'a hook whose config map has no key',
    [{}, {}, { annotations: { 'hooks.kubevirt.io/hookSidecars': '[{"image":"i","configMap":{"name":"m"}}]' } }],
    /configMap.key must be a string/,
  ],
  [
    'state that is to be kept, before there is a claim for it',
    [{ domain: { memory: { guest: '1Gi' }, devices: { tpm: { persistent: true } } } }],
    /claim that is to keep the state of the VM does not exist yet/,
  ],
  [
    'a device without a name at its plug-in',
    [{ domain: { memory: { guest: '1Gi' }, devices: { gpus: [{ name: 'g' }] } } }],
    /device g needs a deviceName/,
  ],
  ['a log verbosity that is no number', [{}, {}, { labels: { logVerbosity: 'loud' } }], /logVerbosity/],
];
for (const [title, vmi, message] of refused) {
  test(`rendering is refused with the field's name, for ${title}`, () => {
    assert.throws(() => renderLauncherPod(buildVmi(...vmi), buildConfig(), 'salt'), {
      name: 'PodRenderError',
      message,
    });
  });
}

test('a claim that is a block device is a device of the launcher, any other one a folder', () => {
  const volumes = ['disk', 'files', 'filled'].map((name) => ({
    name,
    persistentVolumeClaim: { claimName: `${name}-claim` },
  }));
  const [disk, files, { name }] = volumes as [object, object, { name: string }];
  const vmi = buildVmi({ volumes: [disk, files, { name, dataVolume: { name: 'filled-claim' } }] as never });
  const claimOf = (claim: string, volumeMode?: string) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: claim },
    spec: { ...(volumeMode && { volumeMode }) },
  });
  const all = [claimOf('disk-claim', 'Block'), claimOf('files-claim', 'Filesystem'), claimOf('filled-claim', 'Block')];
  const claims = new Map(all.map((claim) => [claim.metadata.name, claim]));
  const { containers, volumes: ofPod } = renderLauncherPod(vmi, buildConfig(), 'salt', claims as never).spec;
  assert.deepEqual(containers[0]?.volumeDevices, [
    { name: 'disk', devicePath: '/dev/disk' },
    { name: 'filled', devicePath: '/dev/filled' },
  ]);
  const mounted = containers[0]?.volumeMounts?.map((mount) => mount.name).filter((each) => /^(disk|fil)/.test(each));
  assert.deepEqual(mounted, ['files']);
  assert.deepEqual(
    ofPod?.filter(({ persistentVolumeClaim }) => persistentVolumeClaim).map((volume) => volume.name),
    ['disk', 'files', 'filled'],
  );
});

test('a device that the KubeVirt object does not permit is refused; without a list any may be asked for', () => {
  const vmi = buildVmi({
    domain: { memory: { guest: '1Gi' }, devices: { hostDevices: [{ name: 'd', deviceName: 'x.com/d' }] } },
  });
  const permitting = (resourceName: string) =>
    buildConfig({ permittedHostDevices: { pciHostDevices: [{ resourceName }] } });
  assert.throws(() => renderLauncherPod(vmi, permitting('x.com/e'), 'salt'), { code: 'NOT_PERMITTED' });
  for (const config of [permitting('x.com/d'), buildConfig()]) {
    const [compute] = renderLauncherPod(vmi, config, 'salt').spec.containers;
    assert.match(JSON.stringify(compute?.resources), /"limits":\{.*"x.com\/d":"1"/);
  }
});

test('a claim is of the launcher where the gate of what names it is on, and refused with the gate elsewhere', () => {
  const request = { claimName: 'c', requestName: 'r' };
  const cases = [
    ['GPUsWithDRA', { domain: { memory: { guest: '1Gi' }, devices: { gpus: [{ name: 'd', ...request }] } } }],
    [
      'HostDevicesWithDRA',
      { domain: { memory: { guest: '1Gi' }, devices: { hostDevices: [{ name: 'd', ...request }] } } },
    ],
    [
      'NetworkDevicesWithDRA',
      {
        domain: { memory: { guest: '1Gi' }, devices: { interfaces: [{ name: 'd', sriov: {} }] } },
        networks: [{ name: 'd', resourceClaim: request }],
      },
    ],
  ] as const;
  const resourceClaims = [{ name: 'c', resourceClaimTemplateName: 't' }];
  for (const [gate, spec] of cases) {
    const vmi = buildVmi({ resourceClaims, ...structuredClone(spec) } as never);
    const render = (developerConfiguration: object) =>
      renderLauncherPod(vmi, buildConfig({ developerConfiguration }), 'salt').spec;
    const message = new RegExp(`d of .*: a claim needs the feature gate ${gate} `);
    assert.throws(() => render({ disabledFeatureGates: [gate] }), { code: 'NOT_PERMITTED', message });
    const pod = render({ featureGates: [gate] });
    assert.deepEqual(pod.resourceClaims, resourceClaims);
    assert.match(JSON.stringify(pod.containers[0]?.resources), /"claims":\[\{"name":"c","request":"r"\}\]/);
  }
});

test('what a downward API volume shows has the form that Kubernetes takes', () => {
  const fields = [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }];
  const vmi = buildVmi({ volumes: [{ name: 'info', downwardAPI: { fields, volumeLabel: 'INFO' } }] });
  const { volumes } = renderLauncherPod(vmi, buildConfig(), 'salt').spec;
  assert.deepEqual(
    volumes?.find(({ name }) => name === 'info'),
    { name: 'info', downwardAPI: { items: fields } },
  );
});

test('a container of each image tells its digest: a volume does not', () => {
  const containers = renderLauncherPod(everyStorage, buildConfig(), 'salt').spec.initContainers ?? [];
  assert.deepEqual(
    containers.map(({ name }) => name),
    ['guest-console-log', 'volumeroot', 'volumekernel-boot-volume'],
  );
});

const stateMounts: readonly (readonly [
  title: string,
  domain: object,
  runtimeUser: number,
  mounts: readonly string[],
])[] = [
  ['a TPM', { devices: { tpm: { persistent: true } } }, 107, ['meta', 'swtpm', 'swtpm-localca']],
  [
    'EFI variables of a launcher that is root',
    { firmware: { bootloader: { efi: { persistent: true } } } },
    0,
    ['meta', 'nvram'],
  ],
  ['a TPM that is turned off', { devices: { tpm: { persistent: true, enabled: false } } }, 107, []],
];
for (const [title, domain, runtimeUser, expected] of stateMounts) {
  test(`what is kept of ${title} is on directories of its claim: ${expected}`, () => {
    const vmi = buildVmi({ domain: { memory: { guest: '1Gi' }, ...domain } }, { runtimeUser });
    const { containers, volumes = [] } = renderLauncherPod(vmi, buildConfig(), 'salt', new Map(), 'kept').spec;
    const mounts = containers[0]?.volumeMounts?.filter(({ name }) => name === 'vm-state') ?? [];
    assert.deepEqual(
      mounts.map(({ subPath }) => subPath),
      expected,
    );
    assert.deepEqual(
      volumes.filter(({ persistentVolumeClaim }) => persistentVolumeClaim),
      expected.length > 0 ? [{ name: 'vm-state', persistentVolumeClaim: { claimName: 'kept' } }] : [],
    );
    assert.equal(
      volumes.some(({ name }) => name === 'private-libvirt-qemu'),
      expected.length > 0 && runtimeUser !== 0,
    );
  });
}

test('a VMI whose changed blocks are not recorded has nothing of it in its pod', () => {
  const podOf = (status: Parameters<typeof buildVmi>[1]) =>
    renderLauncherPod(buildVmi({}, status), buildConfig(), 'salt', new Map(), 'kept');
  assert.deepEqual(podOf({ changedBlockTracking: { state: 'Disabled' } }), podOf({}));
  assert.equal(JSON.stringify(podOf({})).includes('cbt'), false);
  assert.equal(
    podOf({}).spec.volumes?.some(({ name }) => name === 'vm-state'),
    false,
  );
});

test('records of changed blocks are on a directory of the claim', () => {
  for (const [runtimeUser, place] of [
    [107, '/var/run/kubevirt-private/libvirt/qemu/cbt'],
    [0, '/var/lib/libvirt/qemu/cbt'],
  ] as const) {
    const vmi = buildVmi({}, { runtimeUser, changedBlockTracking: { state: 'Initializing' } });
    const { containers } = renderLauncherPod(vmi, buildConfig(), 'salt', new Map(), 'kept').spec;
    const mounts = containers[0]?.volumeMounts?.filter(({ subPath }) => subPath === 'cbt') ?? [];
    assert.deepEqual(mounts, [{ name: 'vm-state', mountPath: place, subPath: 'cbt' }]);
  }
});
