import { memoryOverheadBytes, parseQuantity, type Quantity, type VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { addDevices, deviceClaims } from './devices.ts';
import { PodRenderError } from './errors.ts';

export interface PodResources {
  readonly requests: Record<string, Quantity>;
  readonly limits: Record<string, Quantity>;
  /** Of drivers that give out devices. */
  readonly claims: readonly { readonly name: string; readonly request?: string }[];
  readonly overheadBytes: number;
}

/** Requests and limits of `compute` (upstream: pkg/virt-controller/services/renderresources.go). The VMI's own values win. Throws PodRenderError. */
export function renderResources(vmi: VirtualMachineInstance, config: ControllerConfig): PodResources {
  const { domain } = vmi.spec;
  const requests: Record<string, Quantity> = { ...domain.resources?.requests };
  const limits: Record<string, Quantity> = { ...domain.resources?.limits };
  const guestBytes = bytesOf(domain.memory?.guest, 'domain.memory.guest');
  const pageBytes = bytesOf(domain.memory?.hugepages?.pageSize, 'domain.memory.hugepages.pageSize');
  const baseBytes =
    bytesOf(requests.memory, 'domain.resources.requests.memory') ??
    bytesOf(limits.memory, 'domain.resources.limits.memory') ??
    ((guestBytes ?? pageBytes ?? 0) * 100) / config.memoryOvercommitPercent;
  const overheadBytes =
    memoryOverheadBytes(vmi, { baseBytes, ratio: config.overheadRatio }) + bindingBytes(vmi, config);
  setMemory(vmi, { requests, limits, baseBytes, guestBytes: guestBytes ?? baseBytes, overheadBytes });
  setCpu(vmi, config, requests, limits);
  addEphemeralStorage(requests, limits);
  addDevices(vmi, config, { requests, limits });
  return { requests, limits, claims: deviceClaims(vmi, config), overheadBytes };
}

/** What network plug-ins need in the launcher, once each. */
function bindingBytes({ spec }: VirtualMachineInstance, { networkBindings }: ControllerConfig): number {
  const names = new Set((spec.domain.devices?.interfaces ?? []).map(({ binding }) => binding?.name ?? ''));
  const plugins = [...names].map((name) => (Object.hasOwn(networkBindings, name) ? networkBindings[name] : undefined));
  return plugins.reduce((sum, plugin) => sum + (parseQuantity(plugin?.memoryRequest) ?? 0), 0);
}

/** Cores × sockets × threads, where 0 and absent count as 1. */
function vcpus(vmi: VirtualMachineInstance): number {
  const { cores, sockets, threads } = vmi.spec.domain.cpu ?? {};
  return (cores || 1) * (sockets || 1) * (threads || 1);
}

interface MemoryFacts {
  readonly requests: Record<string, Quantity>;
  readonly limits: Record<string, Quantity>;
  readonly baseBytes: number;
  readonly guestBytes: number;
  readonly overheadBytes: number;
}

function setMemory(vmi: VirtualMachineInstance, facts: MemoryFacts): void {
  const { requests, limits, baseBytes, guestBytes, overheadBytes } = facts;
  const { resources, memory } = vmi.spec.domain;
  const limitBytes = bytesOf(limits.memory, 'domain.resources.limits.memory');
  const pageSize = memory?.hugepages?.pageSize;
  if (pageSize) {
    const name = `hugepages-${pageSize}`;
    requests[name] = bytes(Math.min(baseBytes, guestBytes));
    limits[name] = requests[name];
    requests.memory = bytes(overheadBytes + Math.max(0, baseBytes - guestBytes));
    if (limitBytes !== undefined) limits.memory = bytes(overheadBytes + Math.max(0, limitBytes - guestBytes));
    return;
  }
  requests.memory = bytes(baseBytes + (resources?.overcommitGuestOverhead ? 0 : overheadBytes));
  if (limitBytes !== undefined) limits.memory = bytes(limitBytes + overheadBytes);
}

function setCpu(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  requests: Record<string, Quantity>,
  limits: Record<string, Quantity>,
): void {
  const { cpu, ioThreads } = vmi.spec.domain;
  const threads = vcpus(vmi) + (ioThreads?.supplementalPoolThreadCount ?? 0);
  if (cpu?.dedicatedCpuPlacement) {
    requests.cpu = String(threads + emulatorCpus(vmi, threads));
    limits.cpu = requests.cpu;
    limits.memory = requests.memory ?? 0;
    return;
  }
  requests.cpu ??= limits.cpu ?? `${Math.ceil((threads * 1000) / config.cpuAllocationRatio)}m`;
}

/** One of its own for QEMU's other threads, or two where siblings of one core must not be shared with another pod. */
function emulatorCpus({ metadata, spec }: VirtualMachineInstance, threads: number): number {
  if (!spec.domain.cpu?.isolateEmulatorThread) return 0;
  const isEven = metadata.annotations?.['alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity'] !== undefined;
  return isEven && threads % 2 === 0 ? 2 : 1;
}

function addEphemeralStorage(requests: Record<string, Quantity>, limits: Record<string, Quantity>): void {
  const ownBytes = 50e6;
  const name = 'ephemeral-storage';
  requests[name] = bytes((bytesOf(requests[name], name) ?? 0) + ownBytes);
  const limitBytes = bytesOf(limits[name], name);
  if (limitBytes !== undefined) limits[name] = bytes(limitBytes + ownBytes);
}

function bytesOf(quantity: Quantity | undefined, what: string): number | undefined {
  if (quantity === undefined) return undefined;
  const value = parseQuantity(quantity);
  if (value === undefined || value < 0) {
    throw new PodRenderError('BAD_QUANTITY', `${what}: ${JSON.stringify(quantity)} is no quantity (try "512Mi")`);
  }
  return value;
}

function bytes(value: number): string {
  return String(Math.ceil(value));
}
