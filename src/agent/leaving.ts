import { type Clock, type Component, errorMessage, type Logger } from '../base/index.ts';
import type { MigrationProxies } from './migration-proxy/ports.ts';

export interface LeavingOptions {
  /** `--graceful-shutdown-seconds`: how long running migrations are waited for. */
  readonly gracefulMs: number;
}

export interface LeavingDeps {
  readonly heartbeat: { leave(): Promise<void> };
  readonly migrationProxies: Pick<MigrationProxies, 'open' | 'outliveAgent' | 'refuse' | 'onChange'>;
  readonly clock: Clock;
  readonly log: Logger;
}

export type LeftBehind = { readonly openMigrations: number };

const lookAgainMs = 1_000;
const progressMs = 10_000;

/**
 * The agent is asked to leave, in one order: the node takes no VMIs any more, no migration is begun, and
 * those that run are waited for while the VM loop goes on serving them, unless their streams outlive this agent. Nothing is stopped here, and no VM is touched. Never
 * rejects: an API server that is away does not keep the agent.
 */
export async function drain(options: LeavingOptions, deps: LeavingDeps): Promise<LeftBehind> {
  const { heartbeat, migrationProxies, clock, log } = deps;
  migrationProxies.refuse('this node agent is leaving; its successor takes migrations again');
  await heartbeat.leave().catch((error: unknown) => {
    log.warn({ reason: errorMessage(error) }, 'the node is not marked unschedulable yet');
  });
  if (migrationProxies.outliveAgent) return { openMigrations: migrationProxies.open };
  const beganMs = clock.monotonicMs();
  const leftMs = () => beganMs + options.gracefulMs - clock.monotonicMs();
  let reportedMs = Number.NEGATIVE_INFINITY;
  while (migrationProxies.open > 0 && leftMs() > 0) {
    if (clock.monotonicMs() - reportedMs >= progressMs) {
      reportedMs = clock.monotonicMs();
      log.info(
        { open: migrationProxies.open, atMostSeconds: Math.ceil(leftMs() / 1000) },
        'waiting for running migrations',
      );
    }
    await changeOf(migrationProxies, Math.min(lookAgainMs, leftMs()), clock);
  }
  const openMigrations = migrationProxies.open;
  if (openMigrations > 0) log.warn({ open: openMigrations }, 'migrations still run; they end with this agent');
  return { openMigrations };
}

/** A migration proxy changed, or the time is over. */
function changeOf(migrationProxies: LeavingDeps['migrationProxies'], ms: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      end();
      resolve();
    };
    const end = migrationProxies.onChange(done);
    const cancel = clock.schedule(ms, done);
  });
}

/** Marks the node as not ready before anything is done for VMs. */
export function notReadyYet(heartbeat: { markStarting(signal: AbortSignal): Promise<void> }): Component {
  return {
    name: 'not-ready mark',
    start: (signal) => heartbeat.markStarting(signal),
    stop: async () => undefined,
  };
}
