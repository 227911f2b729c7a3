/** Bytes that came, read. */
export type Decoded<T> =
  | { readonly kind: 'message'; readonly message: T }
  | { readonly kind: 'malformed'; readonly problem: string };

export interface Peer {
  readonly address: string;
  readonly port: number;
}

/** What a server makes of a packet. */
export type Answer =
  | { readonly kind: 'reply'; readonly bytes: Buffer; readonly to: Peer }
  | { readonly kind: 'ignored'; readonly reason: string }
  | { readonly kind: 'malformed'; readonly problem: string };

export function malformed(problem: string): { readonly kind: 'malformed'; readonly problem: string } {
  return { kind: 'malformed', problem };
}

export function ignored(reason: string): Answer {
  return { kind: 'ignored', reason };
}
