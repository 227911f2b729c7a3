import type { KubeVirt } from './active-kubevirt.ts';

export type ConfigReading<T> =
  | { readonly kind: 'usable'; readonly config: T }
  /** `problem`: each field that cannot be used and what it must be. */
  | { readonly kind: 'unusable'; readonly problem: string };

/** How one program reads the KubeVirt object. Pure. */
export interface ConfigReader<T> {
  /** What counts while there never was an object that could be used. */
  readonly defaults: T;
  read(kubevirt: KubeVirt): ConfigReading<T>;
}
