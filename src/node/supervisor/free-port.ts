import { createServer } from 'node:net';
import { errorCode } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

/** The first port from `first` on that nobody listens on. Throws NodeError when a hundred are taken. */
export async function freePort(host: string, first: number): Promise<number> {
  for (let port = first; port < first + 100; port++) if (await isFree(host, port)) return port;
  throw new NodeError(
    'CHILD_FAILED',
    `ports ${first} to ${first + 99} on ${host} are all taken: choose another --api-port`,
  );
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if (errorCode(error) === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen({ host, port }, () => server.close(() => resolve(true)));
  });
}
