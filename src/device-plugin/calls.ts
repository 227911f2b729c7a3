import { type ClientUnaryCall, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { type CodedError, errorMessage } from '../base/index.ts';
import { clientOptions, devicePlugin, unixTarget } from '../wire/index.ts';
import { DevicePluginError } from './errors.ts';

export interface CallLimits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The version of the API, as the kubelet wants to hear it. */
const apiVersion = 'v1beta1';

/**
 * Registers a plugin with the kubelet. It dials the plugin before it answers. Rejects with DevicePluginError KUBELET_UNREACHABLE,
 * KUBELET_SILENT or KUBELET_REFUSED.
 */
export async function registerPlugin(
  kubeletSocket: string,
  plugin: { readonly endpoint: string; readonly resourceName: string },
  limits: CallLimits,
): Promise<void> {
  const request = {
    version: apiVersion,
    endpoint: plugin.endpoint,
    resource_name: plugin.resourceName,
    options: undefined,
  };
  const options = clientOptions();
  await overSocket(kubeletSocket, limits.signal, (target, done) => {
    const client = new devicePlugin.RegistrationClient(target, credentials.createInsecure(), options);
    return { client, call: client.register(request, new Metadata(), deadlineOf(limits), done) };
  });
}

/** Proves that a plugin's socket serves. Rejects as `registerPlugin`. */
export async function askPlugin(socket: string, limits: CallLimits): Promise<void> {
  await overSocket(socket, limits.signal, (target, done) => {
    const client = new devicePlugin.DevicePluginClient(target, credentials.createInsecure(), clientOptions());
    return { client, call: client.getDevicePluginOptions({}, new Metadata(), deadlineOf(limits), done) };
  });
}

interface Running {
  readonly client: { close(): void };
  readonly call: ClientUnaryCall;
}
type Done = (error: ServiceError | null) => void;

/** One call over a connection of its own: nothing of an earlier kubelet's connection plays a role. */
async function overSocket(
  socket: string,
  signal: AbortSignal,
  begin: (target: string, done: Done) => Running,
): Promise<void> {
  signal.throwIfAborted();
  const name = openTarget(socket);
  let running: Running | undefined;
  const cancel = () => running?.call.cancel();
  try {
    await new Promise<void>((resolve, reject) => {
      running = begin(name.target, (error) => (error ? reject(error) : resolve()));
      signal.addEventListener('abort', cancel, { once: true });
    });
  } catch (error) {
    signal.throwIfAborted();
    throw mapped(error);
  } finally {
    signal.removeEventListener('abort', cancel);
    running?.client.close();
    name.close();
  }
}

function openTarget(socket: string): ReturnType<typeof unixTarget> {
  try {
    return unixTarget(socket);
  } catch (cause) {
    throw new DevicePluginError('KUBELET_UNREACHABLE', errorMessage(cause), { cause });
  }
}

function deadlineOf({ timeoutMs }: CallLimits): { deadline: number } {
  return { deadline: Date.now() + timeoutMs };
}

function mapped(cause: unknown): CodedError<string> {
  const { code, details } = cause as Partial<ServiceError>;
  const text = details || errorMessage(cause);
  switch (code) {
    case status.UNAVAILABLE:
    case status.UNIMPLEMENTED:
      return new DevicePluginError('KUBELET_UNREACHABLE', text, { cause });
    case status.DEADLINE_EXCEEDED:
      return new DevicePluginError('KUBELET_SILENT', 'no answer in time', { cause });
    default:
      return new DevicePluginError('KUBELET_REFUSED', text, { cause });
  }
}
