import {
  type Disk,
  type DomainSpecInput,
  fillHyperv,
  fillRoom,
  parseQuantity,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

/** The defaults of upstream's webhook (pkg/defaults/defaults.go) that a node builds on. Changes `vmi`; doing it again changes nothing. */
export function fillDefaults(vmi: VirtualMachineInstance, config: ControllerConfig, randomUuid: () => string): void {
  const { spec } = vmi;
  spec.domain ??= {};
  const { domain } = spec;
  spec.architecture ??= config.architecture;
  if (config.evictionStrategy) spec.evictionStrategy ??= config.evictionStrategy;
  if (!domain.machine?.type) domain.machine = { ...domain.machine, type: config.machineType };
  fillCpu(domain, config);
  fillMemory(domain);
  fillHyperv(domain);
  domain.firmware = { ...domain.firmware, uuid: domain.firmware?.uuid ?? randomUuid() };
  fillNetwork(vmi, config);
  fillDisks(vmi);
  fillPullPolicies(vmi);
  fillRoom(spec, config);
}

function fillCpu(domain: DomainSpecInput, config: ControllerConfig): void {
  const cpu = { ...domain.cpu };
  if (!cpu.cores && !cpu.sockets && !cpu.threads) {
    const asked = domain.resources?.limits?.cpu ?? domain.resources?.requests?.cpu;
    cpu.sockets = Math.max(1, Math.ceil(parseQuantity(asked) ?? 1));
    cpu.cores = 1;
    cpu.threads = 1;
  }
  cpu.model ||= config.cpuModel;
  domain.cpu = cpu;
}

function fillMemory(domain: DomainSpecInput): void {
  const { requests, limits } = domain.resources ?? {};
  const guest =
    domain.memory?.guest ?? requests?.memory ?? limits?.memory ?? domain.memory?.hugepages?.pageSize ?? undefined;
  if (guest !== undefined) domain.memory = { ...domain.memory, guest };
}

function fillNetwork({ spec }: VirtualMachineInstance, config: ControllerConfig): void {
  const devices = { ...spec.domain.devices };
  spec.domain.devices = devices;
  const hasNetwork = (spec.networks?.length ?? 0) > 0 || (devices.interfaces?.length ?? 0) > 0;
  if (hasNetwork || devices.autoattachPodInterface === false) return;
  devices.interfaces = [{ name: 'default', [config.defaultInterfaceBinding]: {} }];
  spec.networks = [{ name: 'default', pod: {} }];
}

function fillDisks({ spec }: VirtualMachineInstance): void {
  const { devices = {} } = spec.domain;
  const disks = [...(devices.disks ?? [])];
  const used = new Set([...disks, ...(devices.filesystems ?? [])].map(({ name }) => name));
  // Where the guest's memory is written to is no disk of it.
  const wanted = (spec.volumes ?? []).filter(({ memoryDump }) => memoryDump === undefined);
  for (const { name } of wanted) if (!used.has(name)) disks.push({ name });
  if (disks.length === 0) return;
  devices.disks = disks.map((disk) => withTarget(disk, spec.architecture === 'amd64' ? 'sata' : 'virtio'));
}

function withTarget(disk: Disk, bus: 'sata' | 'virtio'): Disk {
  if (disk.cdrom) return { ...disk, cdrom: { readonly: true, tray: 'closed', bus, ...disk.cdrom } };
  if (disk.lun) return { ...disk, lun: { bus, ...disk.lun } };
  return { ...disk, disk: { bus, ...disk.disk } };
}

function fillPullPolicies({ spec }: VirtualMachineInstance): void {
  const sources = [
    ...(spec.volumes ?? []).map(({ containerDisk }) => containerDisk),
    spec.domain.firmware?.kernelBoot?.container,
  ];
  for (const source of sources) if (source) source.imagePullPolicy ??= pullPolicy(source.image);
}

/** As upstream: the port of a registry counts as a tag. */
function pullPolicy(image: string): string {
  const isLatest = image.endsWith(':latest') || (!image.includes(':') && !image.includes('@'));
  return isLatest ? 'Always' : 'IfNotPresent';
}
