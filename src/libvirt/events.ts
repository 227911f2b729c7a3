import { type Codec, hyper, int, optional, string, struct, uhyper, uint, type ValueOf } from './codec.ts';
import { domain } from './domain.ts';
import { typedParams } from './typed-params.ts';
import { XdrReader, XdrWriter } from './xdr.ts';

interface EventType<T> {
  /** Number for the registration call. */
  readonly id: number;
  /** Procedure of its messages. */
  readonly procedure: number;
  /** What follows the callback id. */
  readonly payload: Codec<T>;
}

function event<T>(id: number, procedure: number, payload: Codec<T>): EventType<T> {
  return { id, procedure, payload };
}

/** JOB_STATS and TUNABLE lists; the protocol's own bounds are 64 and 2048. */
const params = typedParams(2048);

/** Events of remote_protocol.x. GRAPHICS, RTC and tunables have no reader in this project and are left out. */
export const eventTypes = {
  /** `event` and `detail`: `LifecycleEvent`, `LifecycleDetail`. */
  lifecycle: event(0, 318, struct({ domain, event: int, detail: int })),
  reboot: event(1, 319, struct({ domain })),
  watchdog: event(3, 321, struct({ domain, action: int })),
  ioError: event(4, 322, struct({ domain, path: string, alias: string, action: int })),
  ioErrorReason: event(6, 324, struct({ domain, path: string, alias: string, action: int, reason: string })),
  controlError: event(7, 325, struct({ domain })),
  diskChange: event(
    9,
    327,
    struct({ domain, oldPath: optional(string), newPath: optional(string), alias: string, reason: int }),
  ),
  trayChange: event(10, 328, struct({ domain, alias: string, reason: int })),
  pmWakeup: event(11, 329, struct({ reason: int, domain })),
  pmSuspend: event(12, 330, struct({ reason: int, domain })),
  balloonChange: event(13, 331, struct({ domain, actualKiB: uhyper })),
  deviceRemoved: event(15, 333, struct({ domain, alias: string })),
  blockJob: event(16, 339, struct({ domain, disk: string, type: int, status: int })),
  /** `state` and `reason`: `AgentState`, `AgentReason`. */
  agentLifecycle: event(18, 348, struct({ domain, state: int, reason: int })),
  deviceAdded: event(19, 354, struct({ domain, alias: string })),
  migrationIteration: event(20, 359, struct({ domain, iteration: int })),
  /** `params`: job statistics, `operation` (JobOperation), `success`, `errmsg`. */
  jobCompleted: event(21, 363, struct({ domain, params })),
  deviceRemovalFailed: event(22, 367, struct({ domain, alias: string })),
  metadataChange: event(23, 379, struct({ domain, type: int, uri: optional(string) })),
  blockThreshold: event(
    24,
    385,
    struct({ domain, device: string, path: optional(string), threshold: uhyper, excess: uhyper }),
  ),
  memoryFailure: event(25, 423, struct({ domain, recipient: int, action: int, flags: uint })),
  memoryDeviceSizeChange: event(26, 438, struct({ domain, alias: string, sizeBytes: uhyper })),
  rtcChange: event(2, 320, struct({ domain, offsetSeconds: hyper })),
} as const;

export type EventKind = keyof typeof eventTypes;

/** What a subscriber of `Kind` gets: its fields (always with `domain`) and its kind. */
export type LibvirtEvent<Kind extends EventKind = EventKind> = {
  [K in Kind]: ValueOf<(typeof eventTypes)[K]['payload']> & { readonly kind: K };
}[Kind];

export type EventCallback<Kind extends EventKind> = (event: LibvirtEvent<Kind>) => void;

const kindsByProcedure = new Map<number, EventKind>(
  Object.entries(eventTypes).map(([kind, { procedure }]) => [procedure, kind as EventKind]),
);

/** Which event a message's procedure number stands for; undefined when this client does not know it. */
export function eventKindOf(procedure: number): EventKind | undefined {
  return kindsByProcedure.get(procedure);
}

/** The callback id that every event message starts with, and what follows. Throws `XdrError`. */
export function decodeEvent(kind: EventKind, bytes: Buffer): { callbackId: number; event: LibvirtEvent } {
  const reader = new XdrReader(bytes);
  const callbackId = reader.int();
  const fields = eventTypes[kind].payload.decode(reader);
  reader.end();
  return { callbackId, event: { ...fields, kind } as LibvirtEvent };
}

/** The daemon's side of `decodeEvent`; for fake peers. */
export function encodeEvent<Kind extends EventKind>(callbackId: number, event: LibvirtEvent<Kind>): Buffer {
  const writer = new XdrWriter();
  writer.int(callbackId);
  const payload: Codec<unknown> = eventTypes[event.kind].payload;
  payload.encode(writer, event);
  return writer.bytes();
}
