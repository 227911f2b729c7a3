import { jsonRecord } from '../base/index.ts';

export type Role = 'writer' | 'viewer';

/** What the server notifies clients of `session.virt-handler.io` of, one JSON object per text message. */
export type Notice =
  /**
   * The first message; and again when a viewer was too slow and bytes had to be left out. A byte's offset is the number of
   * bytes that the guest sent before it since `line`, the connection to it, was opened. The next binary byte has the offset `offset`, so a client that adds up
   * what it receives can go on later with `?line=<line>&from=<offset>`.
   */
  | {
      readonly kind: 'attached';
      readonly role: Role;
      readonly line: string;
      readonly offset: number;
      /** So many of the next bytes are of the past. */
      readonly replayed: number;
      /** So many bytes between those that were asked for and `offset` are no longer remembered. */
      readonly lost: number;
    }
  | { readonly kind: 'role'; readonly role: Role; readonly reason: string }
  | { readonly kind: 'viewers'; readonly count: number };

/** To who asks for more with `access=view-only`. */
export const mayNotTake = 'you may look on, and no more';

/** What a client may say. `take`: it wants to be the writer. */
export type ConsoleCommand = { readonly kind: 'take' };

/** Longest text message that is looked at. */
export const maxCommandBytes = 4096;

/** `unknown` is left to clients newer than this; `malformed` is none of ours. */
export function parseCommand(text: Buffer): ConsoleCommand | 'unknown' | 'malformed' {
  const value = jsonRecord(text.toString('utf8'));
  if (typeof value?.kind !== 'string') return 'malformed';
  return value.kind === 'take' ? { kind: 'take' } : 'unknown';
}
