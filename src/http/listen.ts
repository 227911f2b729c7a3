import type { AddressInfo, ListenOptions, Server } from 'node:net';
import { errorCode, unreachable } from '../base/index.ts';
import { ListenError } from './errors.ts';
import { listenOnSocketFile, type UnixAddress } from './socket-file.ts';

/** Where a server listens. */
export type ListenAddress =
  /** `host`: an IPv4 or IPv6 address, or a host name. `port` 0: any that is free. */
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  /** 127.0.0.1 and ::1, both at one port. `port` 0: any that is free at both. */
  | { readonly kind: 'loopback'; readonly port: number }
  | UnixAddress;

/** Servers that listen, one for each address. */
export interface ListeningServers<S extends Server> {
  readonly servers: readonly S[];
  /** For people: `address:port`, or the file of a Unix socket. */
  readonly shown: string;
  /** 0 for a Unix socket. */
  readonly port: number;
  /** Takes away what others find it by, unless it is a successor's by now. */
  release(): Promise<void>;
}

/**
 * The addresses of the loopback interface. A browser goes to either for a name below `localhost` (RFC 6761), the last one first: a
 * program that had one of them at another's port would be sent what is meant for the other.
 */
export const loopbackHosts = ['127.0.0.1', '::1'] as const;

const withoutIpv6 = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT']);
/** A port that was drawn for the first address may be taken at the other one. */
const maxDraws = 20;

/** No program can listen there, because this machine has no IPv6. */
export function isAbsentHost(host: string, error: unknown): boolean {
  return host === '::1' && withoutIpv6.has(errorCode(error) ?? '');
}

/** `create` is called for each address. Rejects with ListenError or the system's error, and nothing listens then. */
export async function listenAt<S extends Server>(
  create: () => S,
  address: ListenAddress,
): Promise<ListeningServers<S>> {
  switch (address.kind) {
    case 'tcp': {
      const { host, port } = address;
      return listening([await listen(create(), { host, port })]);
    }
    case 'loopback':
      return listening(await listenOnLoopback(create, address.port));
    case 'unix': {
      const server = create();
      try {
        const release = await listenOnSocketFile((path) => listen(server, { path }), address);
        return { servers: [server], shown: address.path, port: 0, release };
      } catch (error) {
        server.close();
        throw error;
      }
    }
    default:
      return unreachable(address);
  }
}

/** For people, of what was asked for: port 0 is not yet one. */
export function shownAddress(address: ListenAddress): string {
  switch (address.kind) {
    case 'tcp':
      return hostAndPort(address.host, address.port);
    case 'loopback':
      return loopbackHosts.map((host) => hostAndPort(host, address.port)).join(', ');
    case 'unix':
      return address.path;
    default:
      return unreachable(address);
  }
}

function listening<S extends Server>(servers: readonly S[]): ListeningServers<S> {
  const addresses = servers.map((server) => server.address() as AddressInfo);
  const shown = addresses.map(({ address, port }) => hostAndPort(address, port)).join(', ');
  return { servers, shown, port: addresses[0]?.port ?? 0, release: async () => undefined };
}

async function listenOnLoopback<S extends Server>(create: () => S, port: number): Promise<readonly S[]> {
  for (let draw = 1; ; draw++) {
    const servers: S[] = [];
    try {
      for (const host of loopbackHosts) {
        const server = await listenUnlessAbsent(create(), host, portOf(servers[0]) || port);
        if (server) servers.push(server);
      }
      return servers;
    } catch (error) {
      await Promise.all(servers.map(closed));
      const isDrawn = port === 0 && error instanceof ListenError && draw < maxDraws;
      if (!isDrawn) throw error;
    }
  }
}

/** Undefined where the machine has no such address. */
async function listenUnlessAbsent<S extends Server>(server: S, host: string, port: number): Promise<S | undefined> {
  try {
    return await listen(server, { host, port });
  } catch (cause) {
    if (isAbsentHost(host, cause)) return undefined;
    if (errorCode(cause) !== 'EADDRINUSE') throw cause;
    throw new ListenError('PORT_IN_USE', `port ${port} is in use on ${host}: choose another one`, { cause });
  }
}

/** Closes the server when it cannot listen, so that it follows nothing any more. */
function listen<S extends Server>(server: S, where: ListenOptions): Promise<S> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      server.close();
      reject(error);
    };
    server.once('error', onError);
    server.listen(where, () => {
      server.off('error', onError);
      resolve(server);
    });
  });
}

/** Takes no connection any more; resolves when those that there are have ended. */
export function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

function portOf(server: Server | undefined): number {
  const address = server?.address() ?? null;
  return typeof address === 'object' && address !== null ? address.port : 0;
}

function hostAndPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
