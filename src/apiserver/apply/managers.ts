import { isRecord, rfc3339 } from '../../base/index.ts';
import { FieldSet } from './field-set.ts';

/** Who writes, and how: fields belong to all of this together. */
export interface ManagerId {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string | undefined;
}

interface Managed extends ManagerId {
  readonly time: string | undefined;
  readonly fields: FieldSet;
}

/** More managers that update than this are taken together, the oldest first. */
const mostUpdaters = 10;
const ancient = 'ancient-changes';

const keyOf = ({ operation, manager, apiVersion, subresource = '' }: ManagerId) =>
  JSON.stringify([operation, manager, apiVersion, subresource]);

/** Which fields of an object belong to whom: `metadata.managedFields`. Never changed: each change gives another one. */
export class Managers {
  readonly #entries: ReadonlyMap<string, Managed>;

  private constructor(entries: Iterable<Managed>) {
    this.#entries = new Map([...entries].map((entry) => [keyOf(entry), entry]));
  }

  static readonly none = new Managers([]);

  /** undefined: it is no list of managers. */
  static read(value: unknown): Managers | undefined {
    if (!Array.isArray(value)) return undefined;
    const entries = value.map(readEntry);
    return entries.every((entry) => entry !== undefined) ? new Managers(entries) : undefined;
  }

  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  fieldsOf(id: ManagerId): FieldSet | undefined {
    return this.#entries.get(keyOf(id))?.fields;
  }

  /** All but one. */
  others(id: ManagerId): readonly Managed[] {
    const own = keyOf(id);
    return [...this.#entries].flatMap(([key, entry]) => (key === own ? [] : [entry]));
  }

  /** What anyone owns. */
  all(): FieldSet {
    return [...this.#entries.values()].reduce((sum, { fields }) => sum.union(fields), new FieldSet());
  }

  /** A manager of nothing is none. Its time changes with its fields. */
  with(id: ManagerId, fields: FieldSet, now: Date): Managers {
    const old = this.#entries.get(keyOf(id));
    if (old?.fields.equals(fields)) return this;
    const rest = this.others(id);
    return new Managers(fields.isEmpty ? rest : [...rest, { ...id, fields, time: rfc3339(now) }]);
  }

  /** The fields do not belong to anyone but this one any more. */
  takenFromOthers(id: ManagerId, fields: FieldSet): Managers {
    const own = [...this.#entries.values()].filter((entry) => keyOf(entry) === keyOf(id));
    const others = this.others(id).map((entry) => ({ ...entry, fields: entry.fields.difference(fields) }));
    return new Managers([...others.filter((entry) => !entry.fields.isEmpty), ...own]);
  }

  /** As `metadata.managedFields` has it; undefined: nobody owns anything. */
  toJson(): readonly object[] | undefined {
    if (this.isEmpty) return undefined;
    const entries = withoutAncient([...this.#entries.values()]);
    return entries.sort(byAge).map(({ manager, operation, apiVersion, time, fields, subresource }) => ({
      manager,
      operation,
      apiVersion,
      ...(time !== undefined && { time }),
      fieldsType: 'FieldsV1',
      fieldsV1: fields.toJson(),
      ...(subresource !== undefined && { subresource }),
    }));
  }
}

function byAge(a: Managed, b: Managed): number {
  const sorts = [a, b].map(({ operation, time = '', manager }) => `${operation} ${time} ${manager}`);
  return (sorts[0] ?? '') < (sorts[1] ?? '') ? -1 : 1;
}

function withoutAncient(entries: readonly Managed[]): Managed[] {
  const updaters = entries.filter(({ operation }) => operation === 'Update').sort(byAge);
  const surplus = updaters.slice(0, Math.max(0, updaters.length - mostUpdaters + 1));
  const [first] = surplus;
  if (!first || updaters.length <= mostUpdaters) return [...entries];
  const fields = surplus.reduce((sum, entry) => sum.union(entry.fields), new FieldSet());
  const rest = entries.filter((entry) => !surplus.includes(entry));
  return [...rest, { ...first, manager: ancient, subresource: undefined, time: surplus.at(-1)?.time, fields }];
}

function readEntry(value: unknown): Managed | undefined {
  if (!isRecord(value)) return undefined;
  const { manager, operation, apiVersion, time, fieldsType, fieldsV1, subresource } = value;
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  if (typeof manager !== 'string' || typeof apiVersion !== 'string' || fieldsType !== 'FieldsV1') return undefined;
  const fields = FieldSet.fromJson(fieldsV1);
  if (!fields) return undefined;
  return {
    manager,
    operation,
    apiVersion,
    subresource: typeof subresource === 'string' && subresource !== '' ? subresource : undefined,
    time: typeof time === 'string' ? time : undefined,
    fields,
  };
}
