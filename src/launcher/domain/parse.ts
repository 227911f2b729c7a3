import type { DomainSpec } from '../../api/index.ts';
import { parseDevices } from './parse-devices.ts';
import { child, childrenOf, childText, parseXml, type XmlNode } from './xml.ts';

/**
 * The `Spec` of Domain JSON without the launcher's metadata: what libvirt's XML says, with every key of `DomainSpec` in
 * upstream's `api/schema.go`.
 */
export interface ParsedDomainSpec
  extends Pick<DomainSpec, 'Type' | 'Name' | 'UUID' | 'OS' | 'Features' | 'CurrentMemory' | 'Devices'> {
  readonly [key: string]: unknown;
}

/** Reads libvirt's domain XML (`virDomainGetXMLDesc`). Throws `ConvertError` BAD_XML. */
export function parseDomainXml(xml: string): ParsedDomainSpec {
  return specOf(parseXml(xml, 'domain'));
}

/** The spec of a domain whose XML libvirt cannot give now. */
export function emptyDomainSpec(name: string): ParsedDomainSpec {
  const nothing: XmlNode = { name: 'domain', attributes: {}, text: '', children: [] };
  return { ...specOf(nothing), Name: name };
}

/**
 * Keys that are null here hold parts no reader of Domain JSON uses; Go decodes null into any type, so they cannot break a
 * stock agent.
 */
function specOf(domain: XmlNode): ParsedDomainSpec {
  return {
    Type: domain.attributes.type ?? '',
    XmlNS: '',
    Name: childText(domain, 'name'),
    UUID: childText(domain, 'uuid'),
    Memory: memoryOf(child(domain, 'memory')) ?? { Value: 0, Unit: '' },
    CurrentMemory: currentMemoryOf(domain),
    MaxMemory: null,
    MemoryBacking: null,
    OS: osOf(child(domain, 'os')),
    SysInfo: null,
    Devices: parseDevices(child(domain, 'devices')),
    Clock: null,
    Resource: null,
    QEMUCmd: null,
    Features: featuresOf(child(domain, 'features')),
    CPU: cpuOf(child(domain, 'cpu')),
    VCPU: vcpuOf(child(domain, 'vcpu')),
    VCPUs: null,
    CPUTune: cpuTuneOf(child(domain, 'cputune')),
    NUMATune: null,
    IOThreads: null,
    LaunchSecurity: null,
    OnReboot: null,
    IOMMUFD: null,
  };
}

/** libvirt's unit is KiB when it is not said. */
function memoryOf(node: XmlNode | undefined): { Value: number; Unit: string } | null {
  if (!node) return null;
  return { Value: wholeNumber(node.text), Unit: node.attributes.unit ?? 'KiB' };
}

/**
 * What the guest has. With virtio-mem it is counted here: libvirt adds to `currentMemory` what a device has taken since it was last
 * looked at, and looks at it silently when it plugs it in (qemuDomainAttachMemory, seen in 9.0). What a quick guest has taken by then
 * is missing for good. `memory` has all sizes in it, and nobody inflates the balloon of a pod's guest.
 */
function currentMemoryOf(domain: XmlNode): { Value: number; Unit: string } | null {
  const said = memoryOf(child(domain, 'currentMemory'));
  const all = memoryOf(child(domain, 'memory'));
  const devices = child(domain, 'devices');
  const targets = devices ? childrenOf(devices, 'memory').filter(isVirtioMem).map(sizesOf) : [];
  const read = [said, all, ...targets.flatMap(({ size, current }) => [size, current])];
  if (!said || !all || targets.length === 0 || read.some((each) => each?.Unit !== 'KiB')) return said;
  const missing = targets.reduce((sum, { size, current }) => sum + (size?.Value ?? 0) - (current?.Value ?? 0), 0);
  return { Value: Math.max(0, all.Value - missing), Unit: 'KiB' };
}

const isVirtioMem = ({ attributes }: XmlNode) => attributes.model === 'virtio-mem';

function sizesOf(device: XmlNode) {
  const target = child(device, 'target');
  const of = (name: string) => memoryOf(target && child(target, name));
  return { size: of('size'), current: of('current') };
}

/** Go reads these as unsigned integers: nothing else may be written. */
function wholeNumber(text: string | undefined): number {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : 0;
}

function osOf(os: XmlNode | undefined): ParsedDomainSpec['OS'] {
  const type = os && child(os, 'type');
  return {
    Type: { OS: type?.text ?? '', Arch: type?.attributes.arch ?? '', Machine: type?.attributes.machine ?? '' },
    SMBios: null,
    BootOrder: null,
    BootMenu: null,
    BIOS: null,
    Kernel: os ? childText(os, 'kernel') : '',
    Initrd: os ? childText(os, 'initrd') : '',
    KernelArgs: os ? childText(os, 'cmdline') : '',
    BootLoader: null,
    NVRam: null,
    ACPI: null,
  };
}

function featuresOf(features: XmlNode | undefined): ParsedDomainSpec['Features'] {
  if (!features) return null;
  return {
    ACPI: child(features, 'acpi') ? {} : null,
    APIC: null,
    Hyperv: null,
    SMM: null,
    KVM: null,
    PVSpinlock: null,
    PMU: null,
    VMPort: null,
  };
}

function cpuOf(cpu: XmlNode | undefined): object {
  const topology = cpu && child(cpu, 'topology');
  return {
    Mode: cpu?.attributes.mode ?? '',
    Model: cpu ? childText(cpu, 'model') : '',
    Features: null,
    Topology: topology
      ? {
          Sockets: wholeNumber(topology.attributes.sockets),
          Cores: wholeNumber(topology.attributes.cores),
          Threads: wholeNumber(topology.attributes.threads),
        }
      : null,
    NUMA: null,
  };
}

function vcpuOf(vcpu: XmlNode | undefined): object | null {
  if (!vcpu) return null;
  return { Placement: vcpu.attributes.placement ?? '', CPUs: wholeNumber(vcpu.text) };
}

/** The agent keeps the emulator's threads on the CPUs that are said here. */
function cpuTuneOf(tune: XmlNode | undefined): object | null {
  if (!tune) return null;
  const pins = (name: string) => childrenOf(tune, name).map(({ attributes }) => attributes);
  const [emulator] = pins('emulatorpin');
  const ioThreads = pins('iothreadpin').map(({ iothread, cpuset = '' }) => ({
    IOThread: wholeNumber(iothread),
    CPUSet: cpuset,
  }));
  return {
    VCPUPin: pins('vcpupin').map(({ vcpu, cpuset = '' }) => ({ VCPU: wholeNumber(vcpu), CPUSet: cpuset })),
    IOThreadPin: ioThreads.length > 0 ? ioThreads : null,
    EmulatorPin: emulator ? { CPUSet: emulator.cpuset ?? '' } : null,
  };
}
