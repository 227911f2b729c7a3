import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Meters } from '../../../../../src/agent/serve/metrics/index.ts';
import { OwnMetrics } from '../../../../../src/agent/serve/metrics/own-metrics.ts';
import { packLines } from '../../../../../src/agent/serve/metrics/packed-lines.ts';
import { vmExposition } from '../../../../../src/agent/serve/metrics/vm-exposition.ts';
import { bareVmLabels, vmLabels } from '../../../../../src/agent/serve/metrics/vm-labels.ts';
import {
  dirtyRateLines,
  filesystemLines,
  migrationLines,
  statsLines,
} from '../../../../../src/agent/serve/metrics/vm-lines.ts';
import { silentLogger, systemClock } from '../../../../../src/base/index.ts';
import { Scrapes } from '../../../../../src/serving/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { quietFigures } from '../../../../fixtures/agent-figures.ts';
import { domainStatsJson, filesystemsJson } from '../../../../fixtures/domain-stats.ts';

/** Every family that upstream's agent v1.9.0 serves: name, type, labels. `VM` and `<bare>` as below. */
const upstreams = `
kubevirt_virt_handler_ready_status gauge
kubevirt_info gauge goversion kubeversion
kubevirt_node_deprecated_machine_types gauge machine_type node
kubevirt_vmi_guest_os_panic_total counter namespace name type bugcheck_code
kubevirt_vmi_sync_total counter namespace name
kubevirt_rest_client_request_latency_seconds histogram verb url
kubevirt_rest_client_rate_limiter_duration_seconds histogram verb url
kubevirt_rest_client_requests_total counter code method host resource verb
kubevirt_workqueue_depth gauge name
kubevirt_workqueue_adds_total counter name
kubevirt_workqueue_queue_duration_seconds histogram name
kubevirt_workqueue_work_duration_seconds histogram name
kubevirt_workqueue_retries_total counter name
kubevirt_workqueue_longest_running_processor_seconds gauge name
kubevirt_workqueue_unfinished_work_seconds gauge name
promhttp_metric_handler_requests_total counter code
promhttp_metric_handler_requests_in_flight gauge
process_cpu_seconds_total counter
process_max_fds gauge
process_open_fds gauge
process_resident_memory_bytes gauge
process_start_time_seconds gauge
process_virtual_memory_bytes gauge
process_virtual_memory_max_bytes gauge
process_network_receive_bytes_total counter
process_network_transmit_bytes_total counter
kubevirt_vmi_cpu_usage_seconds_total counter VM
kubevirt_vmi_cpu_user_usage_seconds_total counter VM
kubevirt_vmi_cpu_system_usage_seconds_total counter VM
kubevirt_vmi_guest_load_1m gauge VM
kubevirt_vmi_guest_load_5m gauge VM
kubevirt_vmi_guest_load_15m gauge VM
kubevirt_vmi_memory_resident_bytes gauge VM
kubevirt_vmi_memory_available_bytes gauge VM
kubevirt_vmi_memory_unused_bytes gauge VM
kubevirt_vmi_memory_cached_bytes gauge VM
kubevirt_vmi_memory_swap_in_traffic_bytes gauge VM
kubevirt_vmi_memory_swap_out_traffic_bytes gauge VM
kubevirt_vmi_memory_pgmajfault_total counter VM
kubevirt_vmi_memory_pgminfault_total counter VM
kubevirt_vmi_memory_actual_balloon_bytes gauge VM
kubevirt_vmi_memory_usable_bytes gauge VM
kubevirt_vmi_memory_domain_bytes gauge VM
kubevirt_vmi_vcpu_seconds_total counter VM id state
kubevirt_vmi_vcpu_wait_seconds_total counter VM id
kubevirt_vmi_vcpu_delay_seconds_total counter VM id
kubevirt_vmi_network_traffic_bytes_total counter VM interface type
kubevirt_vmi_network_receive_bytes_total counter VM interface
kubevirt_vmi_network_transmit_bytes_total counter VM interface
kubevirt_vmi_network_receive_packets_total counter VM interface
kubevirt_vmi_network_transmit_packets_total counter VM interface
kubevirt_vmi_network_receive_errors_total counter VM interface
kubevirt_vmi_network_transmit_errors_total counter VM interface
kubevirt_vmi_network_receive_packets_dropped_total counter VM interface
kubevirt_vmi_network_transmit_packets_dropped_total counter VM interface
kubevirt_vmi_storage_iops_read_total counter VM drive
kubevirt_vmi_storage_iops_write_total counter VM drive
kubevirt_vmi_storage_read_traffic_bytes_total counter VM drive
kubevirt_vmi_storage_write_traffic_bytes_total counter VM drive
kubevirt_vmi_storage_read_times_seconds_total counter VM drive
kubevirt_vmi_storage_write_times_seconds_total counter VM drive
kubevirt_vmi_storage_flush_requests_total counter VM drive
kubevirt_vmi_storage_flush_times_seconds_total counter VM drive
kubevirt_vmi_node_cpu_affinity gauge VM
kubevirt_vmi_filesystem_capacity_bytes gauge VM disk_name mount_point file_system_type
kubevirt_vmi_filesystem_used_bytes gauge VM disk_name mount_point file_system_type
kubevirt_vmi_dirty_rate_bytes_per_second gauge VM
kubevirt_vmi_migration_data_bytes_total counter bare
kubevirt_vmi_migration_data_remaining_bytes gauge bare
kubevirt_vmi_migration_data_processed_bytes gauge bare
kubevirt_vmi_migration_dirty_memory_rate_bytes gauge bare
kubevirt_vmi_migration_memory_transfer_rate_bytes gauge bare
kubevirt_vmi_gpu_info gauge node namespace pod resource uuid
go_goroutines gauge
`
  .trim()
  .split('\n');

/** What this agent does not serve, and why. Nothing else may be missing. */
const notServed: Readonly<Record<string, string>> = {
  kubevirt_vmi_gpu_info: 'upstream tests a field that it never sets: the family never has a sample',
  go_goroutines: 'and all of go_*: there is no Go; nodejs_* instead',
};

const bare = ['node', 'namespace', 'name'];
const shorthands: Readonly<Record<string, readonly string[]>> = { bare, VM: [...bare, 'kubernetes_vmi_label_app'] };

/** Name → type and label names, as a scrape shows them. */
async function served(): Promise<Map<string, { readonly type: string; readonly labels: string[] }>> {
  const meters = new Meters();
  const own = new OwnMetrics(
    { nodeName: 'node1', kubeVersion: 'v1.9.0' },
    {
      ...{
        registry: meters.registry,
        queues: meters.queues,
        figures: quietFigures(),
        clock: systemClock,
        log: silentLogger,
      },
      deprecatedMachines: () => ['pc-old'],
    },
  );
  meters.loop.reconciled('running', 'done');
  const sent = { method: 'GET', path: '/api/v1/nodes/a', status: 200, isWatch: false, tookMs: 1 } as const;
  const requests = meters.requests.observer('api:6443');
  requests.sent(sent);
  requests.limited(sent, 1);
  const vmi = vmiOf('Running', { metadata: { labels: { app: 'shop' } } });
  const flags = ['DataTotal', 'DataRemaining', 'DataProcessed', 'MemDirtyRate', 'MemoryBps'];
  const MigrateDomainJobInfo = Object.fromEntries(
    flags.flatMap((name) => [
      [name, 1],
      [`${name}Set`, true],
    ]),
  );
  const lines = [
    statsLines(domainStatsJson(), vmLabels(vmi)) ?? new Map(),
    filesystemLines(filesystemsJson, vmLabels(vmi)),
    dirtyRateLines(1n, vmLabels(vmi)),
    migrationLines(domainStatsJson('d_v', { MigrateDomainJobInfo }), bareVmLabels(vmi)) ?? new Map(),
  ];
  const named = [
    ['namespace', 'default'],
    ['name', 'vm1'],
  ] as const;
  const counters = {
    syncs: () => [[named, 1] as const].values() as never,
    panics: () => [[[...named, ['type', 'x'], ['bugcheck_code', 'y']], 1] as const].values() as never,
  };
  const vms = [...vmExposition([{ key: 'default/vm1', lines: lines.map(packLines), sources: [] }], counters)]
    .map(String)
    .join('');
  const scrapes = new Scrapes(
    { maxRequests: 1, timeoutMs: 1_000, giveWayMs: 1_000 },
    { want: async () => undefined, own: async () => '', vms: () => [], clock: systemClock, log: silentLogger },
  );
  const text = `${await own.text()}${scrapes.ownText()}${vms}`;
  const found = new Map<string, { type: string; labels: string[] }>();
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    const sample = new RegExp(`^${name}(?:_count)?(?:\\{(.*)\\})? `, 'm').exec(text);
    assert.ok(sample, `${name} has a sample`);
    found.set(name, { type, labels: [...(sample[1] ?? '').matchAll(/(\w+)="/g)].map(([, label = '']) => label) });
  }
  return found;
}

test('every family of upstream’s agent is served with its type and its labels, or named with a reason', async () => {
  const found = await served();
  const families = upstreams.map((line) => line.split(' '));
  const afterAll = Object.keys(notServed).filter((name) => found.has(name));
  assert.deepEqual(afterAll, [], 'served after all');
  for (const [name = '', type, ...labels] of families.filter(([name = '']) => !(name in notServed))) {
    const wanted = labels.flatMap((label) => shorthands[label] ?? [label]);
    assert.deepEqual(
      { type: found.get(name)?.type, labels: found.get(name)?.labels.toSorted() },
      { type, labels: wanted.toSorted() },
      name,
    );
  }
});

test('what is served beyond upstream’s names says whose it is', async () => {
  const theirs = new Set(upstreams.map((line) => line.split(' ')[0] ?? ''));
  const others = [...(await served()).keys()].filter((name) => !theirs.has(name));
  assert.deepEqual(
    others.filter((name) => !/^(kubevirt_virt_handler_|nodejs_|process_cpu_(user|system)_seconds_total$)/.test(name)),
    [],
  );
});
