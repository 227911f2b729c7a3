import type { Socket } from 'node:net';
import { StreamRefusal } from '../../../console/index.ts';

/** USB redirection channels of a guest: four, as upstream's domains have. */
const slotCount = 4;

/** Which channels are in use, per VMI UID. What is kept of a VMI goes with its last channel. */
export class UsbSlots {
  readonly #used = new Map<string, Set<number>>();

  get size(): number {
    return [...this.#used.values()].reduce((sum, slots) => sum + slots.size, 0);
  }

  /**
   * The lowest free channel that can be connected to; it is free again when its socket has closed. Rejects with StreamRefusal BUSY,
   * without a text as upstream, when all are in use, else with the first one's error.
   */
  async connect(uid: string, connect: (slot: number) => Promise<Socket>): Promise<Socket> {
    let firstError: unknown;
    for (let slot = 0; slot < slotCount; slot++) {
      if (this.#used.get(uid)?.has(slot)) continue;
      this.#take(uid, slot);
      try {
        const socket = await connect(slot);
        if (socket.destroyed) this.#free(uid, slot);
        else socket.once('close', () => this.#free(uid, slot));
        return socket;
      } catch (error) {
        this.#free(uid, slot);
        firstError ??= error;
      }
    }
    throw firstError ?? new StreamRefusal('BUSY', 503, '');
  }

  #take(uid: string, slot: number): void {
    const slots = this.#used.get(uid) ?? new Set();
    this.#used.set(uid, slots.add(slot));
  }

  #free(uid: string, slot: number): void {
    const slots = this.#used.get(uid);
    slots?.delete(slot);
    if (slots?.size === 0) this.#used.delete(uid);
  }
}
