import type { DomainAlias, DomainChannelTarget, DomainDevices, DomainDisk, DomainInterface } from '../../api/index.ts';
import { userAliasPrefix } from './names.ts';
import { isTrackingRecord } from './paths.ts';
import { child, childrenOf, childText, type XmlNode } from './xml.ts';

/**
 * `Spec.Devices` of Domain JSON (upstream's `api/schema.go`): disks, interfaces, channels and host devices are what the agent
 * reads.
 */
export function parseDevices(devices: XmlNode | undefined): DomainDevices {
  return {
    Emulator: devices ? childText(devices, 'emulator') : '',
    Interfaces: listOf(devices, 'interface', interfaceOf),
    Channels: listOf(devices, 'channel', channelOf),
    HostDevices: listOf(devices, 'hostdev', hostDeviceOf),
    PanicDevices: null,
    Controllers: null,
    Video: null,
    Graphics: null,
    Ballooning: null,
    Disks: listOf(devices, 'disk', diskOf),
    Inputs: null,
    Serials: null,
    Consoles: null,
    Watchdogs: null,
    Rng: null,
    Filesystems: null,
    Redirs: null,
    SoundCards: null,
    TPMs: null,
    VSOCK: null,
    Memory: null,
    IOMMU: null,
  };
}

/** An empty Go slice is written as null. */
function listOf<T>(devices: XmlNode | undefined, name: string, convert: (node: XmlNode) => T): T[] | null {
  const nodes = devices ? childrenOf(devices, name) : [];
  return nodes.length === 0 ? null : nodes.map(convert);
}

function attribute(parent: XmlNode, childName: string, name: string): string {
  return child(parent, childName)?.attributes[name] ?? '';
}

/** Never null: a stock agent dereferences the alias of every disk with a source and of every interface. */
function aliasOf(device: XmlNode): DomainAlias {
  const name = attribute(device, 'alias', 'name');
  const isUser = name.startsWith(userAliasPrefix);
  return { Name: isUser ? name.slice(userAliasPrefix.length) : name, UserDefined: isUser };
}

function diskOf(disk: XmlNode): DomainDisk {
  return {
    Device: disk.attributes.device ?? 'disk',
    Snapshot: disk.attributes.snapshot ?? '',
    Type: disk.attributes.type ?? '',
    Source: {
      Dev: attribute(disk, 'source', 'dev'),
      File: attribute(disk, 'source', 'file'),
      StartupPolicy: attribute(disk, 'source', 'startupPolicy'),
      Protocol: attribute(disk, 'source', 'protocol'),
      Name: attribute(disk, 'source', 'name'),
      Host: null,
      Reservations: null,
      Slices: null,
      DataStore: dataStoreOf(disk),
    },
    Target: {
      Bus: attribute(disk, 'target', 'bus'),
      Device: attribute(disk, 'target', 'dev'),
      Tray: attribute(disk, 'target', 'tray'),
    },
    Serial: childText(disk, 'serial'),
    Driver: null,
    ReadOnly: child(disk, 'readonly') ? {} : null,
    Auth: null,
    Alias: aliasOf(disk),
    BackingStore: null,
    BootOrder: null,
    Address: null,
    Model: disk.attributes.model ?? '',
    BlockIO: null,
    FilesystemOverhead: null,
    Capacity: null,
    Shareable: child(disk, 'shareable') ? {} : null,
  };
}

function dataStoreOf(disk: XmlNode): { Type: string; Format: { Type: string } | null; Source: null } | null {
  const source = child(disk, 'source');
  const store = source && child(source, 'dataStore');
  if (store)
    return { Type: store.attributes.type ?? '', Format: { Type: attribute(store, 'format', 'type') }, Source: null };
  return isTrackingRecord(source?.attributes.file ?? '') ? { Type: '', Format: null, Source: null } : null;
}

function interfaceOf(node: XmlNode): DomainInterface {
  const driver = child(node, 'driver');
  const link = child(node, 'link');
  return {
    Type: node.attributes.type ?? '',
    Source: null,
    Target: null,
    Model: { Type: attribute(node, 'model', 'type') },
    MAC: { MAC: attribute(node, 'mac', 'address') },
    MTU: null,
    BootOrder: null,
    LinkState: link ? { State: link.attributes.state ?? '' } : null,
    Driver: driver ? { Name: driver.attributes.name ?? '', Queues: queuesOf(driver) } : null,
    Alias: aliasOf(node),
    Rom: null,
    ACPI: null,
    Address: null,
  };
}

function queuesOf(driver: XmlNode): number | null {
  const text = driver.attributes.queues ?? '';
  return /^\d+$/.test(text) ? Number(text) : null;
}

function channelOf(channel: XmlNode): { Target: DomainChannelTarget | null; [key: string]: unknown } {
  const target = child(channel, 'target');
  return { Type: channel.attributes.type ?? '', Source: null, Target: target ? channelTarget(target) : null };
}

function channelTarget({ attributes }: XmlNode): DomainChannelTarget {
  return {
    Name: attributes.name ?? '',
    Type: attributes.type ?? '',
    Address: attributes.address ?? '',
    Port: /^\d+$/.test(attributes.port ?? '') ? Number(attributes.port) : 0,
    State: attributes.state ?? '',
  };
}

function hostDeviceOf(device: XmlNode): { Alias: DomainAlias; [key: string]: unknown } {
  return {
    Type: device.attributes.type ?? '',
    Mode: device.attributes.mode ?? '',
    Managed: device.attributes.managed ?? '',
    Alias: aliasOf(device),
  };
}
