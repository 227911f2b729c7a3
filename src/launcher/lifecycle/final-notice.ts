import type { Domain } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import type { DomainNotifier } from '../notify/index.ts';
import type { PowerControl } from './power.ts';

export interface FinalNoticeLimits {
  /** For the agent to see the end and to delete the domain. */
  readonly deleteMs: number;
  /** After that, with everything killed. */
  readonly lastMs: number;
  /** For an agent that cannot be reached at all, so that it learns how the domain ended. Not while the pod is deleted. */
  readonly agentAwayMs: number;
}

export const finalNoticeLimits: FinalNoticeLimits = { deleteMs: 15_000, lastMs: 30_000, agentAwayMs: 600_000 };

export interface FinalNoticeDeps {
  readonly notifier: Pick<DomainNotifier, 'delivered' | 'isBehind' | 'onDelivered'>;
  readonly power: Pick<PowerControl, 'kill'>;
  /** The pod is being deleted. */
  readonly isTerminating: () => boolean;
  readonly log: Logger;
  readonly clock: Clock;
}

export type FinalNoticeResult = 'deleted' | 'timed-out';

const checkMs = 500;

/**
 * After QEMU's end the launcher stays until the agent has seen that, has deleted the domain and has acknowledged that
 * (upstream's `waitForFinalNotify`).
 * Upstream leaves after 45 s in any case, and an agent that was just being restarted then never learns how the domain ended.
 * After a guest that moved away the launcher stays until it is told to end: to the cluster this is its VM until the target node's agent, which may
 * just be away, takes it over.
 */
export function awaitFinalNotice(limits: FinalNoticeLimits, deps: FinalNoticeDeps): Promise<FinalNoticeResult> {
  const { notifier, power, log, clock } = deps;
  const startMs = clock.monotonicMs();
  let countedFromMs = startMs;
  let killed = false;
  return new Promise((resolve) => {
    let cancel: (() => void) | undefined;
    const finish = (result: FinalNoticeResult) => {
      cancel?.();
      stopWatching();
      resolve(result);
    };
    const stopWatching = notifier.onDelivered((domain) => {
      if (isGone(domain)) finish('deleted');
    });
    const check = () => {
      const nowMs = clock.monotonicMs();
      const isAgentAway = notifier.isBehind && nowMs - startMs < limits.agentAwayMs;
      const mayWait = !deps.isTerminating() && (isAgentAway || hasMoved(notifier.delivered));
      if (mayWait) countedFromMs = nowMs;
      const waitedMs = nowMs - countedFromMs;
      if (waitedMs >= limits.deleteMs && !killed) {
        killed = true;
        power.kill().catch((error: unknown) => log.warn({ err: errorMessage(error) }, 'domain cannot be killed'));
      }
      if (waitedMs >= limits.deleteMs + limits.lastMs) finish('timed-out');
      else cancel = clock.schedule(checkMs, check);
    };
    if (notifier.delivered && isGone(notifier.delivered)) finish('deleted');
    else check();
  });
}

function hasMoved(domain: Domain | undefined): boolean {
  return domain?.Status.Status === 'Shutoff' && domain.Status.Reason === 'Migrated';
}

function isGone(domain: Domain): boolean {
  return domain.ObjectMeta.deletionTimestamp !== undefined;
}
