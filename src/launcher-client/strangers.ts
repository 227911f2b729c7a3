import type { Domain } from '../api/index.ts';
import type { Logger } from '../base/index.ts';
import { type ConnectionLimits, connectionLimits, LauncherConnection } from './connection.ts';
import { findAllSockets, openSocket } from './sockets.ts';

/** A launcher as it shows itself on its socket. What it says of whom it serves is its own word and no proof. */
export interface StrangeLauncher {
  readonly socketFile: string;
  readonly domain: Domain;
}

export interface StrangersOptions {
  readonly podsDir: string;
  readonly limits?: ConnectionLimits;
}

export interface StrangersDeps {
  /** Asked before the dial: sockets of launchers that are served already are left alone. */
  readonly isKnown: (socketFile: string) => boolean;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Launchers of this node that have a domain, found by their sockets alone (spec 21 §6): one that was started while the
 * agent was away, and whose VMI vanished too, has neither ghost record nor VMI. Each as soon as it has answered: one that
 * hangs delays no other and is left out when its time limits are over. Never throws.
 */
export async function* findStrangers(options: StrangersOptions, deps: StrangersDeps): AsyncGenerator<StrangeLauncher> {
  const asking = new Set<Promise<void>>();
  const found: StrangeLauncher[] = [];
  for (const socketFile of findAllSockets(options)) {
    if (deps.isKnown(socketFile)) continue;
    const asked: Promise<void> = domainAt(socketFile, options, deps).then((domain) => {
      if (domain) found.push({ socketFile, domain });
      asking.delete(asked);
    });
    asking.add(asked);
  }
  while (asking.size > 0 && !deps.signal.aborted) {
    await Promise.race(asking);
    yield* found.splice(0);
  }
}

/** Undefined when there is no domain, or no word of it. */
async function domainAt(
  socketFile: string,
  { podsDir, limits = connectionLimits }: StrangersOptions,
  { signal, logger }: StrangersDeps,
): Promise<Domain | undefined> {
  try {
    const place = { key: '', uid: '', nonRoot: false, socketFile };
    const hooks = { onDown: () => undefined, hasEnded: async () => false };
    const connection = await LauncherConnection.open(place, openSocket(socketFile, podsDir), hooks, limits);
    return await connection.getDomain(signal).finally(() => connection.close());
  } catch (error) {
    logger.debug({ socketFile, error }, 'a launcher that nobody knows could not be asked');
    return undefined;
  }
}
