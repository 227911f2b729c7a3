import { type Clock, sleep, systemClock } from '../../base/index.ts';
import { type DomainRef, isLibvirtError } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';
import { outgoingJob } from './job.ts';

export interface AbortDeps {
  readonly hypervisor: Pick<Hypervisor, 'jobStats' | 'abortJob'>;
  readonly clock?: Clock;
}

const limitMs = 30_000;
const pauseMs = 100;

/**
 * True: libvirt has taken the order. A migration that was only just begun has no job yet, so the order waits for it; `over` says that
 * the migration has ended meanwhile.
 */
export async function abortMigrationJob(domain: DomainRef, over: AbortSignal, deps: AbortDeps): Promise<boolean> {
  const { hypervisor, clock = systemClock } = deps;
  const untilMs = clock.monotonicMs() + limitMs;
  while (!over.aborted && clock.monotonicMs() < untilMs) {
    try {
      if (outgoingJob(await hypervisor.jobStats(domain))) {
        await hypervisor.abortJob(domain);
        return true;
      }
    } catch (error) {
      // Between two stages there is no job to abort; it may be over, or about to begin.
      if (!isLibvirtError(error, 'OPERATION_INVALID', 'CONNECTION_LOST')) return false;
    }
    await sleep(pauseMs, over, clock).catch(() => undefined);
  }
  return false;
}
