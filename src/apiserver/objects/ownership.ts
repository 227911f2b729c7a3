import { isRecord } from '../../base/index.ts';
import type { User } from '../access.ts';
import type { ApiType } from '../api-type.ts';
import { type ManagerId, Managers, managersAfterUpdate, type Writing } from '../apply/index.ts';
import type { ApiObject } from '../object.ts';
import type { SchemaNode } from '../schema/index.ts';

/** Who writes: `fieldManager` of the request, or the program that its `User-Agent` names. */
export interface Manager {
  readonly name: string;
  readonly subresource: 'status' | undefined;
}

/** Of writes that the server makes in another's place. */
const serverItself = 'virt-node';

export interface OwnershipContext {
  readonly type: ApiType;
  readonly schema: SchemaNode | undefined;
  readonly manager: Manager | undefined;
  readonly now: Date;
}

export function writingOf(
  { type, schema = {}, manager, now }: OwnershipContext,
  operation: ManagerId['operation'],
  object: ApiObject,
): Writing {
  const { name = serverItself, subresource } = manager ?? {};
  const id = { manager: name, operation, apiVersion: object.apiVersion ?? '', subresource };
  return { id, schema, unwritten: unwrittenBy(type, subresource, object), now };
}

/** Of a custom resource a status is written alone; of a built-in one with labels and annotations. */
function unwrittenBy(type: ApiType, subresource: 'status' | undefined, object: ApiObject): readonly string[] {
  if (subresource === undefined) return type.statusSubresource ? ['status'] : [];
  return type.custom ? Object.keys(object).filter((name) => name !== 'status') : ['spec'];
}

/**
 * Fields of what the system's own programs make have no owners before somebody applies something to them: nobody else writes these
 * objects, and keeping account of each write would cost more than the write. Kubernetes has the same switch (`track on create`). `given`: without
 * what admission has added, a finalizer say: that is nobody's, so that its maker does not take it off by applying the object anew.
 */
export function ownNew(object: ApiObject, given: ApiObject['metadata'], user: User, context: OwnershipContext): void {
  if (user.name.startsWith('system:')) return;
  const writing = writingOf(context, 'Update', object);
  const after = { ...object, metadata: given };
  setManagers(object, managersAfterUpdate(Managers.none, { before: undefined, after }, writing));
}

/** `given`: the list that the client sent; it may set it, and what is no such list is passed over. */
export function ownChanged(next: ApiObject, old: ApiObject, given: unknown, context: OwnershipContext): void {
  const isReset =
    Array.isArray(given) && given.length === 1 && isRecord(given[0]) && Object.keys(given[0]).length === 0;
  if (isReset) return;
  const sent = context.manager?.subresource === undefined ? Managers.read(given) : undefined;
  const managers = sent && !sent.isEmpty ? sent : (Managers.read(old.metadata.managedFields) ?? Managers.none);
  if (managers.isEmpty) return;
  const writing = writingOf(context, 'Update', next);
  setManagers(next, managersAfterUpdate(managers, { before: old, after: next }, writing));
}

export function setManagers(object: ApiObject, managers: Managers): void {
  const list = managers.toJson();
  if (list === undefined) delete object.metadata.managedFields;
  else object.metadata.managedFields = list;
}
