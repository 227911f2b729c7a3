import type { Domain } from '../api/index.ts';
import { WireError } from './errors.ts';
import { domainJsonLimits, type JsonLimits, parseJson } from './json-limits.ts';
import { bool, fill, list, nullable, num, object, optionalStr, optionalTrue, record, str } from './json-shape.ts';

const alias = nullable(object({ Name: str, UserDefined: bool }));

const disk = object({
  Device: str,
  Type: str,
  Source: object({ Dev: str, File: str }),
  Target: object({ Bus: str, Device: str, Tray: str }),
  Alias: alias,
});

const networkInterface = object({
  Alias: alias,
  MAC: nullable(object({ MAC: str })),
  Driver: nullable(object({ Queues: nullable(num) })),
  LinkState: nullable(object({ State: str })),
});

const channel = object({
  Target: nullable(object({ Name: str, Type: str, Address: str, Port: num, State: str })),
});

const kubeVirtMetadata = object({
  UID: str,
  GracePeriod: nullable(
    object({
      DeletionGracePeriodSeconds: num,
      DeletionTimestamp: nullable(str),
      MarkedForGracefulShutdown: nullable(bool),
    }),
  ),
  Migration: nullable(
    object({
      UID: str,
      StartTimestamp: nullable(str),
      EndTimestamp: nullable(str),
      Failed: bool,
      FailureReason: str,
      AbortStatus: str,
      Mode: str,
      Resumable: optionalTrue,
    }),
  ),
  Backup: nullable(record),
  AccessCredential: nullable(object({ Succeeded: bool, Message: str })),
  MemoryDump: nullable(record),
});

const spec = object({
  Type: str,
  Name: str,
  UUID: str,
  OS: object({ Type: object({ OS: str, Arch: str, Machine: str }) }),
  Features: nullable(object({ ACPI: nullable(record) })),
  CurrentMemory: nullable(object({ Value: num, Unit: str })),
  Devices: object({
    Channels: nullable(list(channel)),
    Disks: nullable(list(disk)),
    Interfaces: nullable(list(networkInterface)),
    HostDevices: nullable(list(object({ Alias: alias }))),
  }),
  Metadata: object({ KubeVirt: kubeVirtMetadata }),
});

const status = object({
  Status: str,
  Reason: str,
  Interfaces: nullable(list(object({ Mac: str, Ip: str, IPs: nullable(list(str)), InterfaceName: str }))),
  OSInfo: object({
    Name: str,
    KernelRelease: str,
    Version: str,
    PrettyName: str,
    VersionId: str,
    KernelVersion: str,
    Machine: str,
    Id: str,
  }),
  FSFreezeStatus: object({ Status: str }),
  GuestPanicInfo: nullable(object({ Type: str })),
  PanicCount: num,
});

const domain = object({
  ObjectMeta: object({ name: str, namespace: str, uid: optionalStr, deletionTimestamp: optionalStr }),
  Spec: spec,
  Status: status,
});

/**
 * A domain as a launcher wrote it, with every key that we read filled in (upstream: pkg/virt-launcher/virtwrap/api/schema.go): what is missing becomes its zero
 * value, unknown keys stay, a disk without alias or an interface without MAC is just that.
 * Throws WireError JSON_*; JSON_SHAPE names the place that has a wrong type.
 */
export function decodeDomain(input: Buffer | string, limits: JsonLimits = domainJsonLimits): Domain {
  const value = fill(parseJson(input, limits), domain, 'domain');
  const meta = value.ObjectMeta as { name: string; namespace: string; creationTimestamp?: null };
  if (meta.name === '' || meta.namespace === '') {
    throw new WireError('JSON_SHAPE', 'domain.ObjectMeta: name and namespace must be set');
  }
  meta.creationTimestamp = null;
  value.kind = 'Domain';
  value.apiVersion = '1.2.2';
  return value as unknown as Domain;
}
