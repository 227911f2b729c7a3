import { readDomainStats } from '../../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../../base/index.ts';
import type { HostFigures } from './host-figures.ts';

/** What launchers say of a running VM. */
export interface VmFigures {
  readonly cpuSeconds: number;
  readonly onlineVcpus: number;
  readonly balloonKib: number;
}

type Value = { readonly type: 'int64' | 'uint64' | 'real64' | 'string'; readonly text: string };

/** `libvirt.VCPU_OFFLINE` */
const offline = 0;

/** When they cannot be had: the guest's tools print the comments (pkg/downwardmetrics/virtio-serial/server.go). */
export const noFigures = '<metrics><!-- host metrics not available --><!-- VM metrics not available --></metrics>';

/** Of DomainStats (pkg/virt-launcher/virtwrap/stats/types.go). Undefined: the VM is vanishing. Throws for what is no such text. */
export function vmFigures(json: string): VmFigures | undefined {
  const stats = readDomainStats(json);
  if (!stats) return undefined;
  const vcpus = listOf(stats.Vcpu).filter(isRecord);
  return {
    cpuSeconds: vcpus.reduce((sum, { Time }) => sum + figure(Time), 0) / 1e9,
    onlineVcpus: vcpus.filter(({ State, StateSet }) => StateSet === true && State !== offline).length,
    balloonKib: figure(memberAt(stats, 'Memory', 'ActualBalloon')),
  };
}

function figure(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}

export interface Report {
  readonly nodeName: string;
  /** As the launcher names it. */
  readonly hypervisor: string;
  readonly vm: VmFigures;
  readonly host: HostFigures;
  readonly nowMs: number;
}

/** The document of pkg/downwardmetrics/scraper, in its order and its form. */
export function reportXml({ nodeName, hypervisor, vm, host, nowMs }: Report): string {
  const lines = [
    metric('host', 'HostName', string(nodeName)),
    metric('host', 'HostSystemInfo', string('linux')),
    metric('host', 'VirtualizationVendor', string('kubevirt.io')),
    metric('host', 'VirtProductInfo', string(hypervisor)),
    metric('vm', 'TotalCPUTime', real64(vm.cpuSeconds), 's'),
    metric('vm', 'ResourceProcessorLimit', int64(vm.onlineVcpus)),
    metric('vm', 'PhysicalMemoryAllocatedToVirtualSystem', uint64(vm.balloonKib), 'KiB'),
    metric('vm', 'ResourceMemoryLimit', uint64(vm.balloonKib), 'KiB'),
    ...hostMetrics(host),
    metric('host', 'Time', int64(Math.floor(nowMs / 1000)), 's'),
  ];
  return `<metrics>\n${lines.join('\n')}\n</metrics>`;
}

/** What the machine does not give is left out, as upstream does. */
function hostMetrics({ cpus, cpuSeconds, memory, swapped }: HostFigures): string[] {
  const kib = (name: string, value: number) => metric('host', name, uint64(value), 'KiB');
  return [
    ...(cpus === undefined ? [] : [metric('host', 'NumberOfPhysicalCPUs', int64(cpus))]),
    ...(cpuSeconds === undefined ? [] : [metric('host', 'TotalCPUTime', real64(cpuSeconds), 's')]),
    ...(memory
      ? [
          kib('FreePhysicalMemory', memory.free),
          kib('FreeVirtualMemory', memory.freeVirtual),
          kib('MemoryAllocatedToVirtualServers', memory.used),
          kib('UsedVirtualMemory', memory.usedVirtual),
        ]
      : []),
    ...(swapped ? [kib('PagedInMemory', swapped.inKib), kib('PagedOutMemory', swapped.outKib)] : []),
  ];
}

const string = (text: string): Value => ({ type: 'string', text });
const real64 = (value: number): Value => ({ type: 'real64', text: value.toFixed(6) });
const int64 = (value: number): Value => ({ type: 'int64', text: String(Math.floor(value)) });
/** Differences may go below zero on a machine that changes while it is read: upstream's then wrap to a huge number. */
const uint64 = (value: number): Value => ({ type: 'uint64', text: String(Math.max(0, Math.floor(value))) });

function metric(context: 'host' | 'vm', name: string, { type, text }: Value, unit?: string): string {
  const unitText = unit === undefined ? '' : ` unit="${unit}"`;
  return `  <metric type="${type}" context="${context}"${unitText}>
    <name>${name}</name>
    <value>${escaped(text)}</value>
  </metric>`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

/** Names of nodes and versions; control characters have no place in XML. */
function escaped(text: string): string {
  return [...text]
    .map((character) => entities[character] ?? ((character.codePointAt(0) ?? 0) < 0x20 ? '\uFFFD' : character))
    .join('');
}
