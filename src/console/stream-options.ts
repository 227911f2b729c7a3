export interface StreamOptions {
  /** Longest time until the guest's device answers. */
  readonly connectTimeoutMs: number;
  /** A console's broadcast stays open so long after the last session that could resume. */
  readonly lingerMs: number;
  /** What a console's broadcast remembers. */
  readonly scrollbackBytes: number;
  /** A console's viewer that is further behind than this for longer than `behindMs` is sent away. */
  readonly behindBytes: number;
  readonly behindMs: number;
  /** Silence until a ping; two without an answer end the connection. */
  readonly pingIntervalMs: number;
  /** Longest message of a client. */
  readonly maxMessageBytes: number;
  /** From the close frame to the end of the connection. */
  readonly closeTimeoutMs: number;
}

export const defaultStreamOptions: StreamOptions = {
  connectTimeoutMs: 5000,
  lingerMs: 60_000,
  scrollbackBytes: 131_072,
  behindBytes: 262_144,
  behindMs: 10_000,
  pingIntervalMs: 30_000,
  maxMessageBytes: 1_048_576,
  closeTimeoutMs: 5000,
};
