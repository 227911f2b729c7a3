import { occurrences } from './occurrences.ts';

/** What a guest wrote to its console before this broadcast was connected to it, from a log of it. */
export interface ConsolePast {
  /** Name of the log as a line: offsets of its bytes mean the same to every later broadcast. 1 to 64 letters, digits, `.`, `_`, `-`. */
  readonly line: string;
  /** Offset behind its last byte. */
  readonly end: number;
  /** The bytes before `end`, as many as are remembered. */
  readonly bytes: Buffer;
}

/** A past whose log can be read again: where it meets the stream is found when the stream has begun. */
export interface JoinedPast extends ConsolePast {
  /** The stream begins nowhere before this offset: so long was the log before the console was connected to. */
  readonly floor: number;
  /** Undefined: the log cannot be read. */
  readonly readAgain: () => Promise<ConsolePast | undefined>;
}

/** The past of a console whose log was read before it was connected to and afterwards. */
export function joinedPast(
  before: ConsolePast | undefined,
  after: ConsolePast | undefined,
  readAgain: JoinedPast['readAgain'],
): JoinedPast | undefined {
  return (
    after && { ...after, floor: before?.line === after.line ? before.end : after.end - after.bytes.length, readAgain }
  );
}

/** What came through a connection before its past was met. */
export interface Heard {
  readonly bytes: Buffer;
  /** So many had come some time before the log was read: it has all of these. */
  readonly logged: number;
}

/** Compared at most; a terminal's line is far shorter. */
const comparedBytes = 4_096;

interface Meeting {
  readonly offset: number;
  /** No other place looks the same. */
  readonly isOnly: boolean;
}

/**
 * The offset in a log of the first byte that was heard. QEMU writes each byte to its client and then to the log, and to the log alone before it has taken the
 * connection, which may be after `connect` has succeeded: so the log has all that was heard (but for the last moment), and maybe more that is on its way. Of several
 * places that look the same, as in a flood of one repeated line, the last possible one: with more that is heard they become fewer. Undefined: it is nowhere there.
 */
export function meetingOffset(log: ConsolePast, { bytes: heard, logged }: Heard, floor: number): Meeting | undefined {
  const start = log.end - log.bytes.length;
  const compared = heard.subarray(0, comparedBytes);
  const lowest = Math.max(floor, start) - start;
  const places = occurrences(compared, log.bytes, lowest);
  const whole = places.filter((at) => at <= log.bytes.length - heard.length);
  // All of it is in the log, or its end is not yet.
  const found = whole.at(-1) ?? places.find((at) => at <= log.bytes.length - logged);
  if (found !== undefined) return { offset: start + found, isOnly: whole.length <= 1 };
  return logged === 0 || floor >= log.end ? { offset: log.end, isOnly: true } : undefined;
}

export interface Continuation {
  readonly bytes: Buffer;
  /** So many of the bytes that come next have been shown already. */
  readonly repeated: number;
  /** With more that is heard it would be the same. */
  readonly isCertain: boolean;
}

/** What follows a past of which all before its end has been shown, once `heard` has come through the connection and the log was read again. */
export function continuation(
  { line, end: shown, floor }: Omit<JoinedPast, 'readAgain'>,
  log: ConsolePast | undefined,
  heard: Heard,
): Continuation {
  const meeting = log?.line === line ? meetingOffset(log, heard, floor) : undefined;
  if (!log || !meeting) return { bytes: heard.bytes, repeated: 0, isCertain: true };
  const { offset: from, isOnly: isCertain } = meeting;
  if (from <= shown) {
    const repeated = Math.max(0, shown - from - heard.bytes.length);
    return { bytes: heard.bytes.subarray(shown - from), repeated, isCertain };
  }
  const start = log.end - log.bytes.length;
  const unseen = log.bytes.subarray(Math.max(0, shown - start), from - start);
  return { bytes: Buffer.concat([unseen, heard.bytes]), repeated: 0, isCertain };
}
