import type { Domain } from '../api/index.ts';
import type { Logger } from '../base/index.ts';
import { type ConnectionLimits, connectionLimits, LauncherConnection } from './connection.ts';
import type { OpenConnection } from './launcher-host.ts';
import { findAllSockets, openSocket } from './sockets.ts';

/**
 * A launcher as it shows itself on its socket. What it says of whom it serves is its own word and no proof, so nothing may be
 * done by that name; what is done through its own connection can only reach itself.
 */
export interface StrangeLauncher {
  readonly domain: Domain;
  /** The receiver's to close. */
  readonly connection: OpenConnection;
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
    const asked: Promise<void> = meet(socketFile, options, deps).then((stranger) => {
      if (stranger && deps.signal.aborted) stranger.connection.close();
      else if (stranger) found.push(stranger);
      asking.delete(asked);
    });
    asking.add(asked);
  }
  const leaving = once(deps.signal);
  while (asking.size > 0 && !deps.signal.aborted) {
    await Promise.race([...asking, leaving]);
    for (let next = found.shift(); next; next = found.shift()) yield next;
  }
  for (const { connection } of found) connection.close();
}

/** Undefined when it has no domain, or gives no word of it. */
async function meet(
  socketFile: string,
  { podsDir, limits = connectionLimits }: StrangersOptions,
  { signal, logger }: StrangersDeps,
): Promise<StrangeLauncher | undefined> {
  let connection: OpenConnection | undefined;
  try {
    const place = { key: '', uid: '', nonRoot: false, socketFile };
    const hooks = { onDown: () => undefined, hasEnded: async () => false };
    connection = await LauncherConnection.open(place, openSocket(socketFile, podsDir), hooks, limits);
    const domain = await connection.getDomain(signal);
    if (domain) return { domain, connection };
  } catch (error) {
    logger.debug({ socketFile, error }, 'a launcher that nobody knows could not be asked');
  }
  connection?.close();
  return undefined;
}

function once(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
