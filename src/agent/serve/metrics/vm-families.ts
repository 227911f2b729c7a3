import type { Family } from '../../../serving/index.ts';

/** What is read of DomainStats: the kind of entry, its field (whose `…Set` counts), and how its unit becomes ours. */
export interface StatsFamily extends Family {
  readonly of: 'cpu' | 'load' | 'memory' | 'vcpu' | 'net' | 'block';
  readonly field: string;
  readonly scale: number;
  /** Labels beyond those of the entry. */
  readonly extra?: string;
}

const nanoseconds = 1e-9;
const kibibytes = 1024;
const plain = 1;

type Row = readonly [name: string, type: Family['type'], field: string, scale: number, help: string, extra?: string];

function families(of: StatsFamily['of'], prefix: string, rows: readonly Row[]): StatsFamily[] {
  return rows.map(([name, type, field, scale, help, extra]) => ({
    ...{ name: `kubevirt_vmi_${prefix}${name}`, type, help, of, field, scale },
    ...(extra !== undefined && { extra }),
  }));
}

/** As in pkg/monitoring/metrics/virt-handler/domainstats, in the order in which they are written. */
export const statsFamilies: readonly StatsFamily[] = [
  ...families('cpu', 'cpu_', [
    ['usage_seconds_total', 'counter', 'Time', nanoseconds, 'CPU time of the VM, hypervisor included.'],
    ['user_usage_seconds_total', 'counter', 'User', nanoseconds, 'CPU time of the VM in user mode.'],
    ['system_usage_seconds_total', 'counter', 'System', nanoseconds, 'CPU time of the VM in system mode.'],
  ]),
  ...families('load', 'guest_load_', [
    ['1m', 'gauge', 'Load1m', plain, 'Load average of the guest over one minute, by its guest agent.'],
    ['5m', 'gauge', 'Load5m', plain, 'Load average of the guest over five minutes, by its guest agent.'],
    ['15m', 'gauge', 'Load15m', plain, 'Load average of the guest over fifteen minutes, by its guest agent.'],
  ]),
  ...families('memory', 'memory_', [
    ['resident_bytes', 'gauge', 'RSS', kibibytes, 'Memory of the node that the VM process uses.'],
    ['available_bytes', 'gauge', 'Available', kibibytes, 'Memory that the guest sees.'],
    ['unused_bytes', 'gauge', 'Unused', kibibytes, 'Memory that the guest does not use at all.'],
    ['cached_bytes', 'gauge', 'Cached', kibibytes, 'Memory of the guest that caches files and can be had back.'],
    ['swap_in_traffic_bytes', 'gauge', 'SwapIn', kibibytes, 'Memory that the guest has read back from its swap space.'],
    ['swap_out_traffic_bytes', 'gauge', 'SwapOut', kibibytes, 'Memory that the guest has written to its swap space.'],
    ['pgmajfault_total', 'counter', 'MajorFault', plain, 'Page faults of the guest that needed a disk.'],
    ['pgminfault_total', 'counter', 'MinorFault', plain, 'Page faults of the guest that needed no disk.'],
    ['actual_balloon_bytes', 'gauge', 'ActualBalloon', kibibytes, 'Memory that the balloon leaves to the guest.'],
    ['usable_bytes', 'gauge', 'Usable', kibibytes, 'Memory that the guest could use without swapping.'],
    ['domain_bytes', 'gauge', 'Total', kibibytes, 'Memory that the domain has.'],
  ]),
  ...families('vcpu', 'vcpu_', [
    ['seconds_total', 'counter', 'Time', nanoseconds, 'Time of each virtual CPU, with the state that it is in now.'],
    ['wait_seconds_total', 'counter', 'Wait', nanoseconds, 'Time that each virtual CPU waited for input or output.'],
    [
      'delay_seconds_total',
      'counter',
      'Delay',
      nanoseconds,
      'Time that each virtual CPU waited for a CPU of the node.',
    ],
  ]),
  ...families('net', 'network_', [
    ['traffic_bytes_total', 'counter', 'RxBytes', plain, 'Deprecated: bytes by direction.', 'type="rx"'],
    ['traffic_bytes_total', 'counter', 'TxBytes', plain, 'Deprecated: bytes by direction.', 'type="tx"'],
    ['receive_bytes_total', 'counter', 'RxBytes', plain, 'Bytes that the VM received.'],
    ['transmit_bytes_total', 'counter', 'TxBytes', plain, 'Bytes that the VM sent.'],
    ['receive_packets_total', 'counter', 'RxPkts', plain, 'Packets that the VM received.'],
    ['transmit_packets_total', 'counter', 'TxPkts', plain, 'Packets that the VM sent.'],
    ['receive_errors_total', 'counter', 'RxErrs', plain, 'Errors in receiving.'],
    ['transmit_errors_total', 'counter', 'TxErrs', plain, 'Errors in sending.'],
    ['receive_packets_dropped_total', 'counter', 'RxDrop', plain, 'Packets dropped in receiving.'],
    ['transmit_packets_dropped_total', 'counter', 'TxDrop', plain, 'Packets dropped in sending.'],
  ]),
  ...families('block', 'storage_', [
    ['iops_read_total', 'counter', 'RdReqs', plain, 'Reads of the drive.'],
    ['iops_write_total', 'counter', 'WrReqs', plain, 'Writes of the drive.'],
    ['read_traffic_bytes_total', 'counter', 'RdBytes', plain, 'Bytes read from the drive.'],
    ['write_traffic_bytes_total', 'counter', 'WrBytes', plain, 'Bytes written to the drive.'],
    ['read_times_seconds_total', 'counter', 'RdTimes', nanoseconds, 'Time that reads took.'],
    ['write_times_seconds_total', 'counter', 'WrTimes', nanoseconds, 'Time that writes took.'],
    ['flush_requests_total', 'counter', 'FlReqs', plain, 'Flushes of the drive.'],
    ['flush_times_seconds_total', 'counter', 'FlTimes', nanoseconds, 'Time that flushes took.'],
  ]),
];

const gauge = (name: string, help: string): Family => ({ name, type: 'gauge', help });
const counter = (name: string, help: string): Family => ({ name, type: 'counter', help });

export const affinityFamily = gauge(
  'kubevirt_vmi_node_cpu_affinity',
  'Pairs of a virtual CPU and a CPU of the node that it may run on.',
);
export const capacityFamily = gauge('kubevirt_vmi_filesystem_capacity_bytes', 'Size of a file system in the guest.');
export const usedFamily = gauge('kubevirt_vmi_filesystem_used_bytes', 'Used bytes of a file system in the guest.');
/** As in pkg/monitoring/metrics/virt-handler/migrationdomainstats, by the field of MigrateDomainJobInfo. */
export const migrationFamilies: Readonly<Record<string, Family>> = {
  DataTotal: counter('kubevirt_vmi_migration_data_bytes_total', 'Data of the guest that its migration has to move.'),
  DataRemaining: gauge('kubevirt_vmi_migration_data_remaining_bytes', 'Data that its migration has yet to move.'),
  DataProcessed: gauge('kubevirt_vmi_migration_data_processed_bytes', 'Data that its migration has moved.'),
  MemDirtyRate: gauge(
    'kubevirt_vmi_migration_dirty_memory_rate_bytes',
    'Memory that the guest changes while it is migrated.',
  ),
  MemoryBps: gauge('kubevirt_vmi_migration_memory_transfer_rate_bytes', 'Memory that its migration moves per second.'),
};
export const dirtyRateFamily = gauge(
  'kubevirt_vmi_dirty_rate_bytes_per_second',
  'Memory that the guest changes per second; measured once a minute.',
);
export const syncFamily = counter('kubevirt_vmi_sync_total', 'Changes of the VMI that this agent wrote.');
export const panicFamily = counter('kubevirt_vmi_guest_os_panic_total', 'Panics of the guest system.');
export const sampleAgeFamily = gauge(
  'kubevirt_virt_handler_vm_sample_age_seconds',
  'How old the figures of a VM are; source is stats, filesystems, dirty-rate or migration.',
);
export const sampleErrorsFamily = counter(
  'kubevirt_virt_handler_vm_sample_errors_total',
  'Times that a VM gave no figures: its launcher hangs, refuses or answers nonsense.',
);

/** All families of samples, each once: an answer has one block for each, whatever VM has it. */
export const sampledFamilies: readonly Family[] = [
  ...new Map([...statsFamilies].map((family) => [family.name, family])).values(),
  affinityFamily,
  capacityFamily,
  usedFamily,
  dirtyRateFamily,
  ...Object.values(migrationFamilies),
];
