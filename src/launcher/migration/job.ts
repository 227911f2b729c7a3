import { JobOperation, type JobStats, JobType, type TypedParams } from '../../libvirt/index.ts';

/** What libvirt says of a migration at one moment. */
export interface JobSample {
  /** Bytes sent so far; zero while only empty pages are found. */
  readonly processedBytes: number;
  readonly remainingBytes: number;
  /** Of memory, per second; 0 while it is not measured. */
  readonly memoryBytesPerSecond: number;
}

/** Undefined: no migration out of here is under way. Before the first page moves all figures are zero. */
export function outgoingJob({ type, params }: JobStats): JobSample | undefined {
  if (!isUnderWay(type)) return undefined;
  const operation = params.get('operation');
  if (operation !== undefined && operation !== JobOperation.MIGRATION_OUT) return undefined;
  return {
    processedBytes: figure(params, 'data_processed'),
    remainingBytes: figure(params, 'data_remaining'),
    memoryBytesPerSecond: figure(params, 'memory_bps'),
  };
}

export function isIncomingJob({ type, params }: JobStats): boolean {
  return isUnderWay(type) && params.get('operation') === JobOperation.MIGRATION_IN;
}

function isUnderWay(type: number): boolean {
  return type === JobType.BOUNDED || type === JobType.UNBOUNDED;
}

function figure(params: TypedParams, name: string): number {
  const value = params.get(name);
  return typeof value === 'bigint' || typeof value === 'number' ? Number(value) : 0;
}
