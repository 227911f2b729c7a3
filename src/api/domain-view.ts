import type { Domain } from './domain.ts';

export type GoneProof =
  /** The launcher answered "no domain", or sent the deletion event. */
  | 'launcher-says-none'
  /** Its process ended and nothing listens on its socket. */
  | 'launcher-dead';

/**
 * What is known about the domain of one VMI UID. "Unknown" and "absent" prove nothing.
 * `seenMs`: monotonic time at which it was read from the launcher. `askedMs`: when the question was sent that this answers;
 * absent for what a launcher reported by itself, which may be older than it looks.
 */
export type DomainView =
  | {
      readonly kind: 'present';
      readonly uid: string;
      readonly domain: Domain;
      readonly seenMs: number;
      readonly askedMs?: number;
    }
  /**
   * Proven. A launcher that never had a domain is `gone` with `launcher-says-none` and without `lastDomain`: for a VMI
   * that was not started yet this is the normal state.
   */
  | {
      readonly kind: 'gone';
      readonly uid: string;
      readonly proof: GoneProof;
      readonly lastDomain?: Domain;
      readonly seenMs: number;
      readonly askedMs?: number;
    }
  /** The launcher could not be asked, or gave no usable answer, since `sinceMs`. */
  | {
      readonly kind: 'unknown';
      readonly uid: string;
      readonly reason: string;
      readonly sinceMs: number;
      readonly lastDomain?: Domain;
      readonly seenMs: number;
    }
  /** Never heard of since this process started. */
  | { readonly kind: 'absent' };
