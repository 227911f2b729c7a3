import type { Domain } from '../api/index.ts';
import type { Logger } from '../base/index.ts';
import { type ConnectionLimits, connectionLimits, LauncherConnection, type OpenConnection } from './connection.ts';
import { findAllSockets, openSocket } from './sockets.ts';

/**
 * A launcher as it shows itself on its socket. Which VMI it serves is its own claim and no proof, so nothing may be
 * done by that name; what is done through its own connection can only reach itself.
 */
export interface OrphanedLauncher {
  readonly domain: Domain;
  /** The receiver's to close. */
  readonly connection: OpenConnection;
}

export interface OrphanSearchOptions {
  readonly podsDir: string;
  readonly limits?: ConnectionLimits;
}

export interface OrphanSearchDeps {
  /** Asked before the dial: sockets of launchers that are served already are left alone. */
  readonly isKnown: (socketFile: string) => boolean;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

/**
 * Launchers of this node that have a domain, found by their sockets alone: one that was started while the
 * agent was away, and whose VMI vanished too, has neither ghost record nor VMI. Each as soon as it has answered: one that
 * hangs delays no other and is left out when its time limits are over. Never throws.
 */
export async function* findOrphanedLaunchers(
  options: OrphanSearchOptions,
  deps: OrphanSearchDeps,
): AsyncGenerator<OrphanedLauncher> {
  const asking = new Set<Promise<void>>();
  const found: OrphanedLauncher[] = [];
  for (const socketFile of findAllSockets(options)) {
    if (deps.isKnown(socketFile)) continue;
    const asked: Promise<void> = askLauncher(socketFile, options, deps).then((launcher) => {
      if (launcher && deps.signal.aborted) launcher.connection.close();
      else if (launcher) found.push(launcher);
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

/** Undefined when it has no domain, or does not answer. */
async function askLauncher(
  socketFile: string,
  { podsDir, limits = connectionLimits }: OrphanSearchOptions,
  { signal, logger }: OrphanSearchDeps,
): Promise<OrphanedLauncher | undefined> {
  let connection: OpenConnection | undefined;
  try {
    const address = { key: '', uid: '', socketFile };
    const connectionDeps = { onDown: () => undefined, hasEnded: async () => false };
    connection = await LauncherConnection.open(address, openSocket(socketFile, podsDir), connectionDeps, limits);
    const domain = await connection.getDomain(signal);
    if (domain) return { domain, connection };
  } catch (error) {
    logger.debug({ socketFile, error }, 'a launcher without VMI and ghost record could not be asked');
  }
  connection?.close();
  return undefined;
}

function once(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
