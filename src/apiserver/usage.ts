export interface Usage {
  readonly cpuNanocores: number;
  readonly memoryBytes: number;
}

/** What was used between two looks. */
export interface UsageSample {
  readonly at: Date;
  readonly windowMs: number;
  /** Of the machine, which is each node of it. */
  readonly machine: Usage;
  /** By the pods' UIDs; of those whose processes live. */
  readonly pods: ReadonlyMap<string, Usage>;
}

/** Where figures of CPU and memory come from. */
export interface UsageSource {
  sample(): Promise<UsageSample>;
}
