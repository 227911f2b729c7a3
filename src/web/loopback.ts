import type { AddressInfo, Server } from 'node:net';
import { errorCode } from '../base/index.ts';
import { WebError } from './errors.ts';

/**
 * Where a browser goes for a name below `localhost` (RFC 6761), the last one first. Whoever has one of them at the page's port
 * is sent what is meant for the page: both are the page's, or none.
 */
export const loopbackHosts = ['127.0.0.1', '::1'] as const;

const withoutIpv6 = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT']);
/** A port that was drawn for the first address may be taken at the other one. */
const maxDraws = 20;

/** Nobody can listen there, because this machine has no IPv6. */
export function isAbsentHost(host: string, error: unknown): boolean {
  return host === '::1' && withoutIpv6.has(errorCode(error) ?? '');
}

/**
 * A server on each loopback address that there is, all at one port; 0: any that is free at all of them. Throws WebError
 * PORT_IN_USE, or the system's error, and nobody listens then.
 */
export async function listenOnLoopback<T extends Server>(makeServer: () => T, port: number): Promise<readonly T[]> {
  for (let draw = 1; ; draw++) {
    const servers: T[] = [];
    try {
      for (const host of loopbackHosts) {
        const server = await listen(makeServer(), host, portOf(servers[0]) || port);
        if (server) servers.push(server);
      }
      return servers;
    } catch (error) {
      await Promise.all(servers.map(closed));
      const isDrawn = port === 0 && error instanceof WebError && draw < maxDraws;
      if (!isDrawn) throw error;
    }
  }
}

/** 0 while it does not listen. */
export function portOf(server: Server | undefined): number {
  const address: AddressInfo | string | null = server?.address() ?? null;
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Takes no connection any more; resolves when those that there are have ended. */
export function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Undefined where the machine has no such address. */
function listen<T extends Server>(server: T, host: string, port: number): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error) => {
      if (isAbsentHost(host, cause)) resolve(undefined);
      else if (errorCode(cause) !== 'EADDRINUSE') reject(cause);
      else reject(inUse(host, port, cause));
    };
    server.once('error', onError);
    server.listen({ port, host }, () => {
      server.off('error', onError);
      resolve(server);
    });
  });
}

function inUse(host: string, port: number, cause: Error): WebError {
  return new WebError('PORT_IN_USE', `port ${port} for the web page is in use on ${host}: choose another one`, {
    cause,
  });
}
