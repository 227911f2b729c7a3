import type { VirtualMachineInstance } from '../../api/index.ts';
import { type JsonShape, shapedJson } from '../../base/index.ts';
import { invalid } from './errors.ts';

/**
 * The types of the fields that are read on the way from a VMI to its domain, as in upstream's `api/core/v1/schema.go`. A stock
 * agent can send nothing else; here a wrong one is refused in words before it would break the conversion in the middle.
 */

const text = 'string';
const flag = 'boolean';
const quantity = 'string or number';
const texts = (...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, text] as const));
const flags = (...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, flag] as const));
const numbers = (...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 'number'] as const));
const objects = (...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 'object'] as const));
const object = (members: Readonly<Record<string, JsonShape>>): JsonShape => ({ members });
const named = (members: Readonly<Record<string, JsonShape>>): JsonShape => ({
  list: { members: { name: text, ...members }, required: ['name'] },
});

const feature = object(flags('enabled'));

const diskTarget = object({ ...texts('bus', 'tray', 'pciAddress'), ...flags('readonly', 'reservation') });

const disks = named({
  ...texts('serial', 'tag', 'cache', 'io', 'errorPolicy'),
  ...flags('dedicatedIOThread', 'shareable'),
  bootOrder: 'number',
  disk: diskTarget,
  lun: diskTarget,
  cdrom: diskTarget,
  blockSize: object({ custom: object(numbers('logical', 'physical', 'discardGranularity')), matchVolume: feature }),
});

const interfaces = named({
  ...texts('model', 'macAddress', 'pciAddress', 'state', 'tag'),
  ...numbers('bootOrder', 'acpiIndex'),
  ...objects('bridge', 'masquerade', 'sriov', 'passtBinding', 'binding', 'slirp', 'macvtap', 'passt'),
  ports: { list: object({ ...texts('name', 'protocol'), port: 'number' }) },
  dhcpOptions: object({
    ...texts('bootFileName', 'tftpServerName'),
    ntpServers: { list: text },
    privateOptions: { list: object({ option: 'number', value: text }) },
  }),
});

const machineDevices = named({
  ...texts('deviceName', 'claimName', 'requestName', 'tag'),
  virtualGPUOptions: object({ display: object({ enabled: flag, ramFB: feature }) }),
});

const devices = object({
  disks,
  interfaces,
  ...flags('autoattachPodInterface', 'autoattachGraphicsDevice', 'autoattachSerialConsole', 'autoattachMemBalloon'),
  ...flags('autoattachInputDevice', 'autoattachVSOCK', 'logSerialConsole', 'disableHotplug', 'blockMultiQueue'),
  ...flags('networkInterfaceMultiqueue', 'useVirtioTransitional'),
  ...objects('rng', 'downwardMetrics', 'clientPassthrough'),
  inputs: named(texts('type', 'bus')),
  watchdog: object({ name: text, i6300esb: object({ action: text }), diag288: object({ action: text }) }),
  tpm: object(flags('enabled', 'persistent')),
  video: object({ type: text }),
  sound: object(texts('name', 'model')),
  panicDevices: { list: object({ model: text }) },
  gpus: machineDevices,
  hostDevices: machineDevices,
  filesystems: named({}),
});

const cpu = object({
  ...numbers('cores', 'sockets', 'threads', 'maxSockets'),
  ...flags('dedicatedCpuPlacement', 'isolateEmulatorThread'),
  model: text,
  features: named({ policy: text }),
  numa: object({ guestMappingPassthrough: 'object' }),
  realtime: object({ mask: text }),
});

const firmware = object({
  ...texts('uuid', 'serial'),
  bootloader: object({ bios: object(flags('useSerial')), efi: object(flags('secureBoot', 'persistent')) }),
  kernelBoot: object({ kernelArgs: text, container: object(texts('image', 'kernelPath', 'initrdPath')) }),
  acpi: object(texts('slicNameRef', 'msdmNameRef')),
});

const hyperv: JsonShape = {
  map: object({ enabled: flag, spinlocks: 'number', vendorid: text, direct: feature, extended: feature }),
};

const domain = object({
  resources: object({ requests: { map: quantity }, limits: { map: quantity } }),
  cpu,
  memory: object({ guest: quantity, maxGuest: quantity, hugepages: object({ pageSize: text }) }),
  machine: object({ type: text }),
  firmware,
  clock: object({
    utc: object({ offsetSeconds: 'number' }),
    timezone: text,
    timer: { map: object({ present: flag, ...texts('tickPolicy', 'track') }) },
  }),
  features: object({
    acpi: feature,
    apic: object(flags('enabled', 'endOfInterrupt')),
    kvm: object(flags('hidden')),
    pvspinlock: feature,
    smm: feature,
    hypervPassthrough: feature,
    hyperv,
  }),
  chassis: { map: text },
  ...texts('ioThreadsPolicy', 'rebootPolicy'),
  launchSecurity: object({
    sev: object({
      policy: object(flags('encryptedState')),
      ...texts('session', 'dhCert'),
      attestation: 'object',
    }),
    ...objects('snp', 'tdx'),
  }),
  devices,
});

const cloudInit = object({
  ...texts('userData', 'userDataBase64', 'networkData', 'networkDataBase64'),
  ...objects('secretRef', 'networkDataSecretRef'),
});
const claim = object({ claimName: text, ...flags('readOnly', 'hotpluggable') });
const labelled = object({ volumeLabel: text, optional: flag });

const volumes = named({
  containerDisk: object(texts('image', 'path')),
  cloudInitNoCloud: cloudInit,
  cloudInitConfigDrive: cloudInit,
  emptyDisk: object({ capacity: quantity }),
  hostDisk: object({ ...texts('path', 'type'), capacity: quantity }),
  persistentVolumeClaim: claim,
  dataVolume: object({ name: text, ...flags('hotpluggable') }),
  ephemeral: object({ persistentVolumeClaim: claim }),
  configMap: labelled,
  secret: labelled,
  downwardAPI: labelled,
  ...objects('serviceAccount', 'sysprep', 'downwardMetrics', 'memoryDump', 'containerPath'),
});

const networks = named({
  pod: object(texts('vmNetworkCIDR', 'vmIPv6NetworkCIDR')),
  multus: object({ networkName: text, default: flag }),
  resourceClaim: object(texts('claimName', 'requestName')),
});

const accessCredentials: JsonShape = {
  list: object({
    sshPublicKey: object({
      source: object({ secret: object(texts('secretName')) }),
      propagationMethod: 'object',
    }),
  }),
};

const vmi: JsonShape = {
  members: {
    metadata: object({ ...texts('name', 'namespace', 'uid'), annotations: { map: text } }),
    spec: {
      members: {
        ...texts('architecture', 'startStrategy', 'hostname', 'subdomain'),
        terminationGracePeriodSeconds: 'number',
        domain,
        volumes,
        networks,
        resourceClaims: named(texts('resourceClaimName', 'resourceClaimTemplateName')),
        accessCredentials,
      },
      required: ['domain'],
    },
    status: object({
      interfaces: { list: object(texts('name', 'podInterfaceName', 'infoSource')) },
      volumeStatus: {
        list: object({
          ...texts('name', 'target', 'phase'),
          hotplugVolume: 'object',
          persistentVolumeClaimInfo: object({
            filesystemOverhead: text,
            capacity: { map: quantity },
            requests: { map: quantity },
          }),
        }),
      },
      migrationState: object({ ...texts('startTimestamp', 'endTimestamp'), ...flags('completed', 'failed') }),
      VSOCKCID: 'number',
    }),
  },
  required: ['metadata', 'spec'],
};

/** The VMI without members that are null. Throws `ConvertError` INVALID_FIELD for a field of another type. */
export function shapedVmi(value: VirtualMachineInstance): VirtualMachineInstance {
  const shaped = shapedJson(value, vmi, '', (path, problem) => invalid(path.replace(/^\./, '') || 'the VMI', problem));
  return shaped as VirtualMachineInstance;
}
