import { annotations, isOlderVersion, labels } from '../../../api/index.ts';
import type { Node } from '../ports.ts';

/** What a beat says. */
export interface SchedulableMark {
  readonly schedulable: boolean;
  /** null: no reason, which is only written where there was one. */
  readonly reason: string | null;
}

type Version = { readonly metadata: Pick<Node['metadata'], 'name' | 'uid' | 'resourceVersion'> };

/**
 * The mark that the API server took last, and whether others undid it. It is a memory of that mark and no read-your-writes
 * overlay: nothing reads the node through it, and it has to hold for as long as the mark stands, also after the watch has shown
 * it.
 */
export class WrittenMark {
  /** Undefined: none yet, so anything may be on the node. */
  mark: SchedulableMark | undefined;
  #version: Version | undefined;

  /** `node`: as it was right after the mark. */
  set(mark: SchedulableMark, { metadata: { name, uid, resourceVersion } }: Node): void {
    this.mark = mark;
    this.#version = {
      metadata: { name, ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) },
    };
  }

  /**
   * Others changed the mark or made the node again, or an earlier beat that was given up came late all the same. What the
   * watch showed of the time before the last mark says nothing.
   */
  isEdited(node: Node | undefined): boolean {
    if (!node || !this.mark || !this.#version) return false;
    const { uid, labels: present, annotations: notes } = node.metadata;
    if (uid === this.#version.metadata.uid && isOlderVersion(node, this.#version)) return false;
    return (
      notes?.[annotations.heartbeat] === undefined || present?.[labels.schedulable] !== String(this.mark.schedulable)
    );
  }
}
