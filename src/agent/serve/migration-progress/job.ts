import { statOf } from '../../../api/index.ts';
import { jsonRecord, memberAt } from '../../../base/index.ts';

/** What the launcher on the source says of the job that moves its guest. */
export interface JobFigures {
  readonly processedBytes: number;
  readonly remainingBytes: number;
  readonly totalBytes: number;
}

/** Undefined: nothing moves now, or this is no DomainStats. */
export function jobOf(domainStats: string): JobFigures | undefined {
  const job = memberAt(jsonRecord(domainStats), 'MigrateDomainJobInfo');
  const [processedBytes, remainingBytes, totalBytes] = ['DataProcessed', 'DataRemaining', 'DataTotal'].map((name) =>
    statOf(job, name),
  );
  if (processedBytes === undefined || remainingBytes === undefined) return undefined;
  return { processedBytes, remainingBytes, totalBytes: totalBytes ?? 0 };
}

/** One look at a job. */
export interface Look extends JobFigures {
  readonly atMs: number;
  /** Smoothed over some looks: QEMU sends in bursts. */
  readonly bytesPerSecond: number;
}

const newestShare = 0.5;

export function nextLook(before: Look | undefined, figures: JobFigures, atMs: number): Look {
  // Less than before: another attempt has begun.
  if (!before || figures.processedBytes < before.processedBytes) return { ...figures, atMs, bytesPerSecond: 0 };
  const seconds = (atMs - before.atMs) / 1000;
  if (seconds <= 0) return before;
  const now = (figures.processedBytes - before.processedBytes) / seconds;
  const isFirst = before.bytesPerSecond === 0;
  const bytesPerSecond = isFirst ? now : newestShare * now + (1 - newestShare) * before.bytesPerSecond;
  return { ...figures, atMs, bytesPerSecond: Math.round(bytesPerSecond) };
}

/** Undefined: nothing moves, so nobody knows. */
export function leftSeconds({ remainingBytes, bytesPerSecond }: Look): number | undefined {
  return bytesPerSecond > 0 ? Math.ceil(remainingBytes / bytesPerSecond) : undefined;
}
