import { readdirSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';

/** The usual `process_*`, and what `go_*` is for Go: heap and event loop. prom-client's own set costs a timer every 10 ms. */
export function addProcessMetrics(registry: Registry, program: 'virt_handler' | 'virt_controller'): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number | undefined) =>
    new Gauge({
      ...{ name, help, registers },
      collect() {
        const value = read();
        if (value !== undefined) this.set(value);
      },
    });
  const counter = (name: string, help: string, read: () => number) =>
    new Counter({
      ...{ name, help, registers },
      collect() {
        this.reset();
        this.inc(Math.max(0, read()));
      },
    });
  counter('process_cpu_user_seconds_total', 'CPU time in user mode.', () => process.cpuUsage().user / 1e6);
  counter('process_cpu_system_seconds_total', 'CPU time in system mode.', () => process.cpuUsage().system / 1e6);
  counter('process_cpu_seconds_total', 'CPU time.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  const startSeconds = Math.round(performance.timeOrigin) / 1000;
  gauge('process_start_time_seconds', 'When the process began.', () => startSeconds);
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
  gauge('process_virtual_memory_bytes', 'Virtual memory.', virtualBytes);
  // As Go's collector writes "unlimited".
  gauge('process_virtual_memory_max_bytes', 'Most virtual memory.', () => limitOf('Max address space') ?? 2 ** 64);
  counter('process_network_receive_bytes_total', 'Bytes that this network namespace received.', () =>
    networkBytes('InOctets'),
  );
  counter('process_network_transmit_bytes_total', 'Bytes that this network namespace sent.', () =>
    networkBytes('OutOctets'),
  );
  gauge('process_open_fds', 'Open files.', openFiles);
  gauge('process_max_fds', 'Most files that may be open.', () => limitOf('Max open files'));
  gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed);
  gauge('nodejs_heap_size_total_bytes', 'Heap.', () => process.memoryUsage().heapTotal);
  gauge('nodejs_external_memory_bytes', 'Memory outside of the heap.', () => process.memoryUsage().external);
  const loop = () => performance.eventLoopUtilization();
  counter(
    `kubevirt_${program}_event_loop_active_seconds_total`,
    'Time the event loop worked.',
    () => loop().active / 1e3,
  );
  counter(`kubevirt_${program}_event_loop_idle_seconds_total`, 'Time the event loop waited.', () => loop().idle / 1e3);
}

/** The call that lists them opens one more. */
function openFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
}

/** Soft; undefined: there is none, or it cannot be read. */
function limitOf(name: string): number | undefined {
  const [, soft] = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(textOf('/proc/self/limits')) ?? [];
  return soft === undefined ? undefined : Number(soft);
}

function virtualBytes(): number | undefined {
  const [, kibibytes] = /^VmSize:\s+(\d+)/m.exec(textOf('/proc/self/status')) ?? [];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

/** As Go's collector: octets of IPv4 in this network namespace. */
function networkBytes(column: 'InOctets' | 'OutOctets'): number {
  const [names = '', values = ''] = [...textOf('/proc/self/net/netstat').matchAll(/^IpExt: (.*)$/gm)].map(
    ([, row = '']) => row,
  );
  return Number(values.split(' ')[names.split(' ').indexOf(column)] ?? 0);
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
