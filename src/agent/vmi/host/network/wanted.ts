import type { Address } from './addresses.ts';

/** A link as it should be; what is absent here stays as it is. */
export interface WantedLink {
  readonly name: string;
  /** Made when it is missing. `adopted`: the CNI plug-in's, found by its index and renamed. */
  readonly kind: 'bridge' | 'tap' | 'dummy' | 'adopted';
  readonly index?: number;
  readonly mac?: string;
  readonly mtu?: number;
  readonly master?: string;
  readonly isUp: boolean;
  readonly addresses: readonly Address[];
  /** `false`: the bridge does not learn where guests are from frames that came in by this port. */
  readonly learning?: false;
  readonly tap?: { readonly owner: number; readonly isMultiQueue: boolean };
}

/** A file below `/proc/sys`. */
export interface Setting {
  readonly name: string;
  readonly value: string;
}

/** What the pod's link was before it became a port of a bridge; nothing else remembers it then. */
export type OriginalLink = {
  readonly index: number;
  readonly mac: string;
  readonly mtu: number;
  readonly addresses: readonly Address[];
};
