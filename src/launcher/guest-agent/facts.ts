import type { DomainInterfaceStatus, GuestOsInfo } from '../../api/index.ts';
import type { TypedParams } from '../../libvirt/index.ts';
import type { GuestFacts, GuestFilesystem, GuestUser } from './store.ts';

/** libvirt's guest information (`virDomainGetGuestInfo`) as facts. Lists are cut: a guest may claim anything. */
const maxItems = 256;

export function systemFacts(params: TypedParams): Pick<GuestFacts, 'interfaces' | 'osInfo' | 'hostname' | 'timezone'> {
  const zone = text(params, 'timezone.name');
  return {
    interfaces: interfacesOf(params),
    osInfo: osInfoOf(params),
    hostname: text(params, 'hostname'),
    timezone: zone === '' ? '' : `${zone}, ${number(params, 'timezone.offset')}`,
  };
}

export function userFacts(params: TypedParams): Pick<GuestFacts, 'users'> {
  const users = items(params, 'user').map(
    (prefix): GuestUser => ({
      userName: text(params, `${prefix}.name`),
      domain: text(params, `${prefix}.domain`),
      loginTime: number(params, `${prefix}.login-time`) / 1000,
    }),
  );
  return { users };
}

export function loadFacts(params: TypedParams): Pick<GuestFacts, 'load'> {
  if (!params.has('load.1m')) return { load: undefined };
  const [load1m, load5m, load15m] = ['1m', '5m', '15m'].map((span) => number(params, `load.${span}`));
  return { load: { load1m: load1m ?? 0, load5m: load5m ?? 0, load15m: load15m ?? 0 } };
}

/** The answer of `guest-info`. */
export function versionFacts(answer: unknown): Pick<GuestFacts, 'agentVersion' | 'supportedCommands'> {
  const { version, supported_commands: commands } = asObject(answer);
  const list = Array.isArray(commands) ? commands : [];
  return {
    agentVersion: typeof version === 'string' ? version : '',
    supportedCommands: list.slice(0, maxItems).map((each) => {
      const { name, enabled } = asObject(each);
      return { name: String(name ?? ''), enabled: enabled === true };
    }),
  };
}

/** The answer of `guest-get-fsinfo`. */
export function filesystemFacts(answer: unknown): Pick<GuestFacts, 'filesystems'> {
  const list = Array.isArray(answer) ? answer : [];
  return { filesystems: list.slice(0, maxItems).map(filesystemOf) };
}

function filesystemOf(value: unknown): GuestFilesystem {
  const entry = asObject(value);
  const disks = Array.isArray(entry.disk) ? entry.disk.slice(0, maxItems) : [];
  return {
    diskName: asText(entry.name),
    mountPoint: asText(entry.mountpoint),
    fileSystemType: asText(entry.type),
    usedBytes: asNumber(entry['used-bytes']),
    totalBytes: asNumber(entry['total-bytes']),
    disk: disks.map((disk) => {
      const { serial, 'bus-type': busType } = asObject(disk);
      return { serial: asText(serial), busType: asText(busType) };
    }),
  };
}

function interfacesOf(params: TypedParams): DomainInterfaceStatus[] {
  return items(params, 'if')
    .filter((prefix) => text(params, `${prefix}.name`) !== 'lo')
    .map((prefix) => {
      const addresses = items(params, `${prefix}.addr`).map((at) => ({
        type: text(params, `${at}.type`),
        address: text(params, `${at}.addr`),
      }));
      const primary = addresses.find(({ type }) => type === 'ipv4') ?? addresses[0];
      return {
        Mac: text(params, `${prefix}.hwaddr`),
        Ip: primary?.address ?? '',
        IPs: addresses.length > 0 ? addresses.map(({ address }) => address) : null,
        InterfaceName: text(params, `${prefix}.name`),
      };
    });
}

function osInfoOf(params: TypedParams): GuestOsInfo {
  const os = (field: string) => text(params, `os.${field}`);
  return {
    Name: os('name'),
    KernelRelease: os('kernel-release'),
    Version: os('version'),
    PrettyName: os('pretty-name'),
    VersionId: os('version-id'),
    KernelVersion: os('kernel-version'),
    Machine: os('machine'),
    Id: os('id'),
  };
}

function items(params: TypedParams, prefix: string): string[] {
  const count = Math.min(maxItems, Math.max(0, number(params, `${prefix}.count`)));
  return Array.from({ length: count }, (_, at) => `${prefix}.${at}`);
}

function text(params: TypedParams, field: string): string {
  return asText(params.get(field));
}

function number(params: TypedParams, field: string): number {
  const value = params.get(field);
  return typeof value === 'bigint' || typeof value === 'number' ? Number(value) : 0;
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function asNumber(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
