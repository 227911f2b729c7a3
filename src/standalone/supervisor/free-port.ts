import { createServer } from 'node:net';
import { errorCode } from '../../base/index.ts';
import { isAbsentHost } from '../../http/index.ts';
import { NodeError } from '../errors.ts';

/** The first port from `first` on without a listener, at any of these addresses. Throws NodeError when a hundred are taken. */
export async function freePort(hosts: readonly string[], first: number): Promise<number> {
  for (let port = first; port < first + 100; port++) if (await isFree(hosts, port)) return port;
  throw new NodeError(
    'CHILD_FAILED',
    `ports ${first} to ${first + 99} on ${hosts.join(' and ')} are all taken: choose another --api-port`,
  );
}

async function isFree(hosts: readonly string[], port: number): Promise<boolean> {
  for (const host of hosts) if (!(await isFreeAt(host, port))) return false;
  return true;
}

/** An address that the machine has not got has no listener. */
function isFreeAt(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if (errorCode(error) === 'EADDRINUSE') resolve(false);
      else if (isAbsentHost(host, error)) resolve(true);
      else reject(error);
    });
    server.listen({ host, port }, () => server.close(() => resolve(true)));
  });
}
