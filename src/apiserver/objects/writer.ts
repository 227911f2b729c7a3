import { copyJson, rfc3339, sameJson } from '../../base/index.ts';
import type { User } from '../access.ts';
import { validateMetadata } from '../admission/index.ts';
import type { AdmissionContext, ApiType } from '../api-type.ts';
import { type ApplyRequest, applyTo, keepLastApplied, type Managers, managersOfNew } from '../apply/index.ts';
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
import { type ApiObject, at, stringAt } from '../object.ts';
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
import { checkFields, dropUnknownFields, type FieldValidation, newErrors, unknownFields } from './fields.ts';
import { asObject, checkFinalizers, checkName, checkSize, keepSystemMetadata } from './identity.ts';
import { type Manager, ownChanged, ownNew, setManagers, writingOf } from './ownership.ts';

export interface WriteOptions {
  readonly user: User;
  /** Everything but the write itself. */
  readonly dryRun: boolean;
  /** undefined: fields that are not kept go without a word. */
  readonly validation?: FieldValidation;
  /** undefined: the server itself, in place of a user. */
  readonly manager?: string;
}

/** One write of an object of a type. */
interface Task {
  readonly type: ApiType;
  readonly schema: SchemaNode | undefined;
  readonly options: WriteOptions;
}

export interface UpdateRequest extends Target {
  /** `status` writes only the status; undefined all but the status, where the type has that sub-resource. */
  readonly subresource: 'status' | undefined;
  /** Makes the new object out of the present one, which must not be changed: the body of a PUT, or a patched copy. */
  readonly change: (current: ApiObject) => unknown;
  /** A PUT has to say which version it was made from, where the type demands that. */
  readonly isReplace: boolean;
}

export interface ApplyOptions extends Target {
  readonly subresource: 'status' | undefined;
  /** Takes fields that others own. */
  readonly force: boolean;
  /** Throws when the user may change objects and not make them. */
  readonly checkCreate: () => void;
}

const nameTries = 8;
const applyTries = 4;

export interface Written {
  readonly object: ApiObject;
  readonly isNew: boolean;
}

/** Creates and changes objects: identity, admission, optimistic locking, generation. Throws ApiError and StoreError. */
export class Writer {
  readonly #context: ObjectContext;

  constructor(context: ObjectContext) {
    this.#context = context;
  }

  async create(type: ApiType, namespace: string, body: unknown, options: WriteOptions): Promise<ApiObject> {
    const schema = await this.#context.schemas.of(type);
    const task: Task = { type, schema, options };
    const object = asObject(copyJson(body), type, namespace);
    dropUnknownFields(type, object, schema, { old: undefined, isPatch: false, validation: options.validation });
    if (object.metadata.resourceVersion !== undefined) {
      throw new ApiError('BAD_REQUEST', 'resourceVersion should not be set on objects to be created');
    }
    const { name, generateName } = object.metadata;
    if (name !== undefined) return this.#createNamed(task, object);
    if (generateName === undefined) {
      throw invalid(type, '', [requiredField('metadata.name', 'name or generateName is required')]);
    }
    for (let tries = 1; ; tries++) {
      const named = copyJson(object);
      named.metadata.name = `${generateName.slice(0, 248)}${randomSuffix()}`;
      try {
        return await this.#createNamed(task, named);
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
      const next = this.#changed({ type, schema, options }, request, entry.object);
      if (sameJson(next, entry.object)) return entry.object;
      if (options.dryRun) return next;
      const kind = isFinished(type, next) ? 'delete' : 'put';
      return (await store.commit({ kind, ...address, object: next })).object;
    });
  }

  /**
   * Applies a configuration to an object, or makes it. Throws ApiError CONFLICT with the fields that others own, BAD_REQUEST for fields
   * that the schema does not have.
   */
  async apply(type: ApiType, target: ApplyOptions, body: unknown, options: WriteOptions): Promise<Written> {
    const schema = await this.#context.schemas.of(type);
    const task: Task = { type, schema, options };
    const config = configOf(task, target, body);
    const { store } = this.#context;
    for (let tries = 1; ; tries++) {
      try {
        if (store.get(addressOf(type, target))) {
          return { object: await this.#applyTo(task, target, config), isNew: false };
        }
        return { object: await this.#createApplied(task, target, config), isNew: true };
      } catch (error) {
        // It came, or went, at the same moment.
        const isOther = error instanceof ApiError && (error.code === 'ALREADY_EXISTS' || error.code === 'NOT_FOUND');
        if (!isOther || tries === applyTries || !store.get(addressOf(type, target))) throw error;
      }
    }
  }

  #applyTo(task: Task, target: ApplyOptions, config: ApiObject): Promise<ApiObject> {
    const { type, options } = task;
    const { store, lock } = this.#context;
    const address = addressOf(type, target);
    return lock.run(lockKey(type, target), async () => {
      const old = store.get(address)?.object;
      if (!old) throw notFound(type, target.name);
      const request = this.#applyRequest(task, target, config);
      const { object, managers } = applyTo(old, request);
      keepLastApplied(object, request);
      const change = () => object;
      const next = this.#changed(task, { ...target, change, isReplace: false }, old);
      setManagers(next, managers);
      if (sameJson(next, old)) return old;
      if (options.dryRun) return next;
      const kind = isFinished(type, next) ? 'delete' : 'put';
      return (await store.commit({ kind, ...address, object: next })).object;
    });
  }

  async #createApplied(task: Task, target: ApplyOptions, config: ApiObject): Promise<ApiObject> {
    const { type } = task;
    if (target.subresource !== undefined) throw notFound(type, target.name);
    target.checkCreate();
    const { uid, resourceVersion } = config.metadata;
    if (uid !== undefined || resourceVersion !== undefined) throw notFound(type, target.name);
    const managers = managersOfNew(this.#applyRequest(task, target, config));
    const object = copyJson(config);
    if (task.schema)
      dropUnknownFields(type, object, task.schema, { old: undefined, isPatch: true, validation: undefined });
    return this.#createNamed(task, object, managers);
  }

  #applyRequest(task: Task, { subresource, force }: ApplyOptions, config: ApiObject): ApplyRequest {
    return { ...writingOf(this.#ownership(task, subresource), 'Apply', config), config, force };
  }

  /** `managers`: of an object that is made by applying; else its maker owns it. */
  async #createNamed(task: Task, object: ApiObject, managers?: Managers): Promise<ApiObject> {
    const { type, options } = task;
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
      const given = { ...object.metadata };
      this.#admit(task, object, undefined);
      if (managers) setManagers(object, managers);
      else ownNew(object, given, options.user, this.#ownership(task, undefined));
      checkSize(object);
      if (options.dryRun) return object;
      return (await store.commit({ kind: 'put', ...address, object })).object;
    });
  }

  /** New content needs a namespace that stays. */
  #checkNamespace(type: ApiType, { namespace, name }: Target): void {
    if (!type.namespaced) return;
    const found = this.#context.store.get({ collection: '/namespaces', namespace: '', name: namespace });
    if (!found) throw notFound({ group: '', resource: 'namespaces', kind: 'Namespace' }, namespace);
    if (stringAt(found.object, 'status', 'phase') !== 'Terminating') return;
    const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw forbidden(type, name, why);
  }

  #changed(task: Task, request: UpdateRequest, old: ApiObject): ApiObject {
    const { type, schema, options } = task;
    const wanted = copyJson(request.change(old));
    const made = asObject(wanted, type, request.namespace);
    dropUnknownFields(type, made, schema, { old, isPatch: !request.isReplace, validation: options.validation });
    checkName(made, request);
    checkVersion(type, made, old, request.isReplace);
    const next = request.subresource === 'status' ? withStatus(type, made, old) : withoutStatus(type, made, old);
    keepSystemMetadata(next, old);
    checkFinalizers(next, old, type);
    this.#admit(task, next, old);
    ownChanged(next, old, at(wanted, 'metadata', 'managedFields'), this.#ownership(task, request.subresource));
    checkSize(next);
    if (type.custom && isSpecChange(type, next, old)) next.metadata.generation = (old.metadata.generation ?? 0) + 1;
    return next;
  }

  #ownership({ type, schema, options }: Task, subresource: Manager['subresource']) {
    const manager = options.manager === undefined ? undefined : { name: options.manager, subresource };
    return { type, schema, manager, now: this.#context.clock.now() };
  }

  #admit({ type, schema, options }: Task, object: ApiObject, old: ApiObject | undefined): void {
    const context: AdmissionContext = {
      old,
      hasNewSpec: true,
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
    const hasNewSpec = !old || !sameJson(object.spec, old.spec);
    const errors = type.admission.validate?.(object, { ...context, hasNewSpec }) ?? [];
    // What was stored before there was a rule stays changeable: its status, its finalizers, and what is right in it.
    const before = old && errors.length > 0 ? (type.admission.validate?.(copyJson(old), context) ?? []) : [];
    const added = newErrors(errors, before);
    if (added.length > 0) throw invalid(type, name, added);
    const denied = type.admission.deny?.(object, context, storedObjects(this.#context));
    if (denied?.webhook !== undefined) throw badRequest(deniedMessage(denied));
    if (denied) throw forbidden(type, name, denied.message);
  }
}

/** Throws ApiError BAD_REQUEST, also for fields that are not in the schema: whose would they be? */
function configOf({ type, schema }: Task, target: ApplyOptions, body: unknown): ApiObject {
  const given = at(body, 'metadata', 'managedFields');
  if (Array.isArray(given) && given.length > 0) throw badRequest('metadata.managedFields must be nil');
  const config = asObject(copyJson(body), type, target.namespace);
  checkName(config, target);
  const unknown = schema ? unknownFields(type, config, schema) : [];
  if (unknown.length === 0) return config;
  const what = `${target.namespace}/${target.name}; ${config.apiVersion}, Kind=${config.kind}`;
  const texts = unknown.map((path) => `.${path}: field not declared in schema`);
  throw badRequest(`failed to create typed patch object (${what}): ${texts.join(', ')}`);
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
