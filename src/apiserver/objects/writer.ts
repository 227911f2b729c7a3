import { copyJson, rfc3339, sameJson } from '../../base/index.ts';
import type { User } from '../access.ts';
import { validateMetadata } from '../admission/index.ts';
import type { AdmissionContext, ApiType } from '../api-type.ts';
import {
  ApiError,
  alreadyExists,
  badRequest,
  conflict,
  deniedMessage,
  forbidden,
  invalid,
  invalidField,
  modifiedMessage,
  notFound,
  requiredField,
} from '../errors.ts';
import { type ApiObject, textAt } from '../object.ts';
import type { SchemaNode } from '../schema/index.ts';
import {
  addressOf,
  clusterDefaults,
  isPrivileged,
  lockKey,
  type ObjectContext,
  randomSuffix,
  randomUuid,
  storedObjects,
  type Target,
} from './context.ts';
import { checkFields, dropUnknownFields, type FieldValidation } from './fields.ts';
import { asObject, checkFinalizers, checkName, checkSize, keepSystemMetadata } from './identity.ts';

export interface WriteOptions {
  readonly user: User;
  /** Everything but the write itself. */
  readonly dryRun: boolean;
  /** undefined: fields that are not kept go without a word. */
  readonly validation?: FieldValidation;
}

export interface UpdateRequest extends Target {
  /** `status` writes only the status; undefined all but the status, where the type has that sub-resource. */
  readonly subresource: 'status' | undefined;
  /** Makes the new object out of the present one, which must not be changed: the body of a PUT, or a patched copy. */
  readonly change: (current: ApiObject) => unknown;
  /** A PUT has to say which version it was made from, where the type demands that. */
  readonly isReplace: boolean;
}

const nameTries = 8;

/** Creates and changes objects: identity, admission, optimistic locking, generation. Throws ApiError and StoreError. */
export class Writer {
  readonly #context: ObjectContext;

  constructor(context: ObjectContext) {
    this.#context = context;
  }

  async create(type: ApiType, namespace: string, body: unknown, options: WriteOptions): Promise<ApiObject> {
    const schema = await this.#context.schemas.of(type);
    const object = asObject(copyJson(body), type, namespace);
    dropUnknownFields(type, object, schema, { old: undefined, isPatch: false, validation: options.validation });
    if (object.metadata.resourceVersion !== undefined) {
      throw new ApiError('BAD_REQUEST', 'resourceVersion should not be set on objects to be created');
    }
    const { name, generateName } = object.metadata;
    if (name !== undefined) return this.#createNamed(type, object, schema, options);
    if (generateName === undefined) {
      throw invalid(type, '', [requiredField('metadata.name', 'name or generateName is required')]);
    }
    for (let tries = 1; ; tries++) {
      const named = copyJson(object);
      named.metadata.name = `${generateName.slice(0, 248)}${randomSuffix()}`;
      try {
        return await this.#createNamed(type, named, schema, options);
      } catch (error) {
        const isTaken = error instanceof ApiError && error.code === 'ALREADY_EXISTS';
        if (!isTaken || tries === nameTries) throw error;
      }
    }
  }

  async update(type: ApiType, request: UpdateRequest, options: WriteOptions): Promise<ApiObject> {
    const { store, lock } = this.#context;
    const address = addressOf(type, request);
    const schema = await this.#context.schemas.of(type);
    return lock.run(lockKey(type, request), async () => {
      const entry = store.get(address);
      if (!entry) throw notFound(type, request.name);
      const next = this.#changed(type, request, entry.object, schema, options);
      if (sameJson(next, entry.object)) return entry.object;
      if (options.dryRun) return next;
      const kind = isFinished(type, next) ? 'delete' : 'put';
      return (await store.commit({ kind, ...address, object: next })).object;
    });
  }

  async #createNamed(
    type: ApiType,
    object: ApiObject,
    schema: SchemaNode | undefined,
    options: WriteOptions,
  ): Promise<ApiObject> {
    const { store, lock, clock } = this.#context;
    const { metadata } = object;
    const target = { namespace: metadata.namespace ?? '', name: metadata.name };
    const address = addressOf(type, target);
    return lock.run(lockKey(type, target), async () => {
      this.#checkNamespace(type, target);
      if (store.get(address)) throw alreadyExists(type, target.name);
      object.metadata = { ...metadata, uid: randomUuid(), creationTimestamp: rfc3339(clock.now()) };
      delete object.metadata.deletionTimestamp;
      delete object.metadata.deletionGracePeriodSeconds;
      delete object.metadata.generation;
      if (type.custom) object.metadata.generation = 1;
      if (type.statusSubresource && type.statusOnCreate === 'dropped') delete object.status;
      this.#admit(type, object, undefined, schema, options);
      if (options.dryRun) return object;
      return (await store.commit({ kind: 'put', ...address, object })).object;
    });
  }

  /** New content needs a namespace that stays. */
  #checkNamespace(type: ApiType, { namespace, name }: Target): void {
    if (!type.namespaced) return;
    const found = this.#context.store.get({ collection: '/namespaces', namespace: '', name: namespace });
    if (!found) throw notFound({ group: '', resource: 'namespaces', kind: 'Namespace' }, namespace);
    if (textAt(found.object, 'status', 'phase') !== 'Terminating') return;
    const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw forbidden(type, name, why);
  }

  #changed(
    type: ApiType,
    request: UpdateRequest,
    old: ApiObject,
    schema: SchemaNode | undefined,
    options: WriteOptions,
  ): ApiObject {
    const made = asObject(copyJson(request.change(old)), type, request.namespace);
    dropUnknownFields(type, made, schema, { old, isPatch: !request.isReplace, validation: options.validation });
    checkName(made, request);
    checkVersion(type, made, old, request.isReplace);
    const next = request.subresource === 'status' ? withStatus(type, made, old) : withoutStatus(type, made, old);
    keepSystemMetadata(next, old);
    checkFinalizers(next, old, type);
    this.#admit(type, next, old, schema, options);
    if (type.custom && isSpecChange(type, next, old)) next.metadata.generation = (old.metadata.generation ?? 0) + 1;
    return next;
  }

  #admit(
    type: ApiType,
    object: ApiObject,
    old: ApiObject | undefined,
    schema: SchemaNode | undefined,
    options: WriteOptions,
  ): void {
    const context: AdmissionContext = {
      old,
      now: this.#context.clock.now(),
      privileged: isPrivileged(options.user),
      randomUuid,
      cluster: clusterDefaults(this.#context),
    };
    const { name } = object.metadata;
    const metadataErrors = validateMetadata(object, type);
    if (metadataErrors.length > 0) throw invalid(type, name, metadataErrors);
    type.admission.complete?.(object);
    checkFields(type, object, old, schema);
    type.admission.fill?.(object, context);
    const errors = type.admission.validate?.(object, context) ?? [];
    if (errors.length > 0) throw invalid(type, name, errors);
    const denied = type.admission.deny?.(object, context, storedObjects(this.#context));
    if (denied?.webhook !== undefined) throw badRequest(deniedMessage(denied));
    if (denied) throw forbidden(type, name, denied.message);
    checkSize(object);
  }
}

function checkVersion(type: ApiType, made: ApiObject, old: ApiObject, isReplace: boolean): void {
  const { name, resourceVersion, uid } = made.metadata;
  if (resourceVersion === undefined && isReplace && !type.unconditionalUpdate) {
    const errors = [invalidField('metadata.resourceVersion', 0, 'must be specified for an update')];
    throw invalid(type, name, errors);
  }
  if (uid !== undefined && uid !== old.metadata.uid) {
    const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${old.metadata.uid}`;
    throw conflict(type, name, why);
  }
  if (resourceVersion !== undefined && resourceVersion !== old.metadata.resourceVersion) {
    throw conflict(type, name, modifiedMessage);
  }
}

/** Of custom resources only the status is taken; of built-in ones labels and annotations too. */
function withStatus(type: ApiType, made: ApiObject, old: ApiObject): ApiObject {
  const next = copyJson(old);
  if (made.status === undefined) delete next.status;
  else next.status = made.status;
  if (type.custom) return next;
  const { ownerReferences: _owners, finalizers: _finalizers, ...metadata } = made.metadata;
  const { ownerReferences, finalizers } = old.metadata;
  next.metadata = {
    ...metadata,
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
    ...(finalizers === undefined ? {} : { finalizers }),
  };
  return next;
}

function withoutStatus(type: ApiType, made: ApiObject, old: ApiObject): ApiObject {
  if (!type.statusSubresource) return made;
  const { status: _ignored, ...next } = made;
  return (old.status === undefined ? next : { ...next, status: copyJson(old.status) }) as ApiObject;
}

/** What raises the generation: all but metadata, and but the status where it has its own sub-resource. */
function isSpecChange(type: ApiType, next: ApiObject, old: ApiObject): boolean {
  const rest = ({ metadata: _metadata, status, ...members }: ApiObject) =>
    type.statusSubresource ? members : { ...members, status };
  return !sameJson(rest(next), rest(old));
}

/** The last finalizer of an object that is being deleted is gone. Namespaces are ended by their controller. */
export function isFinished(type: ApiType, object: ApiObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = object.metadata;
  if (deletionTimestamp === undefined || (deletionGracePeriodSeconds ?? 0) > 0) return false;
  return (finalizers ?? []).length === 0 && type.resource !== 'namespaces';
}
