import path from 'node:path';
import { type VirtualMachineInstance, vfioDevices } from '../../api/index.ts';
import { isLibvirtError } from '../../libvirt/index.ts';
import { launchSecurityKind, launchSecurityNeeds } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';

/** What of the node an answer may need. */
export interface NodeWords {
  /** Machine types that QEMU has here; empty: nobody could be asked. */
  readonly machineTypes: readonly string[];
}

interface Cause {
  readonly pattern: RegExp;
  /** Whether the VMI asks for what the text may be about; without it any does. */
  readonly applies?: (vmi: VirtualMachineInstance) => boolean;
  readonly words: (match: RegExpExecArray, vmi: VirtualMachineInstance, node: NodeWords) => string;
}

const cpu = 'spec.domain.cpu';
const machineDevices = 'spec.domain.devices (gpus, hostDevices, interfaces with sriov)';
const anotherCpu = 'choose another model, host-model, or a node that has it';

const imageLock = /Failed to get (?:shared )?"?(?:write|consistent read|resize)"? lock/;

/**
 * What libvirt (9 to 11) and QEMU (7 to 10) say when a guest cannot be defined or started because of what its VMI asks for. Texts are all
 * there is: libvirt's numbers of errors are the same for most of them.
 */
const causes: readonly Cause[] = [
  {
    pattern:
      /launch security|launchSecurity|\/dev\/sev|\bSEV\b|\bsev_|\bTDX\b|KVM_TDX|\btdx|s390-pv|protected virtualization/,
    applies: (vmi) => launchSecurityKind(vmi) !== undefined,
    words: (_match, vmi) => {
      const kind = launchSecurityKind(vmi) ?? 'sev';
      const field = kind === 'secure-execution' ? '' : `.${kind}`;
      return `spec.domain.launchSecurity${field}: ${launchSecurityNeeds[kind]}`;
    },
  },
  {
    pattern: /does not support machine type '(.{1,80}?)'|No PCI buses available/,
    words: (match, vmi, { machineTypes }) => {
      const there = match[1] === undefined ? '' : thereAre(machineTypes);
      return `spec.domain.machine.type: QEMU on this node has no machine type ${quoted(vmi.spec.domain.machine?.type)} for these devices${there}: use q35, or leave it out`;
    },
  },
  {
    pattern: /Attempted double use of PCI Address '?([0-9a-f:.]{4,20})/i,
    words: ([, address = ''], vmi) => doubleUse(address, vmi),
  },
  {
    pattern: /TPM version '(.{1,20}?)' is not supported|Unable to find 'swtpm/,
    words: () =>
      'spec.domain.devices.tpm: there is no swtpm where the guest runs: install swtpm and swtpm-tools there, or remove the TPM',
  },
  {
    pattern: /host doesn't support hyperv '(.{1,40}?)' feature/,
    words: ([, name]) =>
      `spec.domain.features.hyperv.${name}: this machine cannot give a guest that: it needs hardware virtualization (KVM); remove it`,
  },
  {
    pattern: /kernel doesn't allow setting HyperV (\w{1,40})|Hyper-V (.{1,60}?) is not supported by kernel/,
    words: ([, setting, feature]) =>
      `spec.domain.features.hyperv: this machine cannot give a guest ${setting ?? feature}: it needs hardware virtualization (KVM); remove what asks for it`,
  },
  {
    pattern: /IOThread mapping for disk .{1,80} is not available/,
    words: () =>
      'spec.domain.ioThreadsPolicy supplementalPool: disks share a pool of threads since QEMU 9, and this one is older: use "auto" or "shared"',
  },
  {
    pattern: /Unknown CPU model (\S{1,60})/i,
    words: ([, model]) => `${cpu}.model: there is no CPU model ${quoted(model)} here: ${anotherCpu}`,
  },
  {
    pattern: /CPU mode '(.{1,40}?)' for .{1,80} is not supported by hypervisor/,
    words: ([, mode]) =>
      `${cpu}.model: ${mode} needs hardware virtualization (KVM), and this guest is emulated: leave the model out`,
  },
  {
    pattern: /unknown CPU feature:? '?(\S{1,60}?)'?(?:$|[\s',])/i,
    words: ([, name]) => `${cpu}.features: there is no CPU feature ${quoted(name)}: remove it`,
  },
  {
    pattern:
      /(?:Host CPU does not provide required features|guest CPU doesn't match specification: missing features|extra features): ([\w., -]{1,200})/,
    words: ([, names]) => `${cpu}: the CPU here differs in ${names}: ${anotherCpu}`,
  },
  {
    pattern: /CPU is incompatible with host CPU|guest CPU doesn't match specification/,
    words: () => `${cpu}: the CPU of this node is another one: ${anotherCpu}`,
  },
  {
    pattern: /host doesn't support (?:passthrough of host PCI devices|VFIO PCI)/,
    words: () =>
      `${machineDevices}: this node cannot give a guest a PCI or mediated device: it needs an IOMMU that is switched on (intel_iommu=on or amd_iommu=on, and in the firmware), and the module vfio-pci`,
  },
  {
    pattern:
      /(?:VFIO_MAP_DMA|vfio_dma_map|vfio_listener_region_add).{0,200}Cannot allocate memory|cannot limit locked memory/i,
    applies: (vmi) => vfioDevices(vmi) > 0,
    words: () =>
      `${machineDevices}: QEMU may not lock the guest's memory, which the device reaches by itself: look at the node agent, which sets the limit, or set spec.domain.memory.reservedOverhead.addedOverhead`,
  },
  {
    pattern:
      /(?:failed to open|[Cc]ould not open|open) '?\/dev\/vfio\/([\w/]{0,40})|vfio.{0,80}group (\w{1,20}) is not viable/,
    words: ([, file, group]) =>
      `${machineDevices}: the guest cannot have VFIO group ${file || group || ''}: all devices of an IOMMU group must be bound to vfio-pci, and no other guest may have one of them`,
  },
  {
    pattern:
      /mediated device '?([\w-]{1,60})'? (?:not found|is in use)|(?:PCI device|Device) (\S{1,40}) not found|PCI device (\S{1,40}) is in use/,
    applies: (vmi) => vfioDevices(vmi) > 0,
    words: ([, ...names]) =>
      `${machineDevices}: the device ${names.find(Boolean)} is not on this node any more, or another guest has it: look at the device plug-in that gave it out`,
  },
  {
    pattern: /Did not find USB device (\S{1,40})|USB device.{0,40}not found/,
    words: ([, name]) =>
      `spec.domain.devices.hostDevices: the USB device ${name ?? ''} is not plugged in any more: plug it in again, or remove it`,
  },
  {
    pattern: /[Uu]nknown acpi table type:? '?msdm|Invalid value for attribute 'type' in element 'table': 'msdm'/,
    words: () =>
      'spec.domain.firmware.acpi.msdmNameRef: this libvirt takes no MSDM table: use libvirt 11.2 or newer, or remove it',
  },
  {
    pattern: /Maximum CPUs greater than specified machine type limit (\d{1,6})|[Uu]nsupported number of .{0,20}CPUs/,
    words: ([, limit]) =>
      `${cpu}: more CPUs than a guest of this machine type can have${limit ? ` (${limit})` : ''}: ask for fewer sockets, cores or threads`,
  },
  {
    pattern: imageLock,
    applies: (vmi) => volumesOfOneImage(vmi).length > 0,
    words: (_match, vmi) =>
      `volumes ${volumesOfOneImage(vmi).join(' and ')} of this VM are one image: remove all but one, or name another image or claim in the others`,
  },
  {
    pattern: imageLock,
    words: (match, vmi) =>
      `${volumeIn(match.input, vmi)}: another guest or program uses the image: stop it, or mark the disk as shareable where the guests' file systems can share one`,
  },
  {
    pattern: /(?:Cannot access storage file|[Cc]ould not open|failed to open) '?.{1,200}?'?: No such file or directory/,
    words: (match, vmi) => `${volumeIn(match.input, vmi)}: its file is not there any more: look at the volume`,
  },
  {
    pattern: /Image is not in qcow2 format|Image is corrupt|qcow2: .{1,80}(?:corrupt|invalid)/i,
    words: (match, vmi) =>
      `${volumeIn(match.input, vmi)}: the image is damaged: check it (qemu-img check), or bring another one`,
  },
  {
    pattern: /hugetlbfs|[Hh]uge ?pages?|backing store for guest RAM/,
    applies: ({ spec }) => spec.domain.memory?.hugepages !== undefined,
    words: () =>
      'spec.domain.memory.hugepages: the node has no free huge pages of this size: reserve some (vm.nr_hugepages), or remove hugepages',
  },
  {
    pattern:
      /(?:cannot set up guest memory .{1,80}|backing store for guest RAM): Cannot allocate memory|phys-bits too low/,
    words: () => 'spec.domain.memory.guest: the node has not so much memory: ask for less, or stop other guests',
  },
  {
    pattern: /No space left on device/,
    words: () => 'there is no space left where the guest keeps its files: free some on the node',
  },
  {
    pattern: /open.{0,80}\/dev\/vhost-vsock/,
    words: () => 'spec.domain.devices.autoattachVSOCK: the node has no /dev/vhost-vsock: load the module vhost_vsock',
  },
  {
    pattern: /KVM is not available|Could not access KVM kernel module|failed to initialize kvm/i,
    words: () =>
      'the node has no usable KVM: allow emulation (developerConfiguration.useEmulation in the KubeVirt object), or use another node',
  },
];

/** Of the causes the first one that fits; nothing that another program wrote makes a regular expression slow. */
const longestText = 4_096;

/** The error of a define or start in words that name the field and what to do; what is not known stays as it is. */
export function inOurWords(
  error: unknown,
  vmi: VirtualMachineInstance,
  node: NodeWords = { machineTypes: [] },
): unknown {
  if (!isLibvirtError(error)) return error;
  const text = error.message.slice(0, longestText);
  for (const { pattern, applies, words } of causes) {
    const match = applies === undefined || applies(vmi) ? pattern.exec(text) : null;
    if (match) return new LauncherError('START_FAILED', words(match, vmi, node), { cause: error });
  }
  return error;
}

/** About a machine type that QEMU has not: what there is has to be asked for. */
export function isAboutMachines(error: unknown): boolean {
  return isLibvirtError(error) && error.message.includes('does not support machine type');
}

const maxMachines = 40;

/** The newest first, and names that stand for one of them before those. */
function thereAre(types: readonly string[]): string {
  if (types.length === 0) return '';
  const isAlias = (type: string) => !/\d$/.test(type) || type === 'q35';
  const sorted = [...types].sort(
    (a, b) => Number(isAlias(b)) - Number(isAlias(a)) || b.localeCompare(a, 'en', { numeric: true }),
  );
  const more = sorted.length > maxMachines ? `, and ${sorted.length - maxMachines} more` : '';
  return ` (there are ${sorted.slice(0, maxMachines).join(', ')}${more})`;
}

/** Fields that ask for it; a device that asks for none may have it, too. */
function doubleUse(address: string, { spec }: VirtualMachineInstance): string {
  const { disks = [], interfaces = [] } = spec.domain.devices ?? {};
  const fields = [
    ...disks.map(({ name, disk }) => [`disks[${name}].disk.pciAddress`, disk?.pciAddress] as const),
    ...interfaces.map(({ name, pciAddress }) => [`interfaces[${name}].pciAddress`, pciAddress] as const),
  ]
    .filter(([, asked]) => asked?.toLowerCase() === address.toLowerCase())
    .map(([field]) => `spec.domain.devices.${field}`);
  const cure = 'choose another one, or leave it out: an address is found then';
  if (fields.length > 1) return `${fields.join(' and ')}: both ask for the PCI address ${address}: ${cure}`;
  const [field = 'spec.domain.devices'] = fields;
  return `${field}: another device of the guest has the PCI address ${address}: ${cure}`;
}

const quoted = (value: unknown) => JSON.stringify(value ?? '');

/** Of the paths in the text the directory of a file is a volume's name in most of the pod's, its own name in the others. */
function volumeIn(text: string, { spec }: VirtualMachineInstance): string {
  const names = (text.match(/\/[\w./-]+/g) ?? []).flatMap((found) => {
    const file = path.parse(found);
    return [path.basename(file.dir), file.name];
  });
  const known = names.find((name) => spec.volumes?.some((volume) => volume.name === name));
  return known === undefined ? 'a volume' : `volume ${known}`;
}

/** Names of the volumes by which this VM has one image more than once; empty: there are none. */
function volumesOfOneImage({ spec, status }: VirtualMachineInstance): readonly string[] {
  const byImage = new Map<string, string[]>();
  for (const { name, persistentVolumeClaim, dataVolume, hostDisk } of spec.volumes ?? []) {
    // The agent writes claims with a file system as host disks, each with a path of its own; the status keeps their names.
    const told = status?.volumeStatus?.find((each) => each.name === name)?.persistentVolumeClaimInfo?.claimName;
    const claim = told ?? persistentVolumeClaim?.claimName ?? dataVolume?.name;
    const image = claim === undefined ? hostDisk && `file ${hostDisk.path}` : `claim ${claim}`;
    if (image !== undefined) byImage.set(image, [...(byImage.get(image) ?? []), name]);
  }
  return [...byImage.values()].find(({ length }) => length > 1) ?? [];
}
