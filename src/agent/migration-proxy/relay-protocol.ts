import { isRecord, jsonRecord, listOf, memberAt } from '../../base/index.ts';
import type { ProxyTls } from './credentials.ts';
import { type MigrationProxyErrorCode, migrationProxyErrorCodes } from './errors.ts';
import type { EndedStreams, ProxyFigures } from './ports.ts';
import type { KeptProxy } from './proxy-keeper.ts';
import { dutyOf, type ProxyDuty, processOf, rolesOf, type Side } from './proxy-record.ts';

/**
 * What agent and relay say to each other, a JSON document per line. The relay says its state when an agent has connected and whenever
 * it has changed, before the answer to what has changed it. The two may be of different versions: unknown members are passed over,
 * and another `version` is no relay for this agent.
 */
export const relayVersion = 1;

/** Below the directory that agent and relay share. */
export const relaySocketName = 'relay.sock';

/** Agent to relay. `cancel`: of the `open` with this id, which is answered all the same. */
export type RelayRequest =
  | { readonly id: number; readonly call: 'open'; readonly duty: ProxyDuty; readonly tls: ProxyTls }
  | { readonly id: number; readonly call: 'close'; readonly side: Side; readonly uid: string }
  | { readonly id: number; readonly call: 'cancel' };

export interface RelayFailure {
  readonly code: MigrationProxyErrorCode;
  readonly message: string;
}

/** Relay to agent. Without `failure`: it is done. */
export interface RelayAnswer {
  readonly id: number;
  readonly failure?: RelayFailure;
}

/** Relay to agent. */
export interface RelayState {
  readonly version: number;
  readonly address: string;
  readonly supported: boolean;
  readonly problem?: string;
  readonly kept: readonly KeptProxy[];
  /** Absent: a relay that does not say it. */
  readonly ended?: readonly EndedStreams[];
}

const maxWordLength = 400;
const maxRoles = 3;

/** Undefined: not a request of an agent. */
export function readRequest(line: string): RelayRequest | undefined {
  const read = jsonRecord(line);
  const id = read?.id;
  if (typeof id !== 'number' || !Number.isSafeInteger(id)) return undefined;
  switch (read?.call) {
    case 'open': {
      const [duty, tls] = [boundedDuty(read.duty), tlsOf(read.tls)];
      return duty && tls && { id, call: 'open', duty, tls };
    }
    case 'close': {
      const { side, uid } = read;
      if ((side !== 'target' && side !== 'source') || !isWord(uid)) return undefined;
      return { id, call: 'close', side, uid };
    }
    case 'cancel':
      return { id, call: 'cancel' };
    default:
      return undefined;
  }
}

/** Undefined: no relay says that. */
export function readRelayMessage(line: string): RelayAnswer | RelayState | undefined {
  const read = jsonRecord(line);
  if (!read) return undefined;
  return 'version' in read ? stateOf(read) : answerOf(read);
}

export function isRelayState(message: RelayAnswer | RelayState): message is RelayState {
  return 'version' in message;
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value.length <= maxWordLength;

/** One process for each role: its names would be another's otherwise. */
function boundedDuty(read: unknown): ProxyDuty | undefined {
  const duty = dutyOf(read);
  if (!duty || !isWord(duty.key) || !isWord(duty.migrationUid ?? '')) return undefined;
  const roles = rolesOf(duty);
  return roles.length > 0 && roles.length <= maxRoles && new Set(roles).size === roles.length ? duty : undefined;
}

const secureVersions = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const;

function tlsOf(read: unknown): ProxyTls | undefined {
  const [keyPair, authorities] = [memberAt(read, 'keyPair'), memberAt(read, 'authorities')];
  const [given, ciphers] = [memberAt(read, 'peers'), memberAt(read, 'settings', 'ciphers')];
  const minVersion = secureVersions.find((version) => version === memberAt(read, 'settings', 'minVersion'));
  const names = listOf(given).filter(isWord);
  const peers =
    given === 'any' ? given : names.length === 0 || names.length !== listOf(given).length ? undefined : names;
  if (typeof keyPair !== 'string' || typeof authorities !== 'string' || typeof ciphers !== 'string') return undefined;
  return peers && minVersion && { keyPair, authorities, peers, settings: { minVersion, ciphers } };
}

function answerOf({ id, failure }: Record<string, unknown>): RelayAnswer | undefined {
  if (typeof id !== 'number') return undefined;
  if (failure === undefined) return { id };
  const message = memberAt(failure, 'message');
  if (typeof message !== 'string') return undefined;
  const given = memberAt(failure, 'code');
  const code = migrationProxyErrorCodes.find((known) => known === given) ?? 'START_FAILED';
  return { id, failure: { code, message } };
}

function stateOf(read: Record<string, unknown>): RelayState | undefined {
  const { version, address, supported, problem, kept, ended } = read;
  if (typeof version !== 'number') return undefined;
  if (version !== relayVersion) return { version, address: '', supported: false, kept: [] };
  if (typeof address !== 'string' || !Array.isArray(kept)) return undefined;
  return {
    ...{ version, address, supported: supported === true },
    ...(typeof problem === 'string' && { problem }),
    kept: kept.flatMap((each) => keptOf(each) ?? []),
    ended: listOf(ended).flatMap((each) => endedOf(each) ?? []),
  };
}

function endedOf(read: unknown): EndedStreams | undefined {
  const [side, uid] = [memberAt(read, 'side'), memberAt(read, 'uid')];
  const [migrationUid, reason] = [memberAt(read, 'migrationUid'), memberAt(read, 'reason')];
  if ((side !== 'source' && side !== 'target') || !isWord(uid) || !isWord(reason)) return undefined;
  return { side, uid, ...(isWord(migrationUid) && { migrationUid }), reason };
}

function keptOf(read: unknown): KeptProxy | undefined {
  const [duty, process] = [dutyOf(memberAt(read, 'duty')), processOf(memberAt(read, 'process'))];
  const figures = memberAt(read, 'figures');
  return duty && process && { duty, process, figures: figuresOf(figures, duty) };
}

function figuresOf(read: unknown, { key, side, ports }: ProxyDuty): ProxyFigures {
  const count = (name: string): number => {
    const value = isRecord(read) ? read[name] : undefined;
    return typeof value === 'number' && Number.isFinite(value) ? value : 0;
  };
  const [streams, bytes] = [count('streams'), count('bytes')];
  const [bytesPerSecond, stalledSeconds] = [count('bytesPerSecond'), count('stalledSeconds')];
  return { key, side, ports, streams, bytes, bytesPerSecond, refused: count('refused'), stalledSeconds };
}
