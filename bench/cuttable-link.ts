import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parse } from 'yaml';

/** Bytes between an agent and its API server, and a way to cut them off. */
export interface CuttableLink {
  /** A copy of the kubeconfig that leads through here. */
  readonly kubeconfig: string;
  /** All connections end at once, watches among them; new ones are taken. */
  cut(): void;
  stop(): Promise<void>;
}

export async function cuttableLink(kubeconfig: string, copy: string): Promise<CuttableLink> {
  const config = parse(readFileSync(kubeconfig, 'utf8'));
  const { cluster } = config.clusters[0];
  const target = new URL(cluster.server);
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.once('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cluster.server = `${target.protocol}//127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(copy, JSON.stringify(config), { mode: 0o600 });
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    kubeconfig: copy,
    cut,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
  };
}
