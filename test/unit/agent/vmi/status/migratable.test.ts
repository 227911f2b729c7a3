import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { project } from '../../../../../src/agent/vmi/status/index.ts';
import type { DomainSpecInput, VirtualMachineInstance, VmiStatus, Volume } from '../../../../../src/api/index.ts';
import { clusterConfig, node, observationOf, presentVmi, vmiOf } from '../../../../fixtures/agent/builders.ts';

type Spec = Partial<Omit<VirtualMachineInstance['spec'], 'domain'>> & { domain?: DomainSpecInput };

function statusOf(vmi: VirtualMachineInstance, more: Partial<Observation> = {}) {
  const observation = observationOf({ vmi: presentVmi(vmi), ...more });
  return project(vmi, { observation, decision: decide(observation), outcomes: [] });
}

function conditionOf(vmi: VirtualMachineInstance, type: string, more: Partial<Observation> = {}) {
  const { status, reason, message } =
    statusOf(vmi, more).vmi?.status?.conditions?.find((condition) => condition.type === type) ?? {};
  return { status, reason, message };
}

const base = observationOf();
const withConfig = (config: Partial<typeof clusterConfig.status>): Partial<Observation> => ({
  statusFacts: { ...base.statusFacts, config: { ...clusterConfig.status, ...config } },
});
const vgpuOn: Partial<Observation> = {
  syncOptions: {
    ...base.syncOptions,
    clusterFlags: { ...base.syncOptions.clusterFlags, vgpuLiveMigrationEnabled: true },
  },
};
const podNetwork = [{ name: 'default', pod: {} }];
const devices = (more: DomainSpecInput['devices']) => ({ domain: { devices: { disks: [], ...more } }, volumes: [] });
const iface = (binding: object) => ({
  ...devices({ interfaces: [{ name: 'default', ...binding }] }),
  networks: podNetwork,
});
const gpu = (...names: string[]) => devices({ gpus: names.map((name) => ({ name, deviceName: 'vendor/gpu' })) });

/** Situation, spec, reason and words (none: it can migrate), more of the observation. */
const live: readonly (readonly [string, Spec, string | undefined, RegExp, Partial<Observation>?])[] = [
  ['a plain guest', devices({}), undefined, /^$/],
  ['no interface on no network', { ...devices({ interfaces: [] }), networks: podNetwork }, undefined, /^$/],
  ['a bridge on another network', { ...iface({ bridge: {} }), networks: [{ name: 'default' }] }, undefined, /^$/],
  ['masquerade', iface({ masquerade: {} }), undefined, /^$/],
  ['passt', iface({ passtBinding: {} }), undefined, /^$/],
  [
    'a bridge',
    iface({ bridge: {} }),
    'InterfaceNotLiveMigratable',
    /^cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network$/,
  ],
  [
    'a binding without migration',
    iface({ binding: { name: 'b' } }),
    'InterfaceNotLiveMigratable',
    /^cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network$/,
  ],
  [
    'a binding with migration',
    iface({ binding: { name: 'b' } }),
    undefined,
    /^$/,
    withConfig({ migratableBindings: ['b'] }),
  ],
  [
    'no interface of the pod network',
    { ...devices({ interfaces: [{ name: 'x', masquerade: {} }] }), networks: podNetwork },
    'InterfaceNotLiveMigratable',
    /^no primary interface found for network default$/,
  ],
  [
    'host-model on a node without one',
    { domain: { cpu: { model: 'host-model' } } },
    'CPUModeLiveMigratable',
    new RegExp(`^the node "${node}" does not allow migration with host-model$`),
    { statusFacts: { ...base.statusFacts, hostModel: '' } },
  ],
  [
    'host-model on a node that has one',
    { domain: { cpu: { model: 'host-model' } } },
    undefined,
    /^$/,
    { statusFacts: { ...base.statusFacts, hostModel: 'Skylake-Client' } },
  ],
  ['host-model on a node of which that is not known', { domain: { cpu: { model: 'host-model' } } }, undefined, /^$/],
  [
    'a host device',
    devices({ hostDevices: [{ name: 'd', deviceName: 'x/y' }] }),
    'HostDeviceNotLiveMigratable',
    /^VMI specifies non-migratable generic PCI host device$/,
  ],
  ['two GPUs', gpu('a', 'b'), 'HostDeviceNotLiveMigratable', /^VMI specifies too many GPUs$/, vgpuOn],
  [
    'a GPU without the gate',
    gpu('a'),
    'HostDeviceNotLiveMigratable',
    /^VMI specifies a GPU but feature gate VGPULiveMigration is not enabled$/,
  ],
  [
    'a GPU that is not mediated',
    gpu('a'),
    'HostDeviceNotLiveMigratable',
    /^VMI specifies non-migratable GPU device$/,
    vgpuOn,
  ],
  [
    'a mediated GPU with the gate',
    gpu('a'),
    undefined,
    /^$/,
    { ...vgpuOn, ...withConfig({ mediatedDevices: ['vendor/gpu'] }) },
  ],
  ['SEV', { domain: { launchSecurity: { sev: {} } } }, 'SEVNotLiveMigratable', /^VMI uses SEV$/],
  ['SNP', { domain: { launchSecurity: { snp: {} } } }, 'SEVNotLiveMigratable', /^VMI uses SEV$/],
  ['TDX', { domain: { launchSecurity: { tdx: {} } } }, 'TDXNotLiveMigratable', /^VMI uses TDX$/],
  [
    'secure execution',
    { domain: { launchSecurity: {} }, architecture: 's390x' },
    'SecureExecutionNotLiveMigratable',
    /^VMI uses Secure Execution$/,
  ],
  [
    'reenlightenment without a TSC frequency',
    { domain: { features: { hyperv: { reenlightenment: {} } } } },
    'NoTSCFrequencyNotLiveMigratable',
    /^HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed on the cluster: guest timers might be inconsistent$/,
  ],
  [
    'reenlightenment that is off',
    { domain: { features: { hyperv: { reenlightenment: { enabled: false } } } } },
    undefined,
    /^$/,
  ],
  [
    'reenlightenment with invtsc required',
    {
      domain: {
        cpu: { features: [{ name: 'invtsc', policy: 'require' }] },
        features: { hyperv: { reenlightenment: {} } },
      },
    },
    'NoTSCFrequencyNotLiveMigratable',
    /^VMIs with the CPU feature invtsc cannot migrate when TSC Frequency is not exposed on the cluster$/,
  ],
  [
    'Hyper-V passthrough',
    { domain: { features: { hypervPassthrough: { enabled: true } } } },
    'HypervPassthroughNotLiveMigratable',
    /^VMI uses hyperv passthrough$/,
  ],
  [
    'Hyper-V passthrough without a value (fault 3)',
    { domain: { features: { hypervPassthrough: {} } } },
    'HypervPassthroughNotLiveMigratable',
    /./,
  ],
  [
    'Hyper-V passthrough that is off',
    { domain: { features: { hypervPassthrough: { enabled: false } } } },
    undefined,
    /^$/,
  ],
  [
    'a claim of which nothing is known',
    { domain: {}, volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] },
    'DisksNotLiveMigratable',
    /^cannot migrate VMI: Unable to determine if PVC c is shared, live migration requires that all PVCs must be shared \(using ReadWriteMany access mode\)$/,
  ],
  [
    'the first of several obstacles',
    { ...iface({ bridge: {} }), domain: { ...iface({ bridge: {} }).domain, launchSecurity: { sev: {} } } },
    'InterfaceNotLiveMigratable',
    /./,
  ],
];
for (const [situation, spec, reason, words, more] of live) {
  test(`LiveMigratable is ${reason ? `False (${reason})` : 'True'}: ${situation}`, () => {
    const vmi = vmiOf('Running', { spec: { volumes: [], domain: {}, ...spec } as VirtualMachineInstance['spec'] });
    const condition = conditionOf(vmi, 'LiveMigratable', more);
    assert.deepEqual([condition.status, condition.reason], [reason ? 'False' : 'True', reason]);
    assert.match(condition.message ?? '', words);
  });
}

test('a bridge with the annotation may migrate', () => {
  const vmi = vmiOf('Running', {
    spec: iface({ bridge: {} }),
    metadata: { annotations: { 'kubevirt.io/allow-pod-bridge-network-live-migration': '' } },
  });
  assert.equal(conditionOf(vmi, 'LiveMigratable').status, 'True');
});

test('a TSC frequency that the cluster tells is enough for reenlightenment and invtsc', () => {
  const cpu = { features: [{ name: 'invtsc', policy: 'require' }] };
  const spec = { domain: { cpu, features: { hyperv: { reenlightenment: {} } } }, volumes: [] };
  const vmi = vmiOf('Running', { spec, status: { topologyHints: { tscFrequency: 2_000_000_000 } } });
  assert.equal(conditionOf(vmi, 'LiveMigratable').status, 'True');
});

const shared = { accessModes: ['ReadWriteMany'], claimName: 'c' };
const own = { accessModes: ['ReadWriteOnce'], claimName: 'c' };
const cdrom = (readonly?: boolean) => [{ name: 'v', cdrom: readonly === undefined ? {} : { readonly } }];
const filesystems = [{ name: 'v', virtiofs: {} }];

/** Situation, volume, its claim, devices, method, and the obstacle's words. */
const volumes: readonly (readonly [string, Volume, object | undefined, object, string, RegExp | undefined])[] = [
  ['shared claim', { name: 'v', persistentVolumeClaim: { claimName: 'c' } }, shared, {}, 'LiveMigration', undefined],
  [
    'own claim',
    { name: 'v', persistentVolumeClaim: { claimName: 'c' } },
    own,
    {},
    'BlockMigration',
    /^cannot migrate VMI: PVC c is not shared, live migration requires that all PVCs must be shared \(using ReadWriteMany access mode\)$/,
  ],
  ['own data volume', { name: 'v', dataVolume: { name: 'd' } }, own, {}, 'BlockMigration', /PVC d is not shared/],
  [
    'unknown data volume',
    { name: 'v', dataVolume: { name: 'd' } },
    undefined,
    {},
    'BlockMigration',
    /Unable to determine if PVC d is shared/,
  ],
  [
    'host disk',
    { name: 'v', hostDisk: { path: '/d', type: 'Disk' } },
    undefined,
    {},
    'BlockMigration',
    /^cannot migrate VMI with non-shared HostDisk$/,
  ],
  [
    'shared host disk',
    { name: 'v', hostDisk: { path: '/d', type: 'Disk', shared: true } },
    undefined,
    {},
    'LiveMigration',
    undefined,
  ],
  [
    'shared host disk on an own claim',
    { name: 'v', hostDisk: { path: '/d', type: 'Disk', shared: true } },
    own,
    {},
    'BlockMigration',
    /PVC c is not shared/,
  ],
  [
    'host disk that stands for a shared claim',
    { name: 'v', hostDisk: { path: '/d', type: 'Disk' } },
    shared,
    {},
    'LiveMigration',
    undefined,
  ],
  ['empty disk', { name: 'v', emptyDisk: { capacity: '1Gi' } }, undefined, {}, 'BlockMigration', undefined],
  ['container disk', { name: 'v', containerDisk: { image: 'i' } }, undefined, {}, 'BlockMigration', undefined],
  [
    'config map as virtiofs',
    { name: 'v', configMap: { name: 'c' } },
    undefined,
    { filesystems },
    'LiveMigration',
    undefined,
  ],
  [
    'cloud-init on a CD-ROM',
    { name: 'v', cloudInitNoCloud: { userData: '' } },
    undefined,
    { disks: cdrom() },
    'LiveMigration',
    undefined,
  ],
  [
    'cloud-init on a writable CD-ROM',
    { name: 'v', cloudInitNoCloud: { userData: '' } },
    undefined,
    { disks: cdrom(false) },
    'BlockMigration',
    undefined,
  ],
];
for (const [situation, volume, claim, more, method, obstacle] of volumes) {
  test(`migrationMethod is ${method}${obstacle ? ' and disks forbid it' : ''}: ${situation}`, () => {
    const volumeStatus = [{ name: 'v', target: 'vda', ...(claim && { persistentVolumeClaimInfo: claim }) }];
    const spec = { domain: { devices: { interfaces: [], ...more } }, volumes: [volume] };
    const vmi = vmiOf('Running', { spec, status: { volumeStatus } });
    const { status } = statusOf(vmi).vmi ?? {};
    const condition = status?.conditions?.find(({ type }) => type === 'LiveMigratable');
    assert.equal(status?.migrationMethod, method);
    assert.equal(condition?.reason, obstacle && 'DisksNotLiveMigratable');
    assert.match(condition?.message ?? '', obstacle ?? /^$/);
  });
}

test('volumes that are being migrated are copied, and are no obstacle', () => {
  const vmi = vmiOf('Running', {
    spec: { domain: {}, volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] },
    status: {
      migratedVolumes: [{ volumeName: 'v' }],
      volumeStatus: [{ name: 'v', target: '', persistentVolumeClaimInfo: own }],
    },
  });
  assert.equal(statusOf(vmi).vmi?.status?.migrationMethod, 'BlockMigration');
  assert.equal(conditionOf(vmi, 'LiveMigratable').status, 'True');
});

test('StorageLiveMigratable collects every obstacle, but disks are none of them', () => {
  const vmi = vmiOf('Running', {
    spec: {
      ...iface({ bridge: {} }),
      domain: {
        ...devices({
          interfaces: [{ name: 'default', bridge: {} }],
          disks: [{ name: 'l', lun: { reservation: true } }],
        }).domain,
        launchSecurity: { sev: {}, tdx: {} },
      },
      volumes: [{ name: 'l', persistentVolumeClaim: { claimName: 'c' } }],
    },
  });
  const { status, reason, message = '' } = conditionOf(vmi, 'StorageLiveMigratable');
  assert.deepEqual([status, reason], ['False', 'NotMigratable']);
  assert.deepEqual(
    message.split(', ').map((part) => part.split(':')[0]),
    ['InterfaceNotLiveMigratable', 'SEVNotLiveMigratable', 'PersistentReservationNotLiveMigratable'],
  );
});

const noMigrationProxy = {
  supported: false,
  unavailable: 'not built in',
  address: '10.0.0.1',
  hasSource: false,
} as const;

test('a claim that is migrated to another one is no obstacle behind a host disk either, as pkg/virt-handler/vm.go has it', () => {
  const vmi = vmiOf('Running', {
    spec: { domain: {}, volumes: [{ name: 'v', hostDisk: { path: '/d', type: 'Disk' } }] },
    status: {
      migratedVolumes: [{ volumeName: 'v' }],
      volumeStatus: [{ name: 'v', target: '', persistentVolumeClaimInfo: own }],
    },
  });
  assert.deepEqual(conditionOf(vmi, 'LiveMigratable'), { status: 'True', reason: undefined, message: undefined });
  assert.equal(statusOf(vmi).vmi?.status?.migrationMethod, 'BlockMigration');
});

test('a build without migrationProxies says so only where the guest could migrate', () => {
  const able = vmiOf('Running');
  assert.deepEqual(conditionOf(able, 'LiveMigratable', { migrationProxies: noMigrationProxy }), {
    status: 'False',
    reason: 'NodeAgentNotLiveMigratable',
    message: 'not built in',
  });
  assert.match(
    conditionOf(able, 'StorageLiveMigratable', { migrationProxies: noMigrationProxy }).message ?? '',
    /not built in$/,
  );
  const unable = vmiOf('Running', { spec: { domain: { launchSecurity: { sev: {} } }, volumes: [] } });
  assert.equal(
    conditionOf(unable, 'LiveMigratable', { migrationProxies: noMigrationProxy }).reason,
    'SEVNotLiveMigratable',
  );
  assert.equal(
    conditionOf(unable, 'StorageLiveMigratable', { migrationProxies: noMigrationProxy }).message,
    'SEVNotLiveMigratable: VMI uses SEV',
  );
});

test('a changed obstacle replaces reason and message, and no times are written', () => {
  const first = statusOf(vmiOf('Running', { spec: { domain: { launchSecurity: { sev: {} } }, volumes: [] } })).vmi;
  assert.ok(first);
  first.spec.domain.launchSecurity = { tdx: {} };
  const changed = statusOf(first).vmi?.status?.conditions?.filter(({ type }) => type.endsWith('LiveMigratable')) ?? [];
  assert.deepEqual(
    changed.map(({ type, reason, message, lastProbeTime, lastTransitionTime }) => [
      type,
      reason,
      message,
      lastProbeTime,
      lastTransitionTime,
    ]),
    [
      ['LiveMigratable', 'TDXNotLiveMigratable', 'VMI uses TDX', null, null],
      ['StorageLiveMigratable', 'NotMigratable', 'TDXNotLiveMigratable: VMI uses TDX', null, null],
    ],
  );
});

/** Strategy of the VMI, of the cluster, status before, and whether there is a warning. */
const evictions = [
  ['LiveMigrate', undefined, undefined, true],
  ['LiveMigrate', undefined, 'True', true],
  ['LiveMigrate', undefined, 'False', false],
  [undefined, 'LiveMigrate', undefined, true],
  ['None', 'LiveMigrate', undefined, false],
  ['LiveMigrateIfPossible', undefined, 'True', true],
  ['LiveMigrateIfPossible', undefined, undefined, false],
  [undefined, undefined, undefined, false],
] as const;
for (const [strategy, ofCluster, before, isWarned] of evictions) {
  test(`a guest that cannot be evicted is ${isWarned ? 'warned of once' : 'not warned of'}: ${strategy ?? 'none'}, cluster ${ofCluster ?? 'none'}, before ${before ?? 'unset'}`, () => {
    const conditions: VmiStatus['conditions'] = before ? [{ type: 'LiveMigratable', status: before }] : [];
    const spec = {
      domain: { launchSecurity: { sev: {} } },
      volumes: [],
      ...(strategy && { evictionStrategy: strategy }),
    };
    const { events, vmi } = statusOf(
      vmiOf('Running', { spec, status: { conditions } }),
      withConfig(ofCluster ? { evictionStrategy: ofCluster } : {}),
    );
    const warnings = events.filter(({ reason }) => reason === 'Migrated');
    assert.deepEqual(
      warnings.map(({ type, message }) => [type, message]),
      isWarned ? [['Warning', 'EvictionStrategy is set but vmi is not migratable; VMI uses SEV']] : [],
    );
    assert.ok(vmi);
    assert.deepEqual(statusOf(vmi).events, []);
  });
}

test('a spec of wrong types is judged without harm', () => {
  const broken = [
    { cpu: 'x' },
    { cpu: { features: 'x' } },
    { launchSecurity: [] },
    { devices: { gpus: 7, hostDevices: {} } },
  ];
  for (const domain of broken) {
    const vmi = vmiOf('Running', { spec: { domain, volumes: [] } as unknown as VirtualMachineInstance['spec'] });
    assert.equal(conditionOf(vmi, 'LiveMigratable').status, 'True', JSON.stringify(domain));
  }
});
