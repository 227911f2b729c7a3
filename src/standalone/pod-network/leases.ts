import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { memberAt } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeForThisBoot } from '../files.ts';
import { isAddressableName } from './dns.ts';
import { addressAt, capacityOf, gatewayOffset, maxPods, type Subnets, seedOf, textOf } from './subnets.ts';

/** Of the pod's pair of links, the end on the machine. */
export function hostLinkOf(uid: string): string {
  return `vp${seedOf(uid).toString('hex').slice(0, 12)}`;
}

interface Lease {
  /** In the subnets of both families. */
  readonly offset: number;
  /** In DNS; empty for none. */
  readonly name: string;
  /** Later ones have greater numbers. */
  readonly turn: number;
}

/** A pod's; drafts of files have other names. */
const uidPattern = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;

/**
 * Which pod has which address: a file per pod, written before the pod has it; after a power failure no pod has any. A UID begins to look for a free
 * one at the same place each time, and an address that came free is seldom another pod's at once.
 */
export class Leases {
  readonly #dir: string;
  readonly #leases = new Map<string, Lease>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * What an earlier process gave, in the order in which it did. What cannot be read was never given, nor an address that no pod can have or another one
   * has: files are written whole, and before the pod starts.
   */
  async load(): Promise<void> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    this.#leases.clear();
    const found: [string, Lease][] = [];
    for (const uid of (await readdir(this.#dir)).filter((name) => uidPattern.test(name)).sort()) {
      const lease = parse((await readIfThere(path.join(this.#dir, uid))) ?? '');
      if (lease) found.push([uid, lease]);
    }
    for (const [uid, lease] of found.sort(([, one], [, other]) => one.turn - other.turn)) {
      if (!this.#offsets().has(lease.offset)) this.#leases.set(uid, lease);
    }
  }

  uids(): string[] {
    return [...this.#leases.keys()];
  }

  /** The same again for a UID that has one. Throws NodeError POD_NETWORK when all are taken. */
  async take(uid: string, name: string, subnets: Subnets): Promise<void> {
    if (this.#leases.has(uid)) return;
    const turn = Math.max(0, ...[...this.#leases.values()].map((each) => each.turn)) + 1;
    const lease = { offset: this.#freeOffset(uid, subnets), name, turn };
    // In memory first: two pods ask at the same time.
    this.#leases.set(uid, lease);
    try {
      await writeForThisBoot(path.join(this.#dir, uid), `${JSON.stringify(lease)}\n`);
    } catch (error) {
      this.#leases.delete(uid);
      throw error;
    }
  }

  /** IPv4 first, as in the status of a pod; empty for a pod without. */
  addressesOf(uid: string, subnets: Subnets): string[] {
    const { ipv4, ipv6 } = subnets;
    const { offset } = this.#leases.get(uid) ?? {};
    if (offset === undefined || offset > gatewayOffset + capacityOf(subnets)) return [];
    return [ipv4, ...(ipv6 ? [ipv6] : [])].map((subnet) => addressAt(subnet, offset));
  }

  /** Of two pods with one name the later has it: a VM that was started again. */
  names(): ReadonlyMap<string, string> {
    return new Map([...this.#leases].flatMap(([uid, { name }]) => (name === '' ? [] : [[name, uid]])));
  }

  async release(uid: string): Promise<boolean> {
    await rm(path.join(this.#dir, uid), { force: true });
    return this.#leases.delete(uid);
  }

  #offsets(): Set<number> {
    return new Set([...this.#leases.values()].map(({ offset }) => offset));
  }

  #freeOffset(uid: string, subnets: Subnets): number {
    const taken = this.#offsets();
    const capacity = capacityOf(subnets);
    const start = seedOf(uid).readUInt32BE(0) % capacity;
    for (let at = 0; at < capacity; at++) {
      const offset = gatewayOffset + 1 + ((start + at) % capacity);
      if (!taken.has(offset)) return offset;
    }
    throw new NodeError('POD_NETWORK', `all ${capacity} addresses of ${textOf(subnets.ipv4)} are taken: end a VM`);
  }
}

function parse(text: string): Lease | undefined {
  try {
    const kept: unknown = JSON.parse(text);
    const [offset, name] = [memberAt(kept, 'offset'), memberAt(kept, 'name')];
    const isOfPod = typeof offset === 'number' && Number.isInteger(offset) && offset > gatewayOffset;
    if (!isOfPod || offset > gatewayOffset + maxPods || typeof name !== 'string') return undefined;
    const turn = memberAt(kept, 'turn');
    // Of an earlier version: before all others.
    const known = typeof turn === 'number' && Number.isSafeInteger(turn) ? turn : 0;
    return { offset, name: isAddressableName(name) ? name : '', turn: known };
  } catch {
    return undefined;
  }
}
