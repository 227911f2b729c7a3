import { fillHyperv, fillRoom, parseQuantity, type VmiSpec } from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import type { AdmissionContext } from '../api-type.ts';
import { at, ensureObject, type JsonObject, objectsAt, stringAt } from '../object.ts';

const machineTypes = { amd64: 'q35', arm64: 'virt', s390x: 's390-ccw-virtio' } as const;

/**
 * What upstream's webhook fills into a new VMI's spec (`pkg/virt-api/webhooks/mutating-webhook/mutators`, as far as a node needs it). Changes `spec`. Running it again
 * changes nothing, so that a manifest may be applied twice; `oldSpec` keeps what was random.
 */
export function fillVmiSpec(spec: JsonObject, oldSpec: unknown, context: AdmissionContext): void {
  const domain = ensureObject(spec, 'domain');
  const { cluster } = context;
  spec.architecture ??= cluster.architecture;
  const architecture = spec.architecture as keyof typeof machineTypes;
  if (cluster.evictionStrategy !== undefined) spec.evictionStrategy ??= cluster.evictionStrategy;
  const machineType = cluster.machineType ?? machineTypes[architecture];
  const machine = ensureObject(domain, 'machine');
  if (!machine.type && machineType) machine.type = machineType;
  fillCpu(domain, architecture, context);
  fillMemory(domain);
  if (oldSpec === undefined || isHypervWritten(domain, oldSpec)) fillHyperv(domain);
  const firmware = ensureObject(domain, 'firmware');
  firmware.uuid ??= stringAt(oldSpec, 'domain', 'firmware', 'uuid') ?? context.randomUuid();
  if (architecture === 'arm64') firmware.bootloader ??= { efi: { secureBoot: false } };
  fillNetwork(spec, domain, context);
  fillDisks(spec, domain, architecture);
  if (oldSpec !== undefined) keepRoom(domain, oldSpec);
  // The shape of the spec has been checked.
  else if (cluster.liveUpdate) fillRoom(spec as unknown as VmiSpec, cluster.liveUpdate);
  fillPullPolicies(spec, firmware);
}

function fillCpu(domain: JsonObject, architecture: string, { cluster }: AdmissionContext): void {
  const cpu = ensureObject(domain, 'cpu');
  if (!cpu.cores && !cpu.sockets && !cpu.threads) {
    const asked = at(domain, 'resources', 'limits', 'cpu') ?? at(domain, 'resources', 'requests', 'cpu');
    const count = parseQuantity(asked as string | number | undefined);
    cpu.sockets = Math.max(1, Math.ceil(count ?? 1));
    cpu.cores = 1;
    cpu.threads = 1;
  }
  if (!cpu.model) cpu.model = cluster.cpuModel ?? (architecture === 'arm64' ? 'host-passthrough' : 'host-model');
}

/** A write that says the same of it, such as one of the status, changes no guest that was made before there was this filling. */
function isHypervWritten(domain: JsonObject, oldSpec: unknown): boolean {
  const written = [
    ['features', 'hyperv'],
    ['cpu', 'features'],
  ];
  return written.some((path) => !sameJson(at(domain, ...path), at(oldSpec, 'domain', ...path)));
}

function fillMemory(domain: JsonObject): void {
  if (at(domain, 'memory', 'guest') !== undefined && at(domain, 'memory', 'guest') !== null) return;
  const found =
    at(domain, 'resources', 'requests', 'memory') ??
    at(domain, 'resources', 'limits', 'memory') ??
    at(domain, 'memory', 'hugepages', 'pageSize');
  if (found !== undefined) ensureObject(domain, 'memory').guest = found;
}

/** Room for more CPUs and memory is part of the machine that the guest was started with: a manifest that is applied again takes none away. */
function keepRoom(domain: JsonObject, oldSpec: unknown): void {
  for (const [part, field] of [
    ['cpu', 'maxSockets'],
    ['memory', 'maxGuest'],
  ] as const) {
    const had = at(oldSpec, 'domain', part, field);
    if (had !== undefined) ensureObject(domain, part)[field] ??= had;
  }
}

function fillNetwork(spec: JsonObject, domain: JsonObject, { cluster }: AdmissionContext): void {
  const devices = ensureObject(domain, 'devices');
  const hasNetwork = objectsAt(spec, 'networks').length > 0 || objectsAt(devices, 'interfaces').length > 0;
  if (hasNetwork || devices.autoattachPodInterface === false) return;
  devices.interfaces = [{ name: 'default', [cluster.networkBinding]: {} }];
  spec.networks = [{ name: 'default', pod: {} }];
}

function fillDisks(spec: JsonObject, domain: JsonObject, architecture: string): void {
  const devices = ensureObject(domain, 'devices');
  const disks = objectsAt(devices, 'disks');
  const used = new Set([...disks, ...objectsAt(devices, 'filesystems')].map(({ name }) => name));
  // Where the guest's memory is written to is no disk of it.
  const wanted = objectsAt(spec, 'volumes').filter(({ memoryDump }) => memoryDump === undefined);
  for (const { name } of wanted) if (!used.has(name)) disks.push({ name });
  if (disks.length > 0) devices.disks = disks;
  const bus = architecture === 'amd64' ? 'sata' : 'virtio';
  for (const disk of disks) {
    const kind = ['disk', 'lun', 'cdrom'].find((name) => isRecord(disk[name])) ?? 'disk';
    const target = ensureObject(disk, kind);
    target.bus ??= bus;
    if (kind !== 'cdrom') continue;
    target.readonly ??= true;
    target.tray ??= 'closed';
  }
}

function fillPullPolicies(spec: JsonObject, firmware: JsonObject): void {
  const disks = objectsAt(spec, 'volumes').map((volume) => volume.containerDisk);
  for (const source of [...disks, at(firmware, 'kernelBoot', 'container')]) {
    if (isRecord(source) && typeof source.image === 'string') source.imagePullPolicy ??= pullPolicy(source.image);
  }
}

/** As upstream: only a missing tag and `:latest` are pulled each time; the port of a registry counts as a tag. */
function pullPolicy(image: string): string {
  const isLatest = image.endsWith(':latest') || (!image.includes(':') && !image.includes('@'));
  return isLatest ? 'Always' : 'IfNotPresent';
}
