import { type Key, keyOf, labels, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { podFacts } from './facts.ts';
import { podNames } from './render.ts';
import { temporaryPurpose } from './temporary.ts';

/** Foreign pods with an event, per VMI: a user who makes a thousand of them makes no thousand events. */
const maxReported = 5;
/** A VMI moves once after the other: the last few targets are all that can be unrecorded. */
const maxMade = 32;

interface Known {
  readonly vmiUid: string | undefined;
  /** Pods that stand, or stood, in `status.activePods`. */
  readonly recorded: Set<string>;
  /** UIDs of the pods that this process made, by name: the first launcher, and targets of migrations. */
  readonly made: Map<string, string>;
  /** Foreign pods that an event was about. */
  readonly reported: Set<string>;
  /** The VMI itself was made by this process. */
  isOnlyHere: boolean;
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
 * - pods in `status.activePods`, which only KubeVirt's programs write; so did upstream's controller, whose pods are taken over;
 * - a pod that this process made and did not record yet, as first launcher or as target of a migration: its name has letters that no
 *   client could know before it was there.
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
  podKey(vmi: VirtualMachineInstance): Key {
    return `${vmi.metadata.namespace}/${this.#nameFor(vmi, undefined)}`;
  }

  /** The same of the pod that only gives volumes their first consumer. */
  temporaryPodKey(vmi: VirtualMachineInstance): Key {
    return `${vmi.metadata.namespace}/${this.#nameFor(vmi, temporaryPurpose)}`;
  }

  /** Name of the target pod that this process makes for a migration of the VMI: another one for each migration. */
  targetName(vmi: VirtualMachineInstance, migrationUid: string): string {
    return this.#nameFor(vmi, migrationUid);
  }

  /** The API server has answered that it made this pod for us. */
  made(vmi: VirtualMachineInstance, pod: Pod): void {
    const { made } = this.#of(vmi);
    made.set(pod.metadata.name, pod.metadata.uid ?? '');
    const [oldest] = made.keys();
    if (made.size > maxMade && oldest !== undefined) made.delete(oldest);
  }

  /** The API server has answered that it made this VMI for us. */
  madeVmi(vmi: VirtualMachineInstance): void {
    this.#of(vmi).isOnlyHere = true;
  }

  /**
   * No other process can have made a launcher for the VMI: there was none before this one made the VMI, and another works only after this one has
   * ended. This one makes no second: what it has written itself it sees, and the name is the same each time.
   */
  isOnlyHere(vmi: VirtualMachineInstance): boolean {
    return this.#of(vmi).isOnlyHere;
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
    const purpose = podFacts.isTemporary(pod) ? temporaryPurpose : pod.metadata.labels?.[labels.migrationJobUid];
    if (name !== this.#nameFor(vmi, purpose)) return false;
    // The answer to the creation may be lost; but another pod of the name was made after it by another client.
    if (!known.made.has(name)) this.made(vmi, pod);
    return known.made.get(name) === uid;
  }

  /** `purpose`: undefined for the first launcher, the UID of a migration for its target. */
  #nameFor({ metadata: { name, uid = '' } }: VirtualMachineInstance, purpose: string | undefined): string {
    return podNames(name, purpose === undefined ? uid : `${uid} ${purpose}`, this.salt).podName;
  }

  /** What was recorded once stays so, also when a list of pods that was old has let it slip out of the record. */
  #of(vmi: VirtualMachineInstance): Known {
    const key = keyOf(vmi);
    const vmiUid = vmi.metadata.uid;
    let known = this.#known.get(key);
    if (known?.vmiUid !== vmiUid || !known) {
      known = { vmiUid, recorded: new Set(), made: new Map(), reported: new Set(), isOnlyHere: false };
      this.#known.set(key, known);
    }
    for (const uid of Object.keys(vmi.status?.activePods ?? {})) known.recorded.add(uid);
    return known;
  }
}
