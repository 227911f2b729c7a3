import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { readNodeFacts } from '../../../../../src/agent/node/facts/index.ts';
import { launcherFileSizes } from '../../../../../src/agent/vmi/host/index.ts';
import { readLauncherFacts } from '../../../../../src/agent/vmi/observe/index.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { key, uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { FakeLaunchers } from '../../../../fixtures/agent/fake-launchers.ts';
import { readAgentConfig } from '../../../../fixtures/cluster-config.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

/** A machine: its root, processes with their roots, and libvirt's files. */
function machine(t: TestContext, files: Readonly<Record<string, string | number>> = {}) {
  const dir = mkdtempSync(path.join(tmpdir(), 'node-facts-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    writeFileSync(path.join(dir, name), typeof content === 'number' ? Buffer.alloc(content) : content);
  }
  const options = {
    hostRoot: path.join(dir, 'host'),
    procDir: path.join(dir, 'proc'),
    labellerDir: path.join(dir, 'labeller'),
    arch: 'x64',
  };
  return { dir, facts: (arch = 'x64') => readNodeFacts({ ...options, arch }, silentLogger) };
}

test('a bare machine has nothing to tell but its architecture, and SELinux is off', async (t) => {
  const facts = await machine(t).facts();
  assert.equal(facts.architecture, 'amd64');
  assert.equal(facts.topology, undefined);
  assert.equal(facts.hostModel, undefined);
  assert.equal(facts.selinuxContext(undefined), 'none');
  assert.equal(facts.selinuxContext(4242), 'none');
});

test('an architecture without a name in Kubernetes is not made up', async (t) => {
  assert.equal((await machine(t).facts('mips')).architecture, undefined);
});

const mode = (inner: string) =>
  `<domainCapabilities><cpu><mode name='host-passthrough'/><mode name='host-model' supported='yes'>${inner}</mode></cpu></domainCapabilities>`;
const models = [
  [
    'the first model',
    mode("<model fallback='forbid'>Skylake-Client-IBRS</model><vendor>Intel</vendor>"),
    'Skylake-Client-IBRS',
  ],
  ['a model without attributes', mode('<model>Haswell</model>'), 'Haswell'],
  ['no model', mode(''), ''],
  ['no mode', '<domainCapabilities><cpu/></domainCapabilities>', ''],
  ['another document', '<capabilities/>', undefined],
  ['half a document', "<domainCapabilities><cpu><mode name='host-model'>", undefined],
  ['no document', 'not xml <<<', undefined],
] as const;
for (const [situation, xml, wanted] of models) {
  test(`the host model is read from libvirt's domain capabilities: ${situation}`, async (t) => {
    const { facts } = machine(t, { 'labeller/virsh_domcapabilities.xml': xml });
    assert.equal((await facts()).hostModel, wanted);
  });
}

test('with SELinux a label needs a launcher, and what is no label is none', async (t) => {
  const { facts } = machine(t, { 'host/sys/fs/selinux/enforce': '0', 'proc/42/root/x': '' });
  const { selinuxContext } = await facts();
  assert.equal(selinuxContext(undefined), '');
  assert.equal(selinuxContext(42), '', 'this directory has no label');
  assert.equal(selinuxContext(43), '', 'this process is gone');
});

test('sizes are those of plain files inside the launcher: links stay inside, and nothing else has a size', async (t) => {
  const { dir } = machine(t, {
    'proc/42/root/run/a.iso': 1_000,
    'proc/42/root/run/dir/inner.iso': 5,
    'outside.iso': 77,
  });
  const procDir = path.join(dir, 'proc');
  const root = path.join(procDir, '42/root');
  symlinkSync('/run', path.join(root, 'var'));
  symlinkSync('../../../../outside.iso', path.join(root, 'run/escape.iso'));
  symlinkSync(path.join(dir, 'outside.iso'), path.join(root, 'run/absolute.iso'));
  symlinkSync('loop.iso', path.join(root, 'run/loop.iso'));
  const paths = ['/var/a.iso', '/run/dir', '/run/none.iso', '/run/escape.iso', '/run/absolute.iso', '/run/loop.iso'];
  assert.deepEqual(launcherFileSizes(42, paths, procDir), { '/var/a.iso': 1_000 });
  assert.deepEqual(launcherFileSizes(43, paths, procDir), {});
  assert.deepEqual(launcherFileSizes(42, ['\0', '', '/run/../../../../outside.iso'], procDir), {});
});

test('images of all ISO volumes are looked for where the launcher makes them', async () => {
  const clock = new FakeClock();
  const launchers = new FakeLaunchers(clock);
  launchers.run(key, uid);
  const volumes = [
    { name: 'a', cloudInitNoCloud: { userData: '' } },
    { name: 'b', cloudInitConfigDrive: { userData: '' } },
    { name: 'c', configMap: { name: 'x' } },
    { name: 'd', secret: { secretName: 'x' } },
    { name: 'e', downwardAPI: {} },
    { name: 'f', sysprep: {} },
    { name: 'g', serviceAccount: { serviceAccountName: 'x' } },
    { name: 'h', containerDisk: { image: 'x' } },
  ];
  const asked: string[] = [];
  const host = {
    nodeName: 'n',
    selinuxContext: (pid: number | undefined) => (pid === undefined ? '' : `label of ${pid}`),
    fileSizes: (_pid: number, paths: readonly string[]) => {
      asked.push(...paths);
      return Object.fromEntries(paths.map((file, at) => [file, at]));
    },
  };
  const target = { key, uid, activePods: {} };
  const vmi = vmiOf('Running', { spec: { domain: {}, volumes } });
  const facts = await readLauncherFacts(target, vmi, { host, launchers }, new AbortController().signal);
  const ephemeral = '/var/run/kubevirt-ephemeral-disks/cloud-init-data/default/vm1';
  const own = '/var/run/kubevirt-private';
  assert.deepEqual(asked, [
    `${ephemeral}/noCloud.iso`,
    `${ephemeral}/configdrive.iso`,
    `${own}/config-map-disks/c.iso`,
    `${own}/secret-disks/d.iso`,
    `${own}/downwardapi-disks/e.iso`,
    `${own}/sysprep-disks/f.iso`,
    `${own}/service-account-disk/service-account.iso`,
  ]);
  assert.deepEqual(facts, {
    selinuxContext: 'label of 4242',
    isoSizes: { a: 0, b: 1, c: 2, d: 3, e: 4, f: 5, g: 6 },
  });
});

test('without SELinux and ISO volumes no process is looked at; a launcher that is gone is looked at later', async () => {
  const clock = new FakeClock();
  const launchers = new FakeLaunchers(clock);
  const target = { key, uid, activePods: {} };
  const { signal } = new AbortController();
  const off = { nodeName: 'n', selinuxContext: () => 'none', fileSizes: () => ({}) };
  assert.deepEqual(await readLauncherFacts(target, vmiOf('Running'), { host: off, launchers }, signal), {
    selinuxContext: 'none',
    isoSizes: {},
  });
  const on = { ...off, selinuxContext: () => '' };
  assert.equal(await readLauncherFacts(target, vmiOf('Running'), { host: on, launchers }, signal), undefined);
});

function configured(configuration: object) {
  const metadata = { name: 'kubevirt', namespace: 'kubevirt' };
  const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, status: { phase: 'Deployed' } };
  return readAgentConfig({ ...kubevirt, spec: { configuration } }).status;
}

test('what of the configuration shows in a status is read with upstream’s defaults', () => {
  assert.deepEqual(configured({}), {
    supportedGuestAgentVersions: ['2.*', '3.*', '4.*', '5.*'],
    mediatedDevices: [],
    migratableBindings: [],
    crossArchitecture: false,
  });
  const given = {
    evictionStrategy: 'LiveMigrate',
    supportedGuestAgentVersions: ['9.*'],
    permittedHostDevices: { mediatedDevices: [{ resourceName: 'vendor/gpu' }, { mdevNameSelector: 'x' }] },
    network: { binding: { a: { migration: { method: 'link-refresh' } }, b: { domainAttachmentType: 'tap' } } },
    developerConfiguration: { featureGates: ['CrossArchitectureVirtualization'] },
  };
  assert.deepEqual(configured(given), {
    evictionStrategy: 'LiveMigrate',
    supportedGuestAgentVersions: ['9.*'],
    mediatedDevices: ['vendor/gpu'],
    migratableBindings: ['a'],
    crossArchitecture: true,
  });
});

test('a configuration of wrong types counts as not given', () => {
  const broken = {
    evictionStrategy: 7,
    supportedGuestAgentVersions: 'all',
    permittedHostDevices: { mediatedDevices: [null, 'x', { resourceName: 1 }] },
    network: { binding: [1] },
  };
  assert.deepEqual(configured(broken), configured({}));
});

test('what libvirt says is followed while the agent runs: files that come late, change, and are torn or absurd for a while', async (t) => {
  const { dir } = machine(t);
  const labellerDir = path.join(dir, 'labeller');
  const clock = new FakeClock();
  const facts = await readNodeFacts({ hostRoot: dir, procDir: dir, labellerDir, arch: 'x64' }, silentLogger, clock);
  const [domain, machineFile] = ['virsh_domcapabilities.xml', 'capabilities.xml'].map((file) =>
    path.join(labellerDir, file),
  );
  const cell = (id: number) => `<cell id='${id}'><memory unit='KiB'>1</memory></cell>`;
  const topology = (cells: string) =>
    `<capabilities><host><topology><cells>${cells}</cells></topology></host></capabilities>`;
  const now = () => {
    clock.advance(5_000);
    return [facts.hostModel, facts.topology?.length];
  };
  assert.deepEqual(now(), [undefined, undefined]);
  mkdirSync(labellerDir);
  writeFileSync(domain ?? '', mode('<model>Haswell</model>'));
  writeFileSync(machineFile ?? '', topology(cell(0)));
  assert.deepEqual(now(), ['Haswell', 1]);
  for (const bad of [
    '',
    '<',
    '<domainCapabilities><cpu>',
    '<capabilities><host><topology><cells><cell id="7">',
    'x'.repeat(3_000_000),
  ]) {
    writeFileSync(domain ?? '', bad);
    writeFileSync(machineFile ?? '', bad);
    assert.deepEqual(now(), ['Haswell', 1]);
  }
  rmSync(labellerDir, { recursive: true });
  assert.deepEqual(now(), ['Haswell', 1]);
  mkdirSync(labellerDir);
  writeFileSync(domain ?? '', mode('<model>Broadwell</model>'));
  writeFileSync(machineFile ?? '', topology(cell(0) + cell(1)));
  assert.deepEqual(now(), ['Broadwell', 2]);
});
