import { parseQuantity, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, jsonRecord, memberAt } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';

/** How one migration is to be carried out: `MigrationRequest.options`, read and checked. */
export interface MigrationSettings {
  /** Absent: no limit. */
  readonly bandwidthMiBps?: number;
  /** Without any byte moved for this long the migration is aborted; 0: never. */
  readonly progressTimeoutMs: number;
  /** Per started gigabyte of memory and copied disks; 0: no limit. */
  readonly completionSecondsPerGiB: number;
  /** The longest pause of the guest to aim at; 0: QEMU's own. */
  readonly maxDowntimeMs: number;
  readonly allowsUnsafe: boolean;
  readonly allowsAutoConverge: boolean;
  readonly allowsPostCopy: boolean;
  /** When the time is over: the switch to post-copy, or the guest is paused. */
  readonly allowsWorkloadDisruption: boolean;
  readonly parallelConnections?: number;
  /** Absent: none is asked for. */
  readonly compression?: string;
  /** Absent: the rules with time limits only. */
  readonly stall?: StallSettings;
}

/** Of the stall detector, with times in milliseconds. */
export interface StallSettings {
  readonly margin: number;
  readonly progressTimeoutMs: number;
  readonly switchoverTimeoutMs: number;
  /** Weight of the newest sample of the bandwidth. */
  readonly smoothing: number;
  readonly searchesMinimum: boolean;
  readonly patienceDecay: number;
  readonly preCopyPossibleFactor: number;
  readonly completionFactor: number;
}

const mebibyte = 2 ** 20;
const gigabyte = 1e9;

/** Of a migration that another process of this launcher was given: what was asked for then is not known any more. */
export const forgottenSettings: MigrationSettings = {
  progressTimeoutMs: 150_000,
  completionSecondsPerGiB: 0,
  maxDowntimeMs: 0,
  allowsUnsafe: false,
  allowsAutoConverge: false,
  allowsPostCopy: false,
  allowsWorkloadDisruption: false,
};

/** Throws INVALID_REQUEST: a migration without its options is refused, as upstream does. */
export function migrationSettings(json: Uint8Array): MigrationSettings {
  const options = jsonRecord(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('utf8'));
  if (!options) throw new LauncherError('INVALID_REQUEST', 'the migration has no usable options: send them as JSON');
  const connections = numberOf(options, 'ParallelMigrationThreads');
  const bandwidth = parseQuantity(options.Bandwidth as string) ?? 0;
  const { Compression: compression, StallDetectorOptions: stall } = options;
  const isCompressed = typeof compression === 'string' && compression !== '' && compression !== 'none';
  return {
    ...(bandwidth > 0 && { bandwidthMiBps: Math.max(1, Math.round(bandwidth / mebibyte)) }),
    progressTimeoutMs: numberOf(options, 'ProgressTimeout') * 1000,
    completionSecondsPerGiB: numberOf(options, 'CompletionTimeoutPerGiB'),
    maxDowntimeMs: numberOf(options, 'MaxDowntimeMs'),
    allowsUnsafe: options.UnsafeMigration === true,
    allowsAutoConverge: options.AllowAutoConverge === true,
    allowsPostCopy: options.AllowPostCopy === true,
    allowsWorkloadDisruption: options.AllowWorkloadDisruption === true,
    ...(connections >= 1 && { parallelConnections: Math.floor(connections) }),
    ...(isCompressed && { compression }),
    ...(isRecord(stall) && { stall: stallSettings(stall) }),
  };
}

function stallSettings(stall: Record<string, unknown>): StallSettings {
  const smoothing = numberOf(stall, 'EwmaAlpha');
  return {
    margin: numberOf(stall, 'StallMargin'),
    progressTimeoutMs: numberOf(stall, 'StallProgressTimeout') * 1000,
    switchoverTimeoutMs: numberOf(stall, 'SwitchoverTimeout') * 1000,
    smoothing: smoothing > 0 && smoothing <= 1 ? smoothing : 1,
    searchesMinimum: stall.SearchLocalMinima === true,
    patienceDecay: numberOf(stall, 'PatienceWindowDecayFactor') || 1,
    preCopyPossibleFactor: numberOf(stall, 'PrecopyPossibleFactor') || 1,
    completionFactor: numberOf(stall, 'CompletionTimeoutFactor') || 1,
  };
}

/** 0 for what is missing, negative or no number. */
function numberOf(object: Record<string, unknown>, field: string): number {
  const value = object[field];
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}

/** Bytes of the guest's memory, as its VMI asks for it. */
export function memoryBytes({ spec }: VirtualMachineInstance): number {
  const { memory, resources } = spec.domain;
  const asked = memberAt(memory, 'guest') ?? memberAt(resources, 'requests', 'memory');
  return parseQuantity(asked as string) ?? 0;
}

/** The time that a migration of this size may take (upstream's `acceptableCompletionTime`); undefined: any. */
export function acceptableMs(bytes: number, { completionSecondsPerGiB }: MigrationSettings): number | undefined {
  if (completionSecondsPerGiB <= 0) return undefined;
  return completionSecondsPerGiB * Math.max(1, Math.ceil(bytes / gigabyte)) * 1000;
}
