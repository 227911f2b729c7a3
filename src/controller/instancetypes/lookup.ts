import { type KubeObject, type ResourceType, resources, type VirtualMachine } from '../../api/index.ts';
import { isRecord, memberAt, sameJson } from '../../base/index.ts';
import {
  followedRef,
  InstancetypeError,
  type MatcherField,
  matcherOf,
  readSpec,
  referredType,
  revisedName,
  revisedSpec,
  type StatusRef,
} from '../../instancetype/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

/** Revisions in memory; what is not is read again. */
const maxKept = 512;

/** An instance type or preference that a VM refers to. */
export interface Found {
  readonly kind: 'found';
  readonly field: MatcherField;
  readonly type: ResourceType;
  readonly name: string;
  readonly spec: ReturnType<typeof readSpec>;
  /** As the VM's status shall have it. */
  readonly ref: StatusRef;
  /** The status has it so, with a revision. */
  readonly isKept: boolean;
  /** No revision has been made of it. */
  readonly object?: KubeObject;
}

export interface Missing {
  readonly kind: 'missing';
  /** In words for the VM's user. */
  readonly message: string;
}

interface Revision {
  /** Of what it was made of. */
  readonly name: string | undefined;
  readonly spec: unknown;
}

/**
 * Instance types and preferences, asked for when a VM first refers to one, and not watched: what a VM uses from then on is a revision,
 * which never changes.
 */
export class Lookup {
  readonly #client: Pick<KubeClient, 'get'>;
  readonly #kept = new Map<string, Revision>();

  constructor(client: Pick<KubeClient, 'get'>) {
    this.#client = client;
  }

  /** Throws InstancetypeError for what cannot be used, and rejects with KubeError where the API does not answer. */
  async find(vm: VirtualMachine, field: MatcherField, signal: AbortSignal): Promise<Found | Missing> {
    const matcher = matcherOf(vm, field) ?? {};
    const { name = '' } = matcher;
    if (name === '') throw new InstancetypeError('MALFORMED', `spec.${field}: name or inferFromVolume is missing`);
    const type = referredType(field, matcher);
    const stored = storedRef(vm, field);
    const ref = followedRef(matcher, stored);
    const revisionName = ref.controllerRevisionRef?.name;
    if (revisionName !== undefined) {
      const revision = await this.#revision({ namespace: vm.metadata.namespace, name: revisionName }, field, signal);
      if (!revision) {
        return { kind: 'missing', message: `ControllerRevision ${revisionName} of spec.${field} ${name} is gone` };
      }
      const isOurs = matcher.revisionName !== undefined || (revision.name ?? name) === name;
      const spec = readSpec(field, revision.spec);
      if (isOurs) return { kind: 'found', field, type, name, spec, ref, isKept: sameJson(ref, stored) };
    }
    const { controllerRevisionRef: _other, ...unkept } = ref;
    return this.#live({ field, type, name, ref: unkept }, vm, signal);
  }

  async #live(
    wanted: Pick<Found, 'field' | 'type' | 'name' | 'ref'>,
    { metadata: { namespace } }: VirtualMachine,
    signal: AbortSignal,
  ): Promise<Found | Missing> {
    const { field, type, name } = wanted;
    try {
      const target = { name, ...(type.namespaced && { namespace }) };
      const object = await this.#client.get<KubeObject>(type, target, { signal });
      return { kind: 'found', ...wanted, spec: readSpec(field, memberAt(object, 'spec')), isKept: false, object };
    } catch (error) {
      const message = whyUnread(error, type, name);
      if (message === undefined) throw error;
      return { kind: 'missing', message: `spec.${field}: ${message}` };
    }
  }

  async #revision(
    ref: { readonly namespace: string | undefined; readonly name: string },
    field: MatcherField,
    signal: AbortSignal,
  ): Promise<Revision | undefined> {
    const key = `${field}/${ref.namespace}/${ref.name}`;
    const known = this.#kept.get(key);
    if (known) return known;
    try {
      const object = await this.#client.get<KubeObject>(resources.controllerRevisions, ref, { signal });
      const revision = { name: revisedName(object), spec: revisedSpec(object, field) };
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= maxKept && oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(key, revision);
      return revision;
    } catch (error) {
      if (isKubeError(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }
}

/** Of the revision that the VM's status names. */
export function storedRevisionName(vm: VirtualMachine, field: MatcherField): string | undefined {
  const name = storedRef(vm, field)?.controllerRevisionRef?.name;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

function storedRef({ status }: VirtualMachine, field: MatcherField): StatusRef | undefined {
  const ref = status?.[`${field}Ref`];
  return isRecord(ref) ? ref : undefined;
}

/** In words for the user; undefined: the API has not answered. */
function whyUnread(error: unknown, type: ResourceType, name: string): string | undefined {
  const whole = `${type.resource}.${type.group}`;
  if (isKubeError(error, 'FORBIDDEN')) return `this controller may not read ${whole}: give its role "get" of them`;
  if (!isKubeError(error, 'NOT_FOUND')) return undefined;
  // A server that does not know the kind answers without saying which object is missing.
  if (memberAt(error.status, 'details', 'name') === name) return `there is no ${type.kind} ${name}`;
  return `this cluster has no ${whole}: its definition comes with KubeVirt; or write into spec.template what it would say`;
}
