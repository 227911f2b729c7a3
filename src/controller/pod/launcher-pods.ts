import { type Key, keyOf, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { podFacts } from './facts.ts';
import { podNames } from './render.ts';

/** Foreign pods with an event, per VMI: a user who makes a thousand of them makes no thousand events. */
const maxReported = 5;

interface Known {
  readonly vmiUid: string | undefined;
  /** Pods that stand, or stood, in `status.activePods`. */
  readonly recorded: Set<string>;
  /** UID of the pod that this process made. */
  made: string | undefined;
  /** Foreign pods that an event was about. */
  readonly reported: Set<string>;
}

export interface ClaimedPods {
  readonly own: readonly Pod[];
  /** They name the VMI as their controller, and are not its launchers. */
  readonly foreign: readonly Pod[];
}

/**
 * Which pods are launchers of a VMI. An owner reference proves nothing, nor do labels and annotations: each user who may create pods in
 * the namespace chooses them, and what such a pod says would become the state of the VMI. Believed are
 *
 * - pods in `status.activePods`, which only KubeVirt's programs write; so did upstream's controller, whose pods are taken over, and the
 *   controller of migrations has to do so, too;
 * - the pod that this process made and did not record yet: its name has letters that no client could know before it was there.
 *
 * A pod that an earlier process made and could not record any more is foreign: it is replaced before anything ran in it.
 */
export class LauncherPods {
  /** No other process knows it; each has another one. */
  readonly salt: string;
  readonly #known = new Map<Key, Known>();

  constructor(salt: string) {
    this.salt = salt;
  }

  /** Of pods whose controller is this VMI by their own words. */
  sort(vmi: VirtualMachineInstance, claimed: readonly Pod[]): ClaimedPods {
    const known = this.#of(vmi);
    const own = claimed.filter((pod) => this.#isOwn(vmi, pod, known));
    return { own, foreign: claimed.filter((pod) => !own.includes(pod)) };
  }

  /** Key of the pod that this process makes for the VMI. */
  podKey({ metadata: { namespace, name, uid = '' } }: VirtualMachineInstance): Key {
    return `${namespace}/${podNames(name, uid, this.salt).podName}`;
  }

  /** The API server has answered that it made this pod for us. */
  made(vmi: VirtualMachineInstance, pod: Pod): void {
    this.#of(vmi).made = pod.metadata.uid;
  }

  /** Foreign pods without an event so far. They count as reported from now on. */
  newForeign(vmi: VirtualMachineInstance, foreign: readonly Pod[]): readonly Pod[] {
    const { reported } = this.#of(vmi);
    const news = foreign
      .filter(({ metadata: { uid = '' } }) => !reported.has(uid))
      .slice(0, maxReported - reported.size);
    for (const { metadata } of news) reported.add(metadata.uid ?? '');
    return news;
  }

  /** The VMI is no more. */
  forget(key: Key): void {
    this.#known.delete(key);
  }

  #isOwn(vmi: VirtualMachineInstance, pod: Pod, known: Known): boolean {
    const { name, uid } = pod.metadata;
    if (podFacts.controllerUid(pod) !== vmi.metadata.uid || uid === undefined) return false;
    if (known.recorded.has(uid)) return true;
    const { podName } = podNames(vmi.metadata.name, vmi.metadata.uid ?? '', this.salt);
    if (name !== podName) return false;
    // The answer to the creation may be lost; but another pod of the name was made after it by another client.
    known.made ??= uid;
    return known.made === uid;
  }

  /** What was recorded once stays so, also when a list of pods that was old has let it slip out of the record. */
  #of(vmi: VirtualMachineInstance): Known {
    const key = keyOf(vmi);
    const vmiUid = vmi.metadata.uid;
    let known = this.#known.get(key);
    if (known?.vmiUid !== vmiUid || !known) {
      known = { vmiUid, recorded: new Set(), made: undefined, reported: new Set() };
      this.#known.set(key, known);
    }
    for (const uid of Object.keys(vmi.status?.activePods ?? {})) known.recorded.add(uid);
    return known;
  }
}
