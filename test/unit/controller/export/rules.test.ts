import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Pod, Service, VirtualMachineExport } from '../../../../src/api/index.ts';
import { decideExport, exportRules } from '../../../../src/controller/export/decide.ts';
import { linksOf } from '../../../../src/controller/export/links.ts';
import { renderManifest } from '../../../../src/controller/export/manifest.ts';
import { namesOf, volumeNameOf } from '../../../../src/controller/export/names.ts';
import type { ExportObservation, PresentExport } from '../../../../src/controller/export/observation.ts';
import { certificateText, renderExporterPod } from '../../../../src/controller/export/pod.ts';
import { exportStatusOf } from '../../../../src/controller/export/status.ts';
import { buildVm } from '../builders.ts';

const now = new Date('2026-01-01T00:10:00Z');
const created = '2026-01-01T00:00:00Z';
const certificates = { durationMs: 86_400_000, renewBeforeMs: 17_280_000 };
const access = { bundle: 'PEM', problem: undefined, external: undefined };

function exportOf(spec: object = {}, metadata: object = {}): VirtualMachineExport {
  return {
    ...{ apiVersion: 'export.kubevirt.io/v1', kind: 'VirtualMachineExport' },
    metadata: { name: 'e', namespace: 'default', uid: 'u', creationTimestamp: created, ...metadata },
    spec: { source: { kind: 'PersistentVolumeClaim', name: 'data' }, ...spec },
  };
}

const claimOf = (name: string, spec: object = {}) => ({
  ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, namespace: 'default' } },
  spec: { accessModes: ['ReadWriteOnce'], ...spec },
});
const claim = { claim: claimOf('data'), isDisk: true };
const service: Service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'virt-export-e', uid: 's' } };
const whole = { volumes: [claim], wanted: [], isSkipped: false };
const lost = { ...whole, problem: { reason: 'InUse', message: 'Virtual Machine default/vm1 is running' } };
const skipped = { volumes: [], wanted: [], isSkipped: true, problem: { reason: 'VMNoVolumes', message: 'no volumes' } };

function seen(facts: Partial<PresentExport> = {}): PresentExport {
  return {
    ...{ kind: 'present', key: 'default/e', uid: 'u', now, vmExport: exportOf(), source: whole, service, access },
    ...{ expiresAt: new Date('2026-01-01T02:00:00Z'), pod: undefined, occupied: undefined, users: [], certificates },
    ...facts,
  };
}

const terminated = (finishedAt: string) => ({
  containerStatuses: [
    {
      ...{ name: 'exporter', ready: false, restartCount: 0, image: 'i', imageID: 'i' },
      state: { terminated: { exitCode: 1, finishedAt } },
    },
  ],
});

function podOf(status: NonNullable<Pod['status']>, metadata: object = {}): Pod {
  const annotations = { 'kubevirt.io/export.certParameters': certificateText(certificates) };
  return {
    ...{ apiVersion: 'v1', kind: 'Pod', status },
    metadata: { name: 'virt-export-e', namespace: 'default', uid: 'p', annotations, ...metadata },
    spec: { containers: [] },
  };
}

const ready = podOf({ phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] });
const ending = { deletionTimestamp: created };
const wanted = [{ name: 'e-data', backup: { volumeName: 'd', persistentVolumeClaim: { spec: {} } }, isDisk: true }];
const unmade = { ...whole, volumes: [], wanted: wanted.map((each) => ({ ...each, restoreSize: undefined })) };

const rows: readonly (readonly [rule: string, seen: ExportObservation, steps: string])[] = [
  ['deleted', seen({ vmExport: exportOf({}, ending), pod: ready }), ''],
  ['expired', seen({ expiresAt: now, pod: ready }), 'deleteExport'],
  ['expired', seen({ expiresAt: new Date(0), source: lost }), 'deleteExport'],
  ['name-occupied', seen({ occupied: 'Pod x is another’s' }), ''],
  ['pod-ending', seen({ pod: podOf({ phase: 'Running' }, ending) }), ''],
  ['source-lost', seen({ pod: ready, source: lost }), 'deletePod'],
  ['source-lost', seen({ pod: ready, users: ['virt-launcher-x'] }), 'deletePod'],
  ['pod-failed', seen({ pod: podOf({ phase: 'Failed', ...terminated('2026-01-01T00:09:50Z') }) }), ''],
  ['pod-ended', seen({ pod: podOf({ phase: 'Failed', ...terminated('2026-01-01T00:09:00Z') }) }), 'deletePod'],
  ['pod-ended', seen({ pod: podOf({ phase: 'Succeeded' }) }), 'deletePod'],
  ['certificate-times-changed', seen({ pod: podOf({ phase: 'Running' }, { annotations: {} }) }), 'deletePod'],
  ['ready', seen({ pod: ready }), ''],
  ['ready', seen({ pod: ready, service: undefined }), 'createService'],
  ['pod-pending', seen({ pod: podOf({ phase: 'Pending' }) }), 'createToken createCertificate'],
  ['pod-starting', seen({ pod: podOf({ phase: 'Running' }) }), ''],
  ['nothing-to-export', seen({ source: skipped, service: undefined }), 'createService'],
  ['source-not-ready', seen({ source: lost }), ''],
  ['source-not-ready', seen({ users: ['a', 'b'] }), ''],
  ['source-not-ready', seen({ access: { ...access, bundle: undefined, problem: 'no authority' } }), ''],
  ['claims-missing', seen({ source: unmade }), 'createClaims'],
  ['pod-missing', seen(), 'createToken createPod createCertificate'],
  [
    'pod-missing',
    seen({ source: { ...whole, vm: buildVm() }, service: undefined }),
    'createService createToken createManifest createPod createCertificate',
  ],
  ['gone', { kind: 'absent', key: 'default/e', uid: '', now }, ''],
  ['api-without-answer', { kind: 'unclear', key: 'default/e', uid: 'u', now, vmExport: exportOf(), reason: 'x' }, ''],
];

describe('what is decided of an export', () => {
  for (const [rule, observation, steps] of rows) {
    test(`${rule}: ${steps || 'nothing is done'}`, () => {
      const decision = decideExport(observation);
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('each rule is tried', () => {
    const tried = new Set(rows.map(([rule]) => rule));
    assert.deepEqual(
      exportRules.map(({ name }) => name).filter((name) => !tried.has(name)),
      [],
    );
  });

  test('why it waits is told in words', () => {
    const ofUsers = decideExport(seen({ users: ['virt-launcher-x'] })).says?.ready;
    assert.deepEqual(ofUsers, {
      ...{ status: 'False', reason: 'InUse' },
      message: 'PersistentVolumeClaim data is in use by pod virt-launcher-x',
    });
    assert.equal(decideExport(seen({ source: skipped })).says?.phase, 'Skipped');
  });

  test('an export is looked at again when its time is over', () => {
    assert.equal(decideExport(seen({ pod: ready })).requeueAfterMs, 110 * 60_000);
  });
});

describe('names of what is made for an export', () => {
  test('short ones are the export’s with a prefix', () => {
    assert.deepEqual(namesOf(exportOf({}, { name: 'my.export' })), {
      ...{ pod: 'virt-export-my.export', service: 'virt-export-my-export', tokenSecret: 'export-token-my.export' },
      ...{ manifest: 'exporter-vm-manifest-my.export', label: 'my.export' },
    });
  });

  test('long ones are cut, and told apart by a hash', () => {
    for (const length of [50, 52, 54, 60, 63, 100, 253]) {
      const one = namesOf(exportOf({}, { name: 'a'.repeat(length) }));
      const other = namesOf(exportOf({}, { name: `${'a'.repeat(length - 1)}b` }));
      for (const name of [one.pod, one.service, one.tokenSecret, one.label]) {
        assert.ok(name.length <= 63, name);
        assert.match(name, /^[a-z]([a-z0-9-]*[a-z0-9])?$/);
      }
      assert.notEqual(one.service, other.service);
    }
    // As openshift/library-go makes it: FNV-1a of the base, and of the whole where the suffix alone is too long.
    assert.equal(namesOf(exportOf({}, { name: 'x'.repeat(52) })).pod, `v-efa2f187-${'x'.repeat(52)}`);
    assert.equal(volumeNameOf('a.b'), 'a-b');
  });

  test('that of the manifest is upstream’s as long as an object may be called so', () => {
    const manifestOf = (name: string) => namesOf(exportOf({}, { name })).manifest;
    assert.equal(manifestOf('a'.repeat(232)), `exporter-vm-manifest-${'a'.repeat(232)}`);
    for (const length of [233, 241, 242, 243, 253]) {
      const name = manifestOf('a'.repeat(length));
      assert.ok(name.length <= 253, `${name.length} letters`);
      assert.match(name, /^[a-z]([a-z0-9-]*[a-z0-9])?$/);
      assert.notEqual(name, manifestOf(`${'a'.repeat(length - 1)}b`));
    }
  });
});

describe('an exporter pod', () => {
  const names = { certificateSecret: 'secret-x', tokenSecret: 'token' };
  const settings = { image: 'i', imagePullPolicy: 'IfNotPresent', imagePullSecret: '', resources: {} };
  const block = { claim: claimOf('raw', { volumeMode: 'Block' }), isDisk: true };
  const files = { claim: claimOf('files'), isDisk: false };
  const facts = seen({ source: { ...whole, vm: buildVm(), volumes: [claim, block, files] } });
  const pod = renderExporterPod(facts, names, settings);
  const [container] = pod.spec.containers;
  const env = Object.fromEntries((container?.env ?? []).map(({ name, value }) => [name, value]));

  test('each volume has its addresses', () => {
    assert.equal(env.VOLUME0_EXPORT_PATH, '/export-volumes/data');
    assert.equal(env.VOLUME1_EXPORT_PATH, '/dev/export-volumes/raw');
    assert.equal(env.VOLUME1_EXPORT_RAW_GZIP_URI, '/volumes/raw/disk.img.gz');
    assert.equal(env.VOLUME2_EXPORT_DIR_URI, '/volumes/files/dir/');
    assert.equal(env.VOLUME2_EXPORT_RAW_URI, undefined);
    assert.deepEqual(container?.volumeDevices, [{ name: 'raw', devicePath: '/dev/export-volumes/raw' }]);
    assert.ok((container?.volumeMounts ?? []).every(({ readOnly }) => readOnly));
  });

  test('it ends with its certificate, or with the export', () => {
    assert.equal(env.DEADLINE, '2026-01-01T02:00:00Z');
    const longer = renderExporterPod({ ...facts, expiresAt: new Date('2027-01-01T00:00:00Z') }, names, settings);
    const deadline = longer.spec.containers[0]?.env?.find(({ name }) => name === 'DEADLINE');
    assert.equal(deadline?.value, '2026-01-01T19:22:00Z');
  });

  test('it has no rights, and no token of the API', () => {
    assert.equal(pod.spec.automountServiceAccountToken, false);
    assert.equal(pod.spec.securityContext?.runAsNonRoot, true);
    assert.deepEqual(container?.securityContext, {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    });
  });

  test('its links are what it says that it serves', () => {
    const external = { host: 'out.example.org', cert: 'OUT' };
    const links = linksOf(facts.vmExport, pod, { ...access, external });
    assert.deepEqual(
      links.internal?.volumes?.map(({ name, formats }) => [name, formats?.map(({ format }) => format)]),
      [
        ['data', ['raw', 'gzip']],
        ['raw', ['raw', 'gzip']],
        ['files', ['dir', 'tar.gz']],
      ],
    );
    assert.deepEqual(links.internal?.manifests, [
      { type: 'all', url: 'https://virt-export-e.default.svc/internal/manifests/all' },
      { type: 'auth-header-secret', url: 'https://virt-export-e.default.svc/internal/manifests/secret' },
    ]);
    assert.equal(
      links.external?.volumes?.[0]?.formats?.[0]?.url,
      'https://out.example.org/api/export.kubevirt.io/v1/namespaces/default/virtualmachineexports/e/volumes/data/disk.img',
    );
    assert.equal(
      links.external?.manifests?.[0]?.url,
      'https://out.example.org/api/export.kubevirt.io/v1/namespaces/default/virtualmachineexports/e/external/manifests/all',
    );
    assert.equal(links.external?.cert, 'OUT');
  });

  test('links are shown while it serves, and no longer', () => {
    const said = { phase: 'Ready', ready: { status: 'True', reason: 'PodReady' } } as const;
    const served = exportStatusOf({ ...facts, pod }, { ...said, serving: pod });
    assert.equal(served.links?.internal?.cert, 'PEM');
    assert.deepEqual(exportStatusOf({ ...facts, vmExport: { ...facts.vmExport, status: served } }, said).links, {});
  });
});

test('a manifest has nothing of this cluster, and a place for where its disks come from', () => {
  const base = buildVm();
  const volumes = [
    { name: 'root', dataVolume: { name: 'root' } },
    { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
  ];
  const vm = {
    ...base,
    metadata: { ...base.metadata, uid: 'x', resourceVersion: '5', finalizers: ['f'] },
    spec: {
      ...base.spec,
      instancetype: { name: 'small' },
      dataVolumeTemplates: [
        { metadata: { name: 'root' }, spec: { sourceRef: { kind: 'DataSource', name: 'd' }, storage: {} } },
        { metadata: { name: 'unused' }, spec: { source: { blank: {} } } },
      ],
      template: { ...base.spec.template, spec: { ...base.spec.template.spec, volumes } },
    },
  };
  const sources = [claim, { claim: claimOf('root'), isDisk: true }];
  const { data } = renderManifest(exportOf(), vm as typeof base, sources, access);
  const manifest = JSON.parse(data['virtualmachine-manifest'] ?? '');
  assert.deepEqual(
    Object.keys(manifest.metadata).filter((key) => ['uid', 'resourceVersion', 'finalizers'].includes(key)),
    [],
  );
  assert.equal(manifest.spec.instancetype, undefined);
  assert.equal(manifest.status, undefined);
  assert.deepEqual(
    manifest.spec.dataVolumeTemplates.map(({ spec }: { spec: object }) => spec),
    [{ storage: {}, source: { http: { url: '' } } }, { source: { blank: {} } }],
  );
  const { spec } = JSON.parse(data['dv-data'] ?? '');
  assert.deepEqual(spec, { source: { http: { url: '' } }, storage: { accessModes: ['ReadWriteOnce'] } });
  assert.equal(data['dv-root'], undefined);
  assert.deepEqual([data.internal_host, data.external_host], ['virt-export-e.default.svc', undefined]);
});
