export interface NumaCell {
  readonly id: number;
  readonly memory?: { readonly amount: number; readonly unit: string };
  readonly pages: readonly { readonly count: number; readonly unit: string; readonly size: number }[];
  readonly distances: readonly { readonly id: number; readonly value: number }[];
  readonly cpus: readonly { readonly id: number; readonly siblings: readonly number[] }[];
}

/** Node facts that are the same for all VMIs. */
export interface HostFacts {
  readonly nodeName: string;
  readonly topology?: readonly NumaCell[] | undefined;
  /** SELinux label of a launcher, `none` where SELinux is off; empty: it is not known (without a pid, say). Never throws. */
  selinuxContext(launcherPid: number | undefined): string;
  /** CPU model of a guest with `host-model`; empty: this node has none; undefined: not known. */
  readonly hostModel?: string | undefined;
  /** Of this machine, in Kubernetes' word: `amd64`. */
  readonly architecture?: string;
  /** Bytes of files inside a launcher's container; what is no plain file is left out. Never throws. */
  fileSizes?(launcherPid: number, paths: readonly string[]): Readonly<Record<string, number>>;
  /** CPUs that a launcher's pod may use, ascending. Throws when they cannot be read. */
  cpuSet?(launcherPid: number): readonly number[];
}
