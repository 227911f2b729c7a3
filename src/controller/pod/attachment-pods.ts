import { createHash } from 'node:crypto';
import { type Key, keyOf, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { randomLetters } from './render.ts';

/** A claim that a guest gets while it runs, as the attachment pod holds it. */
export interface AttachedClaim {
  readonly volume: string;
  readonly claim: string;
  readonly isBlock: boolean;
  /** The launcher has it already: the pod holds the claim without showing it once more. */
  readonly isMounted: boolean;
  readonly claimUid: string;
}

/** Pods that a VMI has one after the other: the last few are all that can still be there. */
const maxKnown = 32;

/**
 * Which pods hold a VMI's plugged volumes. The agent gives the guest whatever device it finds below such a pod, so an owner reference is not
 * enough: whoever may create pods in the namespace could write one. Believed are pods whose UID KubeVirt's programs have written
 * into `status.volumeStatus` or `status.migrationState`, and those that this process made.
 */
export class AttachmentPods {
  /** Nobody else knows it; another one in each process. */
  readonly salt: string;
  readonly #made = new Map<Key, Map<string, string>>();

  constructor(salt: string) {
    this.salt = salt;
  }

  isOwn(vmi: VirtualMachineInstance, { metadata: { name, uid = '' } }: Pod): boolean {
    const { volumeStatus, migrationState } = vmi.status ?? {};
    const isPlugged = volumeStatus?.some(({ hotplugVolume }) => hotplugVolume?.attachPodUID === uid) === true;
    const isRecorded = isPlugged || migrationState?.targetAttachmentPodUID === uid;
    return uid !== '' && (isRecorded || this.#of(keyOf(vmi)).get(name) === uid);
  }

  /** The API server has answered that it made this pod for us. */
  made(vmi: VirtualMachineInstance, { metadata: { name, uid = '' } }: Pod): void {
    const known = this.#of(keyOf(vmi));
    known.set(name, uid);
    const [oldest] = known.keys();
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
  }

  /** A pod of this name was there before the answer: it is ours when nobody could know the name yet. */
  adopts(vmi: VirtualMachineInstance, existing: Pod): boolean {
    const { name, uid = '', deletionTimestamp } = existing.metadata;
    const known = this.#of(keyOf(vmi));
    if (deletionTimestamp || (known.has(name) && known.get(name) !== uid)) return false;
    known.set(name, uid);
    return true;
  }

  /** Keys of the pods that this process made for the VMI, the last few. */
  madeKeys({ metadata: { namespace, name } }: VirtualMachineInstance): Key[] {
    return [...(this.#made.get(`${namespace}/${name}`)?.keys() ?? [])].map((pod): Key => `${namespace}/${pod}`);
  }

  /** The VMI is no more. */
  forget(key: Key): void {
    this.#made.delete(key);
  }

  #of(key: Key): Map<string, string> {
    const known = this.#made.get(key) ?? new Map<string, string>();
    this.#made.set(key, known);
    return known;
  }
}

/** The same for the same claims beside the same other pods, so that one that is made twice is made once. */
export function attachmentPodName(
  salt: string,
  launcher: Pod,
  claims: readonly AttachedClaim[],
  others: readonly Pod[],
): string {
  const parts = [
    salt,
    launcher.metadata.uid ?? '',
    ...claims.map(({ volume, claim }) => `${volume}=${claim}`).sort(),
    ...others.map(({ metadata }) => metadata.uid ?? '').sort(),
  ];
  return `hp-volume-${randomLetters(createHash('sha256').update(parts.join(' ')).digest())}`;
}
