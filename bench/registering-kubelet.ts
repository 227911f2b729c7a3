import path from 'node:path';
import { Server, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { serverOptions, serveUnix } from '../src/wire/index.ts';

/**
 * The one thing of a kubelet that an agent's heartbeat may wait for: it takes registrations of device plugins, whatever is in
 * them. `dir` is the agent's /var/lib/kubelet.
 */
export async function registeringKubelet(dir: string): Promise<() => Promise<void>> {
  const bytes = { serialize: (value: Buffer) => value, deserialize: (value: Buffer) => value };
  const server = new Server(serverOptions());
  const register = {
    path: '/v1beta1.Registration/Register',
    requestStream: false,
    responseStream: false,
    ...{ requestSerialize: bytes.serialize, requestDeserialize: bytes.deserialize },
    ...{ responseSerialize: bytes.serialize, responseDeserialize: bytes.deserialize },
  } as const;
  server.addService(
    { register },
    {
      register: (_call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) =>
        answer(null, Buffer.alloc(0)),
    },
  );
  const listener = await serveUnix(server, path.join(dir, 'device-plugins/kubelet.sock'));
  return () => listener.close();
}
