/** What ours does differently on purpose. Everything else that differs is a finding. */
export interface Intended {
  /** All of them unless given. */
  readonly scenario?: RegExp;
  readonly at?: RegExp;
  /** `path: ours | other`. */
  readonly line: RegExp;
  /** Where it says "see …": docs/better-than-upstream.md. */
  readonly why: string;
}

export const intended: readonly Intended[] = [];
