import type { Departure } from '../fixtures/domain-differences.ts';

const any = '*';

/** Where this launcher's domain is another one than upstream's, and why. */
export const departures: readonly Departure[] = [
  // Written earlier, or by someone else.
  { path: 'domain.uuid', ours: any, why: 'libvirt takes it from the SMBIOS entry, which is the same' },
  { path: 'domain.metadata.kubevirt.uid', theirs: '', ours: any, why: 'virsh shows whose domain it is' },
  { path: 'domain.currentMemory', ours: any, why: 'what libvirt makes of none: the memory at start' },
  { path: 'domain.currentMemory@unit', ours: 'b', why: 'the same' },
  { path: 'domain.vcpu@current', ours: any, why: 'the number of those that the list of vCPUs enables' },
  {
    path: 'domain.devices.controller[pci *]@*',
    ours: any,
    why: 'root ports to plug into are written at once; upstream defines a domain three times to get them',
  },
  { path: 'domain.devices.controller.order', theirs: any, ours: any, why: 'the same' },
  ...['mac@address', 'mtu@size', 'target@dev', 'target@managed'].map((path) => ({
    path: `domain.devices.interface[*].${path}`,
    ours: any,
    why: 'of the device in the pod: upstream writes it just before the start',
  })),
  // Empty elements, of which libvirt takes no notice.
  ...['sysinfo.baseBoard', 'sysinfo.bios', 'sysinfo.chassis', 'devices.interface[*].source'].map((path) => ({
    path: `domain.${path}`,
    theirs: '',
    why: 'says nothing',
  })),
  { path: 'domain.devices.disk[ua-drive].source', theirs: '', why: 'an empty drive has no source' },
  {
    path: 'domain.devices.hostdev[*].source.address@type',
    theirs: 'pci',
    why: 'libvirt takes no notice of it, and its own schema refuses it',
  },
  // Other words for the same.
  { path: 'domain.features.smm', theirs: '', why: 'on is what it says' },
  { path: 'domain.features.smm@state', ours: 'on', why: 'the same; and Secure Boot brings it along' },
  { path: 'domain.features.smm@state', ours: 'off', why: 'what is switched off stays so, whatever the firmware wants' },
  { path: 'domain.features.hyperv@mode', ours: 'custom', why: 'the default, said' },
  { path: 'domain.features.hyperv', theirs: '', cases: /hyperv nothing/, why: 'the same' },
  {
    path: 'domain.features.hyperv.spinlocks@retries',
    theirs: '8191',
    cases: /spinlocks off/,
    why: 'of what is switched off nothing counts',
  },
  { path: 'domain.clock@offset', theirs: 'utc', ours: 'variable', why: 'what libvirt makes of a number' },
  { path: 'domain.clock@basis', ours: 'utc', why: 'the same' },
  { path: 'domain.clock@offset', ours: 'utc', cases: /timer alone|TSC frequency/, why: 'libvirt wants one' },
  { path: 'domain.cpu.feature[*]@policy', ours: 'require', why: 'the default, said' },
  {
    path: 'domain.devices.disk[*].backingStore.backingStore',
    ours: '',
    why: 'ends the chain: nothing is opened that an image names',
  },
  { path: 'domain.devices.disk[*].source@name', theirs: 'root', why: 'block devices have none; libvirt drops it' },
  { path: 'domain.devices.disk[*].backingStore.source@name', theirs: 'root', why: 'the same' },
  { path: 'domain.devices.filesystem@accessMode', theirs: 'passthrough', why: 'libvirt writes it in small letters' },
  { path: 'domain.devices.filesystem@accessmode', ours: 'passthrough', why: 'the same' },
  { path: 'domain.devices.filesystem.source@dir', theirs: '', why: 'the socket is its source' },
  {
    path: 'domain.devices.disk[*].address@*',
    ours: any,
    cases: /cdrom.bus scsi/,
    why: 'a CD-ROM has its place as every disk has',
  },
  // No effect on what a CD-ROM or a file of 4 kB does.
  {
    path: 'domain.devices.disk[*].driver@discard',
    theirs: 'unmap',
    cases: /cdrom|CD-ROM|many kinds/,
    why: 'nothing is written to a CD-ROM',
  },
  { path: 'domain.devices.disk[*].driver@discard', ours: 'unmap', cases: /downwardMetrics/, why: 'QEMU only reads it' },
  // Meant.
  {
    path: 'domain.devices.disk[*].driver@iothread',
    theirs: any,
    ours: any,
    cases: /ioThreads.auto/,
    why: 'twice as many threads as the guest has CPUs; upstream looks at the request',
  },
  { path: 'domain.iothreads', theirs: any, ours: any, cases: /ioThreads.auto/, why: 'the same' },
  {
    path: 'domain.cputune.iothreadpin*',
    ours: any,
    cases: /beside the emulator/,
    why: 'upstream pins the first of them alone',
  },
  {
    path: 'domain.cpu@mode',
    theirs: 'host-passthrough',
    ours: 'maximum',
    cases: /emulated/,
    why: 'emulation has no CPU to pass through',
  },
  {
    path: 'domain.cpu.topology@sockets',
    theirs: '256',
    ours: '127',
    cases: /cpu.many/,
    why: 'more than 255 CPUs need an IOMMU: libvirt refuses them',
  },
  { path: 'domain.vcpu', theirs: '512', ours: '254', cases: /cpu.many/, why: 'the same' },
  { path: 'domain.vcpus.vcpu.order', theirs: any, ours: any, cases: /cpu.many/, why: 'the same' },
  { path: 'domain.vcpus.vcpu[*]@*', theirs: any, cases: /cpu.many/, why: 'the same' },
  { path: 'domain.vcpus.vcpu.order', theirs: '0 1', cases: /equal to sockets/, why: 'nothing can be plugged' },
  { path: 'domain.vcpus.vcpu[*]@*', theirs: any, cases: /equal to sockets/, why: 'the same' },
  { path: 'domain.maxMemory@slots', theirs: '0', ours: '1', why: 'libvirt before 10 refuses 0' },
  {
    path: 'domain.cpu.numa.cell[0]@*',
    ours: any,
    cases: /(^| )memory/,
    why: 'libvirt before 10 refuses memory that grows without a cell',
  },
  { path: 'domain.cpu.numa.cell[0]@cpus', theirs: '0-0', ours: '0', why: 'the same CPU' },
  { path: 'domain.memoryBacking.hugepages', theirs: '', why: "the machine's default size may be another one" },
  { path: 'domain.memoryBacking.hugepages.page@size', ours: '2097152', why: 'the same' },
  { path: 'domain.memoryBacking.hugepages.page@unit', ours: 'b', why: 'the same' },
  {
    path: 'domain.os.loader',
    theirs: '/usr/share/OVMF/OVMF_CODE.secboot.fd',
    ours: '/usr/share/OVMF/OVMF_CODE.fd',
    why: 'a build for Secure Boot may insist on SMM: it is taken when there is no other',
  },
  { path: 'domain.features.apic', theirs: '', cases: /endOfInterrupt/, why: 'upstream drops endOfInterrupt' },
  { path: 'domain.features.apic@eoi', ours: 'on', why: 'the same' },
  {
    path: 'domain.devices.controller[virtio-serial 0]@*',
    ours: any,
    cases: /autoattachSerialConsole/,
    why: 'the channel of the guest agent needs it, of the model of the others',
  },
  {
    path: 'domain.devices.controller[usb 0]@model',
    theirs: 'none',
    ours: 'qemu-xhci',
    cases: /autoattachInputDevice/,
    why: 'upstream adds the input to VMIs of VMs alone',
  },
  { path: 'domain.devices.input[ua-default-0]*@*', ours: any, cases: /autoattachInputDevice/, why: 'the same' },
  {
    path: 'domain.devices.hostdev[ua-gpu-vgpu]@*',
    theirs: 'on',
    cases: /without a screen/,
    why: 'there is no screen to show: libvirt refuses it',
  },
  {
    path: 'domain.devices.hostdev[ua-usb-host-desk-2]*',
    ours: any,
    cases: /belong together/,
    why: 'upstream gives the first of devices that one resource gives out together',
  },
  { path: 'domain.devices.hostdev.order', ours: any, cases: /belong together/, why: 'the same' },
  { path: 'domain.devices.disk[*].serial', ours: 'CD1', cases: /CD-ROM/, why: 'upstream drops it' },
  {
    path: 'domain.devices.disk[*].readonly',
    ours: '',
    cases: /persistentVolumeClaim.readOnly/,
    why: 'QEMU cannot open it for writing',
  },
  {
    path: 'domain.devices.disk[*].driver@cache',
    theirs: 'writethrough',
    ours: 'none',
    cases: /ephemeral on a block device/,
    why: 'upstream tries direct I/O on a file without a name',
  },
  {
    path: 'domain.devices.interface[*].mac@address',
    theirs: '02-00-00-AA-00-01',
    ours: '02:00:00:aa:00:01',
    why: 'as libvirt gives it back',
  },
  {
    path: 'domain.devices.interface[*].rom@enabled',
    ours: 'no',
    cases: /passtBinding/,
    why: 'as every device that the guest does not boot from',
  },
];

/** What upstream converts and this launcher refuses in words. */
export const refusedByUs: Readonly<Record<string, { readonly message: RegExp; readonly why: string }>> = {};
