import { isDeepStrictEqual } from 'node:util';
import { type ServerWritableStream, status } from '@grpc/grpc-js';
import { errorMessage, type Logger } from '../base/index.ts';
import type { devicePlugin } from '../wire/index.ts';
import { type Allocate, allocationMessage, listMessage, type PluginDevice } from './device.ts';
import { DevicePluginError } from './errors.ts';

export interface PluginServiceDeps {
  readonly allocate: Allocate;
  /** The kubelet began to listen to the list of devices, or ceased to. */
  readonly onStreams: () => void;
  readonly log: Logger;
}

type Stream = ServerWritableStream<devicePlugin.Empty, devicePlugin.ListAndWatchResponse>;

interface Listener {
  readonly stream: Stream;
  /** The reader is behind: the newest list follows when it has caught up. */
  isBehind: boolean;
  hasPending: boolean;
}

/**
 * What one plugin answers to the kubelet. Devices are set from outside; every change goes to all who listen, as a whole list,
 * and nothing goes out when nothing changed. A list is never queued twice for a slow reader.
 */
export class PluginService {
  readonly #deps: PluginServiceDeps;
  readonly #listeners = new Set<Listener>();
  /** Undefined: not known yet. The kubelet then hears nothing: an empty list would say that there are none. */
  #devices: readonly PluginDevice[] | undefined;
  #ids: ReadonlySet<string> = new Set();

  constructor(deps: PluginServiceDeps) {
    this.#deps = deps;
  }

  get devices(): readonly PluginDevice[] {
    return this.#devices ?? [];
  }

  /** Kubelets that listen. */
  get listeners(): number {
    return this.#listeners.size;
  }

  setDevices(devices: readonly PluginDevice[]): void {
    if (isDeepStrictEqual(devices, this.#devices)) return;
    this.#devices = devices;
    this.#ids = new Set(devices.map(({ id }) => id));
    for (const listener of this.#listeners) this.#send(listener);
  }

  /** There is no deregistration: an empty list says that the plugin leaves. */
  endStreams(): void {
    for (const { stream } of this.#listeners) {
      stream.write(listMessage([]));
      stream.end();
    }
    this.#listeners.clear();
  }

  readonly handlers: devicePlugin.DevicePluginServer = {
    getDevicePluginOptions: (_call, answer) => answer(null, { pre_start_required: false }),
    preStartContainer: (_call, answer) => answer(null, {}),
    listAndWatch: (stream) => this.#listen(stream),
    allocate: ({ request }, answer) => {
      this.#allocate(request).then(
        (response) => answer(null, response),
        (error: unknown) => {
          this.#deps.log.warn({ reason: errorMessage(error) }, 'devices were not given to a container');
          answer({ code: statusOf(error), details: errorMessage(error) });
        },
      );
    },
  };

  #listen(stream: Stream): void {
    const listener: Listener = { stream, isBehind: false, hasPending: false };
    const gone = () => {
      if (this.#listeners.delete(listener)) this.#deps.onStreams();
    };
    stream.on('drain', () => {
      listener.isBehind = false;
      if (listener.hasPending) this.#send(listener);
    });
    stream.once('cancelled', gone);
    stream.once('close', gone);
    stream.on('error', gone);
    this.#listeners.add(listener);
    this.#send(listener);
    this.#deps.onStreams();
  }

  #send(listener: Listener): void {
    if (this.#devices === undefined) return;
    listener.hasPending = listener.isBehind;
    if (listener.isBehind) return;
    listener.isBehind = !listener.stream.write(listMessage(this.#devices));
  }

  /** One answer for each container, each from its own devices. */
  async #allocate(request: devicePlugin.AllocateRequest): Promise<devicePlugin.AllocateResponse> {
    const wanted = request.container_requests.map(({ devicesIDs }) => [...new Set(devicesIDs)]);
    const unknown = wanted.flat().filter((id) => !this.#ids.has(id));
    if (unknown.length > 0) {
      const shown = unknown.slice(0, 5).map((id) => JSON.stringify(id.slice(0, 100)));
      throw new DevicePluginError('UNKNOWN_DEVICE', `not among the devices of this plugin: ${shown.join(', ')}`);
    }
    const allocations = await Promise.all(wanted.map((ids) => this.#deps.allocate(ids)));
    return { container_responses: allocations.map(allocationMessage) };
  }
}

function statusOf(error: unknown): status {
  if (!(error instanceof DevicePluginError)) return status.INTERNAL;
  return error.code === 'UNKNOWN_DEVICE' ? status.INVALID_ARGUMENT : status.FAILED_PRECONDITION;
}
