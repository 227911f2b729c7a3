import type { Pod } from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { PodMemories } from './memory.ts';
import type { PodProbes, ProbeState } from './pod-probes.ts';
import type { PodSource } from './ports.ts';
import type { Obstacle } from './project.ts';
import type { Sandboxes, SandboxState } from './sandbox.ts';

interface SandboxObservation extends Observed {
  readonly sandbox: SandboxState;
}

/** The complete list of this node's pods does not have it. */
export interface OrphanSandbox extends SandboxObservation {
  readonly kind: 'orphan';
}

export interface PresentPod extends SandboxObservation {
  readonly kind: 'present';
  readonly pod: Pod;
  /** Why it could not be started the last time. */
  readonly obstacle: Obstacle | undefined;
  /** When the pod was asked to end; undefined: not yet. */
  readonly terminatingSinceMs: number | undefined;
  /** The node is being stopped together with its pods. */
  readonly isDraining: boolean;
  /** What its probes have said; undefined: they were never begun here. */
  readonly probes: ProbeState | undefined;
  /** When the files of its secrets and config maps were last made what those are; undefined: not by this process. */
  readonly objectsAtMs: number | undefined;
}

/** Everything a decision about one pod rests on. Its key is the UID: a name may be used again. */
export type PodObservation = OrphanSandbox | PresentPod;

export interface ObserveDeps {
  readonly pods: Pick<PodSource, 'get'>;
  readonly sandboxes: Pick<Sandboxes, 'inspect' | 'terminatingSinceMs'>;
  readonly memories: PodMemories;
  readonly probes: Pick<PodProbes, 'state'>;
  readonly isDraining: () => boolean;
  readonly clock: Clock;
}

/** Reads the list of pods and the disk: what was begun by an earlier process is seen like the own. */
export async function observePod(uid: string, deps: ObserveDeps): Promise<PodObservation> {
  const { pods, sandboxes, memories, probes, isDraining, clock } = deps;
  const pod = pods.get(uid);
  const sandbox = await sandboxes.inspect(uid);
  const terminatingSinceMs = await sandboxes.terminatingSinceMs(uid);
  const observed = { key: uid, uid, now: clock.now(), sandbox };
  if (!pod) return { ...observed, kind: 'orphan' };
  const { obstacle, objects } = memories.of(uid);
  const present = {
    ...observed,
    kind: 'present',
    pod,
    obstacle,
    terminatingSinceMs,
    objectsAtMs: objects?.atMs,
  } as const;
  return { ...present, isDraining: isDraining(), probes: probes.state(uid) };
}
