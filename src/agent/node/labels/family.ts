import { shortened } from '../../../base/index.ts';
import type { LabelFacts } from './facts.ts';
import type { LabelSettings } from './settings.ts';

/** A label that belongs on the node. */
export interface LabelWish {
  readonly key: string;
  readonly value: string;
  /** One sentence without its end. */
  readonly because: string;
}

/** A label that could be there, and why it is not. */
export interface LabelRefusal {
  readonly key: string;
  readonly because: string;
}

export type FamilyPlan =
  | { readonly kind: 'known'; readonly wishes: readonly LabelWish[]; readonly refusals: readonly LabelRefusal[] }
  /** What is on the node stays as it is. */
  | { readonly kind: 'unknown'; readonly because: string };

/** Labels that follow from one source. A key belongs to one family at most. */
export interface LabelFamily {
  readonly name: string;
  /** Keys below this are the family's; it ends with `/` or `-`. */
  readonly prefixes: readonly string[];
  /** Whole keys that are the family's. */
  readonly keys: readonly string[];
  /** Says nothing while it is not known what is configured. */
  readonly followsConfiguration?: true;
  /** Total: never throws. */
  plan(facts: LabelFacts, settings: LabelSettings): FamilyPlan;
}

export function owns(family: LabelFamily, key: string): boolean {
  return family.keys.includes(key) || family.prefixes.some((prefix) => key.startsWith(prefix));
}

/** A name below a prefix, if Kubernetes takes it as a label key: an invalid one would make the whole patch fail. */
export function named(prefix: string, name: string, because: string): LabelWish | LabelRefusal {
  const key = `${prefix}${name}`;
  if (isLabelName(key)) return { key, value: 'true', because };
  return { key: shortened(key, 160), because: 'Kubernetes does not take it as a label' };
}

/** A label that is there or not. */
export function flag(key: string, isHere: boolean, yes: string, no: string): LabelWish | LabelRefusal {
  return isHere ? { key, value: 'true', because: yes } : { key, because: no };
}

export function planOf(entries: readonly (LabelWish | LabelRefusal)[]): FamilyPlan {
  const isWish = (entry: LabelWish | LabelRefusal): entry is LabelWish => 'value' in entry;
  return {
    kind: 'known',
    wishes: entries.filter(isWish),
    refusals: entries.filter((entry) => !isWish(entry)),
  };
}

/** Longest name of a label after its `/`, and the form it has. */
const maxNameLength = 63;
const nameForm = /^[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?$/;

function isLabelName(key: string): boolean {
  const name = key.slice(key.indexOf('/') + 1);
  return name.length <= maxNameLength && nameForm.test(name);
}
