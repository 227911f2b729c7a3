import { anyObject, type FieldShape, flag, integer, listOf, mapOf, objectOf, oneOf, quantity, text } from './shape.ts';

/** The fields of a VMI whose form is checked (`staging/src/kubevirt.io/api/core/v1/schema.go`); all others are kept as they are. */

const diskTarget = objectOf({
  bus: oneOf('virtio', 'sata', 'scsi', 'usb'),
  readonly: flag,
  tray: oneOf('open', 'closed'),
  pciAddress: text,
});

const disk = objectOf(
  {
    name: text,
    disk: diskTarget,
    lun: diskTarget,
    cdrom: diskTarget,
    bootOrder: integer(1),
    serial: text,
    cache: oneOf('none', 'writethrough', 'writeback'),
    io: oneOf('native', 'threads', 'default'),
    shareable: flag,
    dedicatedIOThread: flag,
    errorPolicy: oneOf('stop', 'ignore', 'report', 'enospace'),
  },
  ['name'],
);

const port = objectOf({ port: integer(1, 65535), protocol: oneOf('TCP', 'UDP'), name: text }, ['port']);

const networkInterface = objectOf(
  {
    name: text,
    model: text,
    bridge: anyObject,
    masquerade: anyObject,
    sriov: anyObject,
    passtBinding: anyObject,
    binding: objectOf({ name: text }, ['name']),
    ports: listOf(port),
    macAddress: text,
    bootOrder: integer(1),
    acpiIndex: integer(1, 16383),
    state: oneOf('up', 'down', 'absent'),
  },
  ['name'],
);

const devices = objectOf({
  disks: listOf(disk),
  interfaces: listOf(networkInterface),
  autoattachPodInterface: flag,
  autoattachGraphicsDevice: flag,
  autoattachSerialConsole: flag,
  autoattachMemBalloon: flag,
  autoattachInputDevice: flag,
  logSerialConsole: flag,
  rng: anyObject,
  inputs: listOf(objectOf({ name: text, type: oneOf('tablet', 'keyboard'), bus: oneOf('usb', 'virtio') }, ['name'])),
  watchdog: objectOf({ name: text }, ['name']),
  filesystems: listOf(objectOf({ name: text }, ['name'])),
  hostDevices: listOf(objectOf({ name: text }, ['name'])),
  gpus: listOf(objectOf({ name: text }, ['name'])),
});

const cpu = objectOf({
  cores: integer(0, 4096),
  sockets: integer(0, 4096),
  threads: integer(0, 4096),
  maxSockets: integer(0, 4096),
  model: text,
  features: listOf(
    objectOf({ name: text, policy: oneOf('force', 'require', 'optional', 'disable', 'forbid') }, ['name']),
  ),
  dedicatedCpuPlacement: flag,
});

const kernelBoot = objectOf({
  kernelArgs: text,
  container: objectOf(
    { image: text, kernelPath: text, initrdPath: text, imagePullPolicy: oneOf('Always', 'IfNotPresent', 'Never') },
    ['image'],
  ),
});

const firmware = objectOf({
  uuid: text,
  serial: text,
  bootloader: objectOf({ bios: anyObject, efi: objectOf({ secureBoot: flag, persistent: flag }) }),
  kernelBoot,
});

const domain = objectOf({
  devices,
  cpu,
  firmware,
  memory: objectOf({ guest: quantity, maxGuest: quantity, hugepages: objectOf({ pageSize: quantity }) }),
  resources: objectOf({ requests: mapOf(quantity), limits: mapOf(quantity), overcommitGuestOverhead: flag }),
  machine: objectOf({ type: text }),
  features: anyObject,
  clock: anyObject,
});

const reference = objectOf({ name: text }, ['name']);
const cloudInit = objectOf({
  secretRef: reference,
  networkDataSecretRef: reference,
  userData: text,
  userDataBase64: text,
  networkData: text,
  networkDataBase64: text,
});
const claim = objectOf({ claimName: text, readOnly: flag, hotpluggable: flag }, ['claimName']);

const volume = objectOf(
  {
    name: text,
    containerDisk: objectOf(
      { image: text, path: text, imagePullPolicy: oneOf('Always', 'IfNotPresent', 'Never'), imagePullSecret: text },
      ['image'],
    ),
    cloudInitNoCloud: cloudInit,
    cloudInitConfigDrive: cloudInit,
    emptyDisk: objectOf({ capacity: quantity }, ['capacity']),
    hostDisk: objectOf({ path: text, type: oneOf('Disk', 'DiskOrCreate'), capacity: quantity, shared: flag }, [
      'path',
      'type',
    ]),
    persistentVolumeClaim: claim,
    dataVolume: objectOf({ name: text }, ['name']),
    ephemeral: objectOf({ persistentVolumeClaim: claim }),
    configMap: anyObject,
    secret: anyObject,
    serviceAccount: anyObject,
    downwardAPI: anyObject,
    sysprep: anyObject,
    downwardMetrics: anyObject,
    memoryDump: claim,
    containerPath: objectOf({ path: text }, ['path']),
  },
  ['name'],
);

const network = objectOf({ name: text, pod: anyObject, multus: objectOf({ networkName: text }, ['networkName']) }, [
  'name',
]);

export const vmiSpecShape: FieldShape = objectOf(
  {
    domain,
    volumes: listOf(volume),
    networks: listOf(network),
    terminationGracePeriodSeconds: integer(0),
    evictionStrategy: oneOf('None', 'LiveMigrate', 'LiveMigrateIfPossible', 'External'),
    startStrategy: oneOf('Paused'),
    architecture: oneOf('amd64', 'arm64', 's390x'),
    hostname: text,
    subdomain: text,
    nodeSelector: mapOf(text),
    tolerations: listOf(anyObject),
    affinity: anyObject,
    accessCredentials: listOf(anyObject),
  },
  ['domain'],
);
