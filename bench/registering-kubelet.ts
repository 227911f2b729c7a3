import path from 'node:path';
import { credentials, Server } from '@grpc/grpc-js';
import { clientOptions, devicePlugin, serverOptions, serveUnix, unixTarget } from '../src/wire/index.ts';

/**
 * What of a kubelet an agent's health may depend on: it takes registrations of device plugins and listens to their lists, and
 * hands out nothing. `dir` is the agent's /var/lib/kubelet.
 */
export async function registeringKubelet(dir: string): Promise<() => Promise<void>> {
  const directory = path.join(dir, 'device-plugins');
  const plugins = new Map<string, () => void>();
  const server = new Server(serverOptions());
  const handlers: devicePlugin.RegistrationServer = {
    register: ({ request }, answer) => {
      plugins.get(request.endpoint)?.();
      plugins.set(request.endpoint, listenTo(path.join(directory, request.endpoint)));
      answer(null, {});
    },
  };
  server.addService(devicePlugin.RegistrationService, handlers);
  const listener = await serveUnix(server, path.join(directory, 'kubelet.sock'));
  return async () => {
    for (const end of plugins.values()) end();
    await listener.close();
  };
}

function listenTo(socket: string): () => void {
  const name = unixTarget(socket);
  const client = new devicePlugin.DevicePluginClient(name.target, credentials.createInsecure(), clientOptions());
  const stream = client.listAndWatch({});
  stream.on('data', () => undefined);
  // The plugin left, or this bench ends.
  stream.on('error', () => undefined);
  return () => {
    stream.cancel();
    client.close();
    name.close();
  };
}
