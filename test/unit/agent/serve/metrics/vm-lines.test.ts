import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statsFamilies } from '../../../../../src/agent/serve/metrics/vm-families.ts';
import {
  dirtyRateLines,
  filesystemLines,
  type Lines,
  migrationLines,
  statsLines,
} from '../../../../../src/agent/serve/metrics/vm-lines.ts';
import { domainStatsJson, filesystemsJson } from '../../../../fixtures/domain-stats.ts';

const labels = 'node="n",namespace="default",name="vm1"';

const all = (lines: Lines | undefined) => [...(lines?.values() ?? [])].join('').trimEnd().split('\n');
const without = (lines: Lines | undefined) => all(lines).map((line) => line.replace(labels, '').replace('{,', '{'));

test('every figure of DomainStats has its name and its unit', () => {
  assert.deepEqual(without(statsLines(domainStatsJson(), labels)), [
    'kubevirt_vmi_cpu_usage_seconds_total{} 12.5',
    'kubevirt_vmi_cpu_user_usage_seconds_total{} 2',
    'kubevirt_vmi_cpu_system_usage_seconds_total{} 1',
    'kubevirt_vmi_guest_load_1m{} 0.5',
    'kubevirt_vmi_guest_load_5m{} 0.25',
    'kubevirt_vmi_guest_load_15m{} 0.125',
    'kubevirt_vmi_memory_resident_bytes{} 5120',
    'kubevirt_vmi_memory_available_bytes{} 3072',
    'kubevirt_vmi_memory_unused_bytes{} 1024',
    'kubevirt_vmi_memory_cached_bytes{} 2048',
    'kubevirt_vmi_memory_swap_in_traffic_bytes{} 6144',
    'kubevirt_vmi_memory_swap_out_traffic_bytes{} 7168',
    'kubevirt_vmi_memory_pgmajfault_total{} 10',
    'kubevirt_vmi_memory_pgminfault_total{} 11',
    'kubevirt_vmi_memory_actual_balloon_bytes{} 4096',
    'kubevirt_vmi_memory_usable_bytes{} 8192',
    'kubevirt_vmi_memory_domain_bytes{} 9216',
    'kubevirt_vmi_vcpu_seconds_total{id="0",state="running"} 3',
    'kubevirt_vmi_vcpu_seconds_total{id="1",state="unknown"} 0.5',
    'kubevirt_vmi_vcpu_wait_seconds_total{id="0"} 0.001',
    'kubevirt_vmi_vcpu_delay_seconds_total{id="0"} 0.002',
    'kubevirt_vmi_network_traffic_bytes_total{interface="default",type="rx"} 100',
    'kubevirt_vmi_network_traffic_bytes_total{interface="default",type="tx"} 200',
    'kubevirt_vmi_network_receive_bytes_total{interface="default"} 100',
    'kubevirt_vmi_network_transmit_bytes_total{interface="default"} 200',
    'kubevirt_vmi_network_receive_packets_total{interface="default"} 1',
    'kubevirt_vmi_network_transmit_packets_total{interface="default"} 3',
    'kubevirt_vmi_network_receive_errors_total{interface="default"} 0',
    'kubevirt_vmi_network_transmit_errors_total{interface="default"} 0',
    'kubevirt_vmi_network_receive_packets_dropped_total{interface="default"} 2',
    'kubevirt_vmi_network_transmit_packets_dropped_total{interface="default"} 4',
    'kubevirt_vmi_storage_iops_read_total{drive="root"} 5',
    'kubevirt_vmi_storage_iops_write_total{drive="root"} 6',
    'kubevirt_vmi_storage_read_traffic_bytes_total{drive="root"} 4096',
    'kubevirt_vmi_storage_write_traffic_bytes_total{drive="root"} 8192',
    'kubevirt_vmi_storage_read_times_seconds_total{drive="root"} 0.001',
    'kubevirt_vmi_storage_write_times_seconds_total{drive="root"} 0.002',
    'kubevirt_vmi_storage_flush_requests_total{drive="root"} 7',
    'kubevirt_vmi_storage_flush_times_seconds_total{drive="root"} 0.003',
    'kubevirt_vmi_node_cpu_affinity{} 5',
  ]);
  assert.equal(new Set(statsFamilies.map(({ name }) => name)).size, 37);
});

test('a value counts only if its flag is true and it is a number', () => {
  const Cpu = { TimeSet: false, Time: 5, UserSet: true, User: 'five', SystemSet: 'true', System: 5 };
  const json = domainStatsJson('d_v', {
    Cpu,
    Memory: null,
    Vcpu: {},
    Net: 'none',
    Block: [null, 7],
    Load: [],
    CPUMap: 3,
  });
  assert.deepEqual(without(statsLines(json, labels)), ['kubevirt_vmi_node_cpu_affinity{} 0']);
});

test('a VM that is vanishing has no name and no series', () => {
  assert.equal(statsLines(domainStatsJson(''), labels), undefined);
});

test('statistics that are no object are refused', () => {
  for (const json of ['[]', 'null', '"x"', '{"Name":', '']) {
    assert.throws(() => statsLines(json, labels), SyntaxError, json);
  }
});

test('entries without a name are skipped, and of two with the same one the first counts', () => {
  const net = (Name: string, RxBytes: number, more: object = {}) => ({
    NameSet: true,
    Name,
    RxBytesSet: true,
    RxBytes,
    ...more,
  });
  const Net = [
    net('tap0', 1),
    net('tap0', 2),
    net('tap1', 3, { NameSet: false }),
    net('tap2', 4, { AliasSet: true, Alias: '' }),
  ];
  const lines = without(statsLines(domainStatsJson('d_v', { Net }), labels));
  assert.deepEqual(
    lines.filter((line) => line.includes('receive_bytes')),
    [
      'kubevirt_vmi_network_receive_bytes_total{interface="tap0"} 1',
      'kubevirt_vmi_network_receive_bytes_total{interface="tap2"} 4',
    ],
  );
});

test('what a guest names its file systems is escaped, and doubles count once', () => {
  const odd = { diskName: 'a"b', mountPoint: 'C:\\\n', fileSystemType: '', totalBytes: 10, usedBytes: 'much' };
  const json = JSON.stringify([odd, odd, 7, null]);
  assert.deepEqual(without(filesystemLines(json, labels)), [
    'kubevirt_vmi_filesystem_capacity_bytes{disk_name="a\\"b",mount_point="C:\\\\\\n"} 10',
  ]);
});

test('file systems come as a list, as an object with items, as nothing or as Go writes no list', () => {
  const used = 'kubevirt_vmi_filesystem_used_bytes{disk_name="vda1",mount_point="/",file_system_type="ext4"} 400';
  assert.equal(without(filesystemLines(filesystemsJson, labels))[1], used);
  assert.equal(without(filesystemLines(`{"items":${filesystemsJson}}`, labels))[1], used);
  for (const none of ['', 'null', '[]', '{"items":null}']) assert.equal(filesystemLines(none, labels).size, 0, none);
  assert.throws(() => filesystemLines('"x"', labels), SyntaxError);
});

test('a dirty rate becomes bytes per second', () => {
  assert.deepEqual(without(dirtyRateLines(3n, labels)), ['kubevirt_vmi_dirty_rate_bytes_per_second{} 3145728']);
});

test('what the migration’s part of DomainStats has is told, by its flags', () => {
  const job = { DataTotal: 9e9, DataProcessed: 3e9, DataRemaining: 6e9, MemoryBps: 5e8, MemDirtyRate: 7 };
  const flagged = Object.fromEntries(Object.keys(job).map((field) => [`${field}Set`, true]));
  const stats = (MigrateDomainJobInfo: unknown) => domainStatsJson('d_v', { MigrateDomainJobInfo });
  assert.deepEqual(without(migrationLines(stats({ ...job, ...flagged }), labels)), [
    'kubevirt_vmi_migration_data_bytes_total{} 9000000000',
    'kubevirt_vmi_migration_data_remaining_bytes{} 6000000000',
    'kubevirt_vmi_migration_data_processed_bytes{} 3000000000',
    'kubevirt_vmi_migration_dirty_memory_rate_bytes{} 7',
    'kubevirt_vmi_migration_memory_transfer_rate_bytes{} 500000000',
  ]);
  const half = { ...job, ...flagged, DataTotalSet: false, MemoryBps: 'much' };
  assert.equal(migrationLines(stats(half), labels)?.size, 3);
  for (const none of [null, undefined, [], 'x', {}]) assert.equal(migrationLines(stats(none), labels)?.size, 0);
  assert.equal(migrationLines(domainStatsJson(''), labels), undefined);
  assert.throws(() => migrationLines('[', labels), SyntaxError);
});

test('a guest with any number of file systems, and a launcher with megabytes to say, have a bounded number of series', () => {
  const list = Array.from({ length: 5_000 }, (_, at) => ({ mountPoint: `/${at}`, totalBytes: 1, usedBytes: 1 }));
  assert.equal(without(filesystemLines(JSON.stringify(list), labels)).length, 2 * 128);
  const huge = JSON.stringify({ Name: 'v', padding: 'x'.repeat(2_000_000) });
  for (const read of [statsLines, migrationLines, filesystemLines]) {
    assert.throws(() => read(huge, labels), /2000\d+ characters is too large/);
  }
});
