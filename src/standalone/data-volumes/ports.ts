import type { PersistentVolumeClaim } from '../../api/index.ts';

/** Where the disk of a claim is, once the claim is bound. */
export interface ClaimPlace {
  /** A file that the node's own programs may replace whole by renaming another one onto it. */
  readonly file: string;
  /** What the claim has. */
  readonly sizeBytes: number;
  readonly owner: { readonly uid: number; readonly gid: number };
}

/** The node's storage, as far as claims are filled. */
export interface ClaimPlaces {
  /** On the file system of the claims: a rename from there is a move. */
  readonly workRoot: string;
  /** Undefined: the claim has no volume yet. Rejects with NodeError when it never will have one. */
  placeOf(claim: PersistentVolumeClaim): Promise<ClaimPlace | undefined>;
  /** All that was written to the disk is in its file, and nothing keeps that open. No pod has it. */
  settle(file: string): Promise<void>;
}
