/** The longest reason a close frame can carry: 125 bytes less its code (RFC 6455 §5.5). */
const maxReasonBytes = 123;

/** Why a session ends, as its close frame says. */
export interface SessionEnd {
  readonly code: number;
  readonly reason: string;
}

/** Numbers of RFC 6455 §7.4; those from 4000 are ours. */
const codes = {
  guestClosed: 1000,
  leaving: 1001,
  protocol: 1002,
  unsupported: 1003,
  tooBig: 1009,
  internal: 1011,
  takenOver: 4001,
  tooSlow: 4002,
  gone: 4003,
  moved: 4004,
} as const;

export function sessionEnd(why: keyof typeof codes, reason: string): SessionEnd {
  return { code: codes[why], reason: fitReason(reason) };
}

/** Cut to what fits a close frame, at a character's end. */
function fitReason(reason: string): string {
  if (Buffer.byteLength(reason) <= maxReasonBytes) return reason;
  const { written } = new TextEncoder().encodeInto(reason, new Uint8Array(maxReasonBytes - 3));
  return `${Buffer.from(reason).subarray(0, written)}…`;
}

/** The guest's end of the stream is over: it may run on elsewhere. */
export function isByGuest({ code }: SessionEnd): boolean {
  return code === codes.guestClosed;
}
