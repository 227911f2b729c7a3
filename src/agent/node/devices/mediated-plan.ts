import { createHash } from 'node:crypto';
import type { MediatedWish } from './mediated-wish.ts';

/** A kind of devices that a card can be divided into. */
export interface MediatedType {
  /** `nvidia-222` */
  readonly id: string;
  /** `GRID_T4-1Q`, when it has a name. */
  readonly name: string | undefined;
  /** How many more can be made now. */
  readonly available: number;
}

/** A card that can be divided: `0000:65:00.0`. */
export interface MediatedParent {
  readonly parent: string;
  readonly types: readonly MediatedType[];
}

/** A part of a card. */
export interface MediatedDevice {
  readonly uuid: string;
  readonly parent: string;
  readonly type: Pick<MediatedType, 'id' | 'name'>;
  /** Its files below `/dev/vfio`: that of its group, by which the kubelet knows it, and its own. */
  readonly files: readonly string[];
}

export interface MediatedMachine {
  /** By their names. */
  readonly parents: readonly MediatedParent[];
  readonly devices: readonly MediatedDevice[];
}

/** Devices to make on one card, all of one type. */
export interface MediatedOrder {
  readonly parent: string;
  readonly type: string;
  readonly uuids: readonly string[];
}

/** Some drivers say that they can make 65536. */
const mostPerParent = 256;

/**
 * A device's name tells whether this agent made it: no record can be lost, and none can be late. The index is its last part.
 */
export function mediatedUuid(nodeName: string, parent: string, type: string, index: number): string {
  const hash = createHash('sha256')
    .update(JSON.stringify(['mediated device', nodeName, parent, type, index]))
    .digest('hex');
  // Version 8, own content (RFC 9562).
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${String(index).padStart(12, '0')}`;
}

export function isMadeHere(nodeName: string, { uuid, parent, type }: MediatedDevice): boolean {
  const index = /-(\d{12})$/.exec(uuid)?.[1];
  return index !== undefined && mediatedUuid(nodeName, parent, type.id, Number(index)) === uuid;
}

export function isOfType(type: Pick<MediatedType, 'id' | 'name'>, names: readonly string[]): boolean {
  return names.includes(type.id) || (type.name !== undefined && names.includes(type.name));
}

/**
 * Devices that are not asked for. Where types are asked for, also those of others (they are in the way of those that are asked for);
 * where none are, only those that this agent made: a node on which an administrator makes devices himself keeps them. Whether
 * a guest uses one is another question.
 */
export function unwanted(machine: MediatedMachine, wish: MediatedWish, nodeName: string): MediatedDevice[] {
  const kept = [...wish.types, ...wish.external];
  return machine.devices.filter(
    (device) => !isOfType(device.type, kept) && (wish.types.length > 0 || isMadeHere(nodeName, device)),
  );
}

/** What became of earlier orders, by card. */
export interface MediatedHistory {
  /** The type of which not all could be made. */
  readonly unfinished: ReadonlyMap<string, string>;
  /** Types of which not one could be made: others go first. */
  readonly refused: ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * What to make on cards that have no device yet: one type per card, the types by turns in the order in which they are asked for.
 * Cards on which making stopped half-way get the rest.
 */
export function orders(
  machine: MediatedMachine,
  wish: MediatedWish,
  { nodeName, unfinished, refused }: MediatedHistory & { readonly nodeName: string },
): MediatedOrder[] {
  if (wish.types.length === 0) return [];
  const taken = new Set(machine.devices.map(({ parent }) => parent));
  const ordered: MediatedOrder[] = [];
  let turn = 0;
  for (const { parent, types } of machine.parents) {
    const usable = types.filter(({ available }) => available > 0);
    const begun = usable.find(({ id }) => id === unfinished.get(parent) && isAsked(wish, id, types));
    if (!begun && taken.has(parent)) continue;
    const willing = usable.filter(({ id }) => !refused.get(parent)?.has(id));
    const next = begun ?? byTurns(willing, wish.types, turn) ?? byTurns(usable, wish.types, turn);
    if (!next) continue;
    if (!begun) turn = (wish.types.findIndex((name) => isOfType(next, [name])) + 1) % wish.types.length;
    ordered.push({ parent, type: next.id, uuids: freeUuids(machine, { nodeName, parent, type: next }) });
  }
  return ordered;
}

function isAsked(wish: MediatedWish, id: string, types: readonly MediatedType[]): boolean {
  return types.some((type) => type.id === id && isOfType(type, wish.types));
}

function byTurns(usable: readonly MediatedType[], names: readonly string[], turn: number): MediatedType | undefined {
  for (let step = 0; step < names.length; step++) {
    const name = names[(turn + step) % names.length] ?? '';
    const found = usable.find((type) => isOfType(type, [name]));
    if (found) return found;
  }
  return undefined;
}

function freeUuids(
  { devices }: MediatedMachine,
  { nodeName, parent, type }: { readonly nodeName: string; readonly parent: string; readonly type: MediatedType },
): string[] {
  const taken = new Set(devices.map(({ uuid }) => uuid));
  const uuids: string[] = [];
  const wanted = Math.min(type.available, mostPerParent);
  for (let index = 0; uuids.length < wanted && index < 2 * mostPerParent; index++) {
    const uuid = mediatedUuid(nodeName, parent, type.id, index);
    if (!taken.has(uuid)) uuids.push(uuid);
  }
  return uuids;
}
