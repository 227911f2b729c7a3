import { jsonRecord } from '../../base/index.ts';
import { type ApiError, fieldConflict } from '../errors.ts';
import { type ApiObject, stringAt } from '../object.ts';
import type { SchemaNode } from '../schema/index.ts';
import { FieldSet, nothing, pathOfElements } from './field-set.ts';
import { type ManagerId, Managers } from './managers.ts';
import { compareTyped, fieldsOf, mergeTyped, withNamedObjects, withoutFields } from './typed.ts';

/** Server-side apply as Kubernetes does it (sigs.k8s.io/structured-merge-diff, `merge/update.go`). */

/** Whose these fields are is no question: they name the object, or the server writes them. */
const system = FieldSet.of(
  ...[['f:apiVersion'], ['f:kind'], ['f:metadata']],
  ...['name', 'namespace', 'creationTimestamp', 'selfLink', 'uid', 'generation', 'resourceVersion', 'managedFields']
    .concat('deletionTimestamp', 'deletionGracePeriodSeconds')
    .map((name) => ['f:metadata', `f:${name}`]),
);

/** Owner of what was there before anyone's fields were kept apart. */
const firstManager = 'before-first-apply';
const lastAppliedKey = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Writing {
  readonly id: ManagerId;
  readonly schema: SchemaNode;
  /** Members of the object that this request does not write: `status`, or all but it. */
  readonly unwritten: readonly string[];
  readonly now: Date;
}

/** Owners after an update or a creation: who wrote a field has it alone. */
export function managersAfterUpdate(
  managers: Managers,
  { before, after }: { before: ApiObject | undefined; after: ApiObject },
  { id, schema, unwritten, now }: Writing,
): Managers {
  const { added, modified, removed } = compareTyped(before ?? {}, after, schema);
  const own = (set: FieldSet) => set.difference(system).withoutRoots(unwritten.map((name) => `f:${name}`));
  const written = own(added.union(modified));
  const gone = own(removed);
  const others = managers.takenFromOthers(id, written.union(gone));
  const fields = (managers.fieldsOf(id) ?? new FieldSet()).difference(gone).union(written);
  return others.with(id, fields, now);
}

export interface Applied {
  readonly object: ApiObject;
  readonly managers: Managers;
}

export interface ApplyRequest extends Writing {
  readonly config: ApiObject;
  readonly force: boolean;
}

/**
 * The live object with the configuration merged into it, without what its manager applied before and nobody wants any more. Throws
 * ApiError CONFLICT with a cause for each field that it would change and that another manager owns; `force` takes them.
 */
export function applyTo(live: ApiObject, request: ApplyRequest): Applied {
  const managers = readManagers(live, request);
  try {
    return applyWith(live, managers, request);
  } catch (error) {
    if (!(error instanceof Conflicts)) throw error;
    const others = error.without(appliedByKubectl(live, request));
    if (others.entries.length > 0) throw others.toApiError();
    return applyWith(live, managers, { ...request, force: true });
  }
}

/** The first configuration of an object that was not there. */
export function managersOfNew(request: ApplyRequest): Managers {
  return Managers.none.with(request.id, wantedFields(request), request.now);
}

function wantedFields({ config, schema, unwritten }: ApplyRequest): FieldSet {
  return fieldsOf(config, schema)
    .difference(system)
    .withoutRoots(unwritten.map((name) => `f:${name}`));
}

function readManagers(live: ApiObject, { id, schema, now }: ApplyRequest): Managers {
  const known = Managers.read(live.metadata.managedFields) ?? Managers.none;
  if (!known.isEmpty) return known;
  const first: ManagerId = { ...id, manager: firstManager, operation: 'Update', subresource: undefined };
  return known.with(first, fieldsOf(live, schema).difference(system).withoutRoots(['f:status']), now);
}

function applyWith(live: ApiObject, before: Managers, request: ApplyRequest): Applied {
  const { id, schema, config, force, now } = request;
  const lastApplied = before.fieldsOf(id);
  const managers = before.with(id, wantedFields(request), now);
  const merged = mergeTyped(live, writtenPart(config, request), schema);
  const object = prune(merged, managers, lastApplied, schema);
  const { added, modified, removed } = compareTyped(live, object, schema);
  const changed = added.union(modified);
  const conflicts = managers
    .others(id)
    .map((entry) => ({ ...entry, fields: entry.fields.intersection(changed) }))
    .filter(({ fields }) => !fields.isEmpty);
  if (conflicts.length > 0 && !force) throw new Conflicts(conflicts);
  const taken = conflicts.reduce((sum, { fields }) => sum.union(fields), removed);
  return { object: object as ApiObject, managers: managers.takenFromOthers(id, taken) };
}

function writtenPart(config: ApiObject, { unwritten }: ApplyRequest): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).filter(([name]) => !unwritten.includes(name)));
}

/** Takes away what was applied before and is owned by nobody now; what others have below it keeps its place. */
function prune(merged: unknown, managers: Managers, last: FieldSet | undefined, schema: SchemaNode): unknown {
  if (!last || last.isEmpty) return merged;
  const named = (set: FieldSet) => withNamedObjects(set, schema);
  const lastNamed = named(last);
  const pruned = withoutFields(merged, lastNamed, schema);
  const mergedFields = named(fieldsOf(merged, schema));
  const prunedFields = named(fieldsOf(pruned, schema));
  const owned = prunedFields.union(named(managers.all()));
  // First all that nobody owns is taken away, then only what this manager had applied of it.
  const orphaned = mergedFields.difference(owned).intersection(lastNamed);
  return withoutFields(merged, orphaned, schema) ?? {};
}

/** What `kubectl apply` wrote before on its own side, as its annotation tells, and nobody has changed: no conflict with kubectl itself. */
function appliedByKubectl(live: ApiObject, { id, schema }: ApplyRequest): FieldSet {
  const text = stringAt(live, 'metadata', 'annotations', lastAppliedKey);
  const applied = id.manager === 'kubectl' && text !== undefined ? jsonRecord(text) : undefined;
  if (applied?.apiVersion !== live.apiVersion) return nothing;
  const { added, modified, removed } = compareTyped(applied, live, schema);
  return fieldsOf(applied, schema).difference(added.union(modified).union(removed));
}

/** What `kubectl apply` on its own side finds there is kept in step once the server applies. */
export function keepLastApplied(applied: ApiObject, { id, config }: ApplyRequest): void {
  const { annotations } = applied.metadata;
  if (id.manager !== 'kubectl' || annotations?.[lastAppliedKey] === undefined) return;
  const { managedFields: _none, ...metadata } = config.metadata;
  const { [lastAppliedKey]: _old, ...others } = metadata.annotations ?? {};
  const { annotations: _all, ...rest } = metadata;
  const shown = { ...config, metadata: Object.keys(others).length > 0 ? { ...rest, annotations: others } : rest };
  annotations[lastAppliedKey] = `${JSON.stringify(shown)}\n`;
}

type Conflicting = ManagerId & { readonly fields: FieldSet };

class Conflicts extends Error {
  readonly entries: readonly Conflicting[];

  constructor(entries: readonly Conflicting[]) {
    super('fields of others');
    this.entries = entries;
  }

  without(fields: FieldSet): Conflicts {
    const left = this.entries.map((entry) => ({ ...entry, fields: entry.fields.difference(fields) }));
    return new Conflicts(left.filter((entry) => !entry.fields.isEmpty));
  }

  toApiError(): ApiError {
    return fieldConflict(
      this.entries.flatMap(({ fields, ...id }) =>
        [...fields.paths()].map((path) => ({ owner: shownManager(id), field: pathOfElements(path) })),
      ),
    );
  }
}

function shownManager({ manager, operation, apiVersion, subresource }: ManagerId): string {
  const place = subresource === undefined ? '' : ` with subresource ${JSON.stringify(subresource)}`;
  const using = operation === 'Update' ? ` using ${apiVersion}` : '';
  return `${JSON.stringify(manager)}${place}${using}`;
}
