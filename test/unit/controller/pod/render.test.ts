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
