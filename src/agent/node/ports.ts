import type { KubeObject } from '../../api/index.ts';
import type { AgentConfig, ConfigOrigin } from '../../cluster-config/index.ts';

/** What the agent reads of its own Node: labels and annotations, which others write, too. */
export type Node = KubeObject;

/** This node's object, from a watch of one object. */
export interface OwnNode {
  /** Undefined: not read yet, or deleted. Shared: copy before changing. */
  readonly current: Node | undefined;
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** Effective KubeVirt configuration, parsed once per version of the object. */
export interface ClusterSettings {
  /** The last good one; the defaults while there never was any. */
  readonly current: AgentConfig;
  /**
   * What is configured, and what is not, is known: a usable object was read at some time, or the objects were listed and there is
   * none. Nothing is taken back before.
   */
  readonly isKnown: boolean;
  readonly origin: ConfigOrigin;
  /** Why the newest object does not count; undefined: it does, or there is none. */
  readonly problem: string | undefined;
  /**
   * Calls back at once with the selected part, then each time that part is really another one (by value). The returned function
   * ends it.
   */
  select<T>(read: (config: AgentConfig) => T, onChange: (value: T) => void): () => void;
}

/** Something for which the node should take no VMIs now. How long it must last is the heartbeat's. */
export interface NodeProblem {
  readonly source: 'agent' | 'api' | 'sockets' | 'devices' | 'libvirt-files';
  /** CamelCase, constant: reason of the event, value of the metric's label. */
  readonly reason: string;
  /** One sentence for people, which says what to do. */
  readonly message: string;
  /** Monotonic. */
  readonly sinceMs: number;
}

export interface ProblemSource {
  problems(): readonly NodeProblem[];
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** What the heartbeat last published, for metrics and for `/state`. */
export interface NodeHealth {
  /** As last written; undefined: nothing could be written yet. */
  readonly schedulable: boolean | undefined;
  /** Those that keep the node unschedulable, and those that do not yet. */
  readonly problems: readonly NodeProblem[];
  /** Monotonic time of the last heartbeat that the API server took. */
  readonly lastSuccessMs: number | undefined;
  readonly failures: number;
}
