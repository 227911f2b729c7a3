import type { PersistentVolumeClaim } from '../../api/index.ts';

/** Where the disk of a claim is, once the claim is bound. */
export interface ClaimPlace {
  /** The storage's name of it. */
  readonly volume: string;
  /** What the claim has. */
  readonly sizeBytes: number;
}

/** What a claim without a volume waits for, as its storage sees it. `change`: a user has to do something; `refused`: it never will have one. */
export type Awaited =
  | { readonly kind: 'nothing' | 'consumer' }
  | { readonly kind: 'source'; readonly isInUse: boolean; readonly why: string }
  | { readonly kind: 'refused' | 'change'; readonly why: string };

/** The node's storage, as far as claims are filled. */
export interface ClaimPlaces {
  /** On the file system of the claims: a rename from there is a move. */
  readonly workRoot: string;
  /** Undefined: the claim has no volume yet. Rejects with NodeError when it never will have one. */
  placeOf(claim: PersistentVolumeClaim): Promise<ClaimPlace | undefined>;
  /** Of a claim without a place. */
  awaitedBy(claim: PersistentVolumeClaim): Promise<Awaited>;
  /** The disk, a file below `workRoot`, becomes the claim's: whole, synced, and as large as the claim is by then. No pod has it. */
  put(place: ClaimPlace, disk: string): Promise<void>;
}
