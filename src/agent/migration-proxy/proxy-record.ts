import type { Key } from '../../api/index.ts';
import { isRecord, memberAt, sameJson } from '../../base/index.ts';
import type { ProcessId } from '../../host/index.ts';
import { type ProxyPorts, type ProxyRole, proxyRoles } from './ports.ts';

export type Side = 'target' | 'source';

interface Common {
  readonly key: Key;
  readonly uid: string;
  /** Absent in records of agents that did not write it. */
  readonly migrationUid?: string;
  readonly launcher: ProcessId;
  /** Of this node's listeners, or of the other node's. */
  readonly ports: ProxyPorts;
}

/** What one proxy process is for. */
export type ProxyDuty =
  | ({ readonly side: 'target'; readonly streamUid?: string } & Common)
  | ({ readonly side: 'source'; readonly address: string } & Common);

/** What the next agent needs to know of a process that this one has started. */
export interface ProxyRecord {
  readonly version: 1;
  readonly duty: ProxyDuty;
  readonly process: ProcessId;
}

export const recordSuffix = '.json';
export const maxRecordBytes = 16 * 1024;

/** A file name: UIDs of VMIs are short words without a slash. */
export function proxyId(side: Side, uid: string): string {
  return `${uid}-${side}`;
}

export function isUid(uid: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/.test(uid);
}

export function rolesOf({ ports }: Pick<ProxyDuty, 'ports'>): ProxyRole[] {
  return Object.values(ports);
}

/** The same streams between the same ends. The ports of a target are its own choice. */
export function isSameDuty(a: ProxyDuty, b: ProxyDuty): boolean {
  if (!sameJson(a.launcher, b.launcher) || a.uid !== b.uid || a.migrationUid !== b.migrationUid) return false;
  if (a.side === 'source') return b.side === 'source' && a.address === b.address && sameJson(a.ports, b.ports);
  return b.side === 'target' && a.streamUid === b.streamUid && sameJson(rolesOf(a).sort(), rolesOf(b).sort());
}

/** Undefined: not a record of ours. */
export function readRecord(text: string): ProxyRecord | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (memberAt(read, 'version') !== 1) return undefined;
  const duty = dutyOf(memberAt(read, 'duty'));
  const process = processOf(memberAt(read, 'process'));
  return duty && process ? { version: 1, duty, process } : undefined;
}

/** Undefined: it is none. Addresses and ports are looked at where a configuration is written. */
export function dutyOf(read: unknown): ProxyDuty | undefined {
  const [side, key, uid] = [memberAt(read, 'side'), memberAt(read, 'key'), memberAt(read, 'uid')];
  const launcher = processOf(memberAt(read, 'launcher'));
  const ports = portsOf(memberAt(read, 'ports'));
  if (typeof key !== 'string' || typeof uid !== 'string' || !isUid(uid) || !launcher || !ports) return undefined;
  const migrationUid = memberAt(read, 'migrationUid');
  const common = { key, uid, launcher, ports, ...(typeof migrationUid === 'string' && { migrationUid }) };
  if (side === 'target') {
    const streamUid = memberAt(read, 'streamUid');
    if (streamUid === undefined) return { side, ...common };
    return typeof streamUid === 'string' && isUid(streamUid) ? { side, ...common, streamUid } : undefined;
  }
  const address = memberAt(read, 'address');
  return side === 'source' && typeof address === 'string' ? { side, address, ...common } : undefined;
}

export function processOf(read: unknown): ProcessId | undefined {
  const [pid, startTime] = [memberAt(read, 'pid'), memberAt(read, 'startTime')];
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid < 2) return undefined;
  return typeof startTime === 'string' ? { pid, startTime } : undefined;
}

function portsOf(read: unknown): ProxyPorts | undefined {
  if (!isRecord(read)) return undefined;
  const known: readonly unknown[] = Object.values(proxyRoles);
  const isPorts = (ports: Record<string, unknown>): ports is Record<string, ProxyRole> =>
    Object.entries(ports).every(([port, role]) => /^\d{1,5}$/.test(port) && known.includes(role));
  return isPorts(read) ? read : undefined;
}
