/** Something read from outside that may be missing yet and may change: a key pair, a bundle of authorities, a setting. */
export interface ChangingValue<T> {
  /** Undefined: not there yet. The last good one stays when what came later cannot be used. */
  readonly current: T | undefined;
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}
