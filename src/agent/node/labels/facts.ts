import type { DomainFacts, MachineFacts } from './documents.ts';

/** Something that may not be known: then nothing that follows from it is changed. */
export type Known<T> =
  | { readonly kind: 'known'; readonly value: T /** Where it was read. */; readonly from: string }
  | { readonly kind: 'unknown'; readonly because: string };

/** All that the labels of this node follow from, apart from the cluster's configuration. */
export interface LabelFacts {
  /** Kubernetes' word: `amd64`. */
  readonly arch: string;
  readonly domain: Known<DomainFacts>;
  readonly machine: Known<MachineFacts>;
  /** Features that guests can have. */
  readonly features: Known<readonly string[]>;
  /** Architectures that are emulated here, in Kubernetes' words. */
  readonly foreignArchs: Known<readonly string[]>;
  /** Real-time threads may use all the time there is. */
  readonly realtime: Known<boolean>;
}

/** Only these have CPU models, features and a host model that guests are matched by. */
export function hasCpuModels(arch: string): boolean {
  return arch === 'amd64' || arch === 's390x';
}

/** Known facts in another form; what is not known stays so. */
export function mapKnown<T, U>(known: Known<T>, map: (value: T) => U): Known<U> {
  return known.kind === 'unknown' ? known : { ...known, value: map(known.value) };
}
