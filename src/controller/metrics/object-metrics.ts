import { Gauge, type Registry } from 'prom-client';
import {
  findCondition,
  labels,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';

/** The caches, and what is asked of them. */
export interface CountedObjects {
  /** Series of objects come from the leader only: a sum over replicas would count them twice. */
  readonly isLeading: () => boolean;
  readonly vms: () => readonly VirtualMachine[];
  readonly vmis: () => readonly VirtualMachineInstance[];
  readonly migrations: () => readonly VirtualMachineInstanceMigration[];
  /** Launcher pods of a VMI, by its UID. */
  readonly podsOf: (vmiUid: string) => readonly Pod[];
  /** `evictionStrategy` of the cluster, for VMIs that have none. */
  readonly evictionStrategy: () => string | undefined;
  readonly launcherImage: () => string;
}

type Value = readonly [labels: Readonly<Record<string, string>>, value: number];

const none = '<none>';
/** A name that a user chose, and that upstream keeps out of labels, too. */
const other = '<other>';
/** Guests and users choose what some labels say. */
const longestLabel = 128;

const vmiInfoLabels = [
  ...['node', 'namespace', 'name', 'phase', 'os', 'workload', 'flavor', 'instance_type', 'preference'],
  ...['guest_os_kernel_release', 'guest_os_machine', 'guest_os_arch', 'guest_os_name', 'guest_os_version_id'],
  ...['evictable', 'outdated', 'vmi_pod'],
];
const vmInfoLabels = [
  ...['name', 'namespace', 'os', 'workload', 'flavor', 'machine_type', 'instance_type', 'preference'],
  ...['status', 'status_group'],
];

export function addObjectMetrics(registry: Registry, objects: CountedObjects): void {
  const gauge = (name: string, help: string, labelNames: string[], read: () => Iterable<Value>) =>
    new Gauge({
      ...{ name: `kubevirt_${name}`, help, labelNames, registers: [registry] },
      collect() {
        this.reset();
        if (!objects.isLeading()) return;
        for (const [given, value] of read()) this.set(clipped(given), value);
      },
    });
  addMigrations(gauge, objects);
  addVmis(gauge, objects);
  addVms(gauge, objects);
}

type AddGauge = (name: string, help: string, labelNames: string[], read: () => Iterable<Value>) => void;

const countedPhases: Readonly<Record<string, readonly string[]>> = {
  pending: ['Pending'],
  scheduling: ['Scheduling'],
  running: ['Running', 'Scheduled', 'PreparingTarget', 'TargetReady', 'WaitingForSync', 'Synchronizing'],
  unset: [''],
};

function addMigrations(gauge: AddGauge, { migrations }: CountedObjects): void {
  const phaseOf = ({ status }: VirtualMachineInstanceMigration) => String(status?.phase ?? '');
  for (const [phase, phases] of Object.entries(countedPhases)) {
    gauge(`vmi_migrations_in_${phase}_phase`, `Number of current ${phase} migrations.`, [], () => [
      [{}, migrations().filter((migration) => phases.includes(phaseOf(migration))).length],
    ]);
  }
  for (const end of ['Succeeded', 'Failed']) {
    const name = `vmi_migration_${end.toLowerCase()}`;
    gauge(name, `Indicates if the VMI migration ${end.toLowerCase()}.`, ['vmi', 'vmim', 'namespace'], () =>
      migrations()
        .filter((migration) => phaseOf(migration) === end)
        .map(
          ({ metadata: { name, namespace = '' }, spec }): Value => [
            { vmi: spec.vmiName ?? '', vmim: name, namespace },
            1,
          ],
        ),
    );
  }
}

function addVmis(gauge: AddGauge, objects: CountedObjects): void {
  const { vmis, migrations } = objects;
  gauge('vmi_info', 'Information about VirtualMachineInstances.', vmiInfoLabels, () =>
    vmis().map((vmi): Value => [vmiInfo(vmi, objects), 1]),
  );
  const blocked =
    'Indication for a VirtualMachine that its eviction strategy is set to Live Migration but is not migratable.';
  gauge('vmi_non_evictable', blocked, ['node', 'namespace', 'name'], () =>
    vmis().map((vmi): Value => [placeOf(vmi), Number(!isEvictable(vmi, objects))]),
  );
  const outdated =
    'Indication for the total number of VirtualMachineInstance workloads that are not running within the most up-to-date version of the virt-launcher environment.';
  gauge('vmi_number_of_outdated', outdated, [], () => [
    [{}, vmis().filter((vmi) => isOutdated(vmi, objects.launcherImage())).length],
  ]);
  const nameOf = (uid: unknown) => migrations().find(({ metadata }) => metadata.uid === uid)?.metadata.name ?? none;
  const moveLabels = ['node', 'namespace', 'name', 'migration_name'];
  gauge('vmi_migration_start_time_seconds', 'The time at which the migration started.', moveLabels, () =>
    vmis().flatMap((vmi) => {
      const { startTimestamp, migrationUid } = vmi.status?.migrationState ?? {};
      return seconds({ ...placeOf(vmi), migration_name: nameOf(migrationUid) }, startTimestamp);
    }),
  );
  gauge('vmi_migration_end_time_seconds', 'The time at which the migration ended.', [...moveLabels, 'status'], () =>
    vmis().flatMap((vmi) => {
      const { endTimestamp, migrationUid, completed, failed } = vmi.status?.migrationState ?? {};
      const status = completed ? (failed ? 'failed' : 'succeeded') : '';
      return seconds({ ...placeOf(vmi), migration_name: nameOf(migrationUid), status }, endTimestamp);
    }),
  );
}

const statusGroups: Readonly<Record<string, readonly string[]>> = {
  starting: ['Provisioning', 'Starting', 'WaitingForVolumeBinding'],
  running: ['Running'],
  migrating: ['Migrating'],
  non_running: ['Stopped', 'Paused', 'Stopping', 'Terminating'],
  error: [
    ...['CrashLoopBackOff', 'Unknown', 'ErrorUnschedulable', 'ErrImagePull', 'ImagePullBackOff'],
    ...['ErrorPvcNotFound', 'DataVolumeError'],
  ],
};
const timedConditions = ['Ready', 'Failure', 'Paused'];

function addVms(gauge: AddGauge, { vms }: CountedObjects): void {
  gauge('vm_info', 'Information about Virtual Machines.', vmInfoLabels, () =>
    vms().map((vm): Value => [vmInfo(vm), 1]),
  );
  const names = ['name', 'namespace'];
  gauge('vm_create_date_timestamp_seconds', 'Virtual Machine creation timestamp.', names, () =>
    vms().flatMap((vm) => seconds(nameOf(vm), vm.metadata.creationTimestamp)),
  );
  for (const group of Object.keys(statusGroups)) {
    const help = `Virtual Machine last transition timestamp to ${group.replace('_', '-')} status; 0 in another one.`;
    gauge(`vm_${group}_status_last_transition_timestamp_seconds`, help, names, () =>
      vms().map((vm): Value => [nameOf(vm), (groupOf(vm) ?? 'error') === group ? lastTransition(vm) : 0]),
    );
  }
}

function vmiInfo(vmi: VirtualMachineInstance, objects: CountedObjects): Record<string, string> {
  const { metadata, status } = vmi;
  const noted = metadata.annotations ?? {};
  const named = (...keys: string[]) => (keys.some((key) => noted[`kubevirt.io/${key}`] !== undefined) ? other : none);
  const guest = (field: string) => textOf(memberAt(status, 'guestOSInfo', field));
  const pods = objects.podsOf(metadata.uid ?? '');
  const pod = pods.find(({ spec, status: now }) => now?.phase === 'Running' && spec.nodeName === status?.nodeName);
  return {
    ...placeOf(vmi),
    phase: (status?.phase ?? '').toLowerCase(),
    ...systemOf(noted),
    instance_type: named('instancetype-name', 'cluster-instancetype-name'),
    preference: named('preference-name', 'cluster-preference-name'),
    guest_os_kernel_release: guest('kernelRelease'),
    guest_os_machine: textOf(memberAt(status, 'machine', 'type')),
    guest_os_arch: guest('machine'),
    guest_os_name: guest('name'),
    guest_os_version_id: guest('versionId'),
    evictable: String(isEvictable(vmi, objects)),
    outdated: String(metadata.labels?.[labels.outdatedLauncherImage] !== undefined),
    vmi_pod: pod?.metadata.name ?? none,
  };
}

function vmInfo(vm: VirtualMachine): Record<string, string> {
  const status = vm.status?.printableStatus ?? '';
  const { template } = vm.spec as { template?: unknown };
  const noted = (memberAt(template, 'metadata', 'annotations') ?? {}) as Record<string, string>;
  return {
    ...nameOf(vm),
    ...systemOf(noted),
    machine_type: textOf(memberAt(template, 'spec', 'domain', 'machine', 'type')) || none,
    instance_type: memberAt(vm.spec, 'instancetype') ? other : none,
    preference: memberAt(vm.spec, 'preference') ? other : none,
    status: status.toLowerCase(),
    status_group: groupOf(vm) ?? '<unknown>',
  };
}

/** Undefined: a status that none of them has; its time counts as that of an error. */
function groupOf({ status }: VirtualMachine): string | undefined {
  const printed = status?.printableStatus ?? '';
  return Object.entries(statusGroups).find(([, statuses]) => statuses.includes(printed))?.[0];
}

function lastTransition({ status }: VirtualMachine): number {
  const times = (status?.conditions ?? [])
    .filter(({ type }) => timedConditions.includes(type))
    .map(({ lastTransitionTime }) => Date.parse(lastTransitionTime ?? '') / 1000);
  return Math.max(-1, ...times.filter(Number.isFinite));
}

/** Written by templates of virtual machines. */
function systemOf(noted: Readonly<Record<string, string>>) {
  const of = (name: string) => textOf(noted[`vm.kubevirt.io/${name}`]) || none;
  return { os: of('os'), workload: of('workload'), flavor: of('flavor') };
}

function isEvictable(vmi: VirtualMachineInstance, { evictionStrategy }: CountedObjects): boolean {
  if ((vmi.spec.evictionStrategy ?? evictionStrategy()) !== 'LiveMigrate') return true;
  const migratable = findCondition(vmi.status?.conditions, 'LiveMigratable');
  // Not said yet counts as no: alerts look at it.
  return migratable !== undefined && migratable.status !== 'False';
}

function isOutdated({ status }: VirtualMachineInstance, launcherImage: string): boolean {
  const image = status?.launcherContainerImageVersion;
  return status?.phase === 'Running' && Boolean(image) && image !== launcherImage;
}

function placeOf({ metadata: { namespace = '', name }, status }: VirtualMachineInstance) {
  return { node: status?.nodeName ?? '', namespace, name };
}

const nameOf = ({ metadata: { name, namespace = '' } }: VirtualMachine) => ({ name, namespace });

function seconds(given: Readonly<Record<string, string>>, time: string | null | undefined): Value[] {
  const at = Date.parse(time ?? '') / 1000;
  return Number.isFinite(at) ? [[given, at]] : [];
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function clipped(given: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value.slice(0, longestLabel)]));
}
