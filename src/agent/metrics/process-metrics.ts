import { readdirSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';

/** The usual `process_*`, and what `go_*` is for Go: heap and event loop. prom-client's own set costs a timer every 10 ms. */
export function addProcessMetrics(registry: Registry): void {
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
  gauge('process_open_fds', 'Open files.', openFiles);
  gauge('process_max_fds', 'Most files that may be open.', maxFiles);
  gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed);
  gauge('nodejs_heap_size_total_bytes', 'Heap.', () => process.memoryUsage().heapTotal);
  gauge('nodejs_external_memory_bytes', 'Memory outside of the heap.', () => process.memoryUsage().external);
  const loop = () => performance.eventLoopUtilization();
  counter(
    'kubevirt_virt_handler_event_loop_active_seconds_total',
    'Time the event loop worked.',
    () => loop().active / 1e3,
  );
  counter(
    'kubevirt_virt_handler_event_loop_idle_seconds_total',
    'Time the event loop waited.',
    () => loop().idle / 1e3,
  );
}

/** The call that lists them opens one more. */
function openFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
}

function maxFiles(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
