import { apiVersionOf, controllerOf, type KubeObject, resources, type VirtualMachinePool } from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import { controllerReference } from '../owned/index.ts';
import { revisionName } from './make-vm.ts';

type PoolSpec = VirtualMachinePool['spec'];
export type Template = PoolSpec['virtualMachineTemplate'];

/** Templates in memory; what is not is read again. */
const maxKept = 256;
const type = resources.controllerRevisions;

/** Templates that VMs of pools were made from. What a revision holds never changes, so none is watched. */
export class Revisions {
  readonly #client: Pick<KubeClient, 'get' | 'create' | 'list' | 'delete'>;
  readonly #kept = new Map<string, Template>();

  constructor(client: Pick<KubeClient, 'get' | 'create' | 'list' | 'delete'>) {
    this.#client = client;
  }

  /** Those that are there, by name. Rejects with KubeError. */
  async of(
    pool: VirtualMachinePool,
    names: Iterable<string>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Template>> {
    const found = new Map<string, Template>();
    for (const name of new Set(names)) {
      const template = this.#kept.get(keptAs(pool, name)) ?? (await this.#read(pool, name, signal));
      if (template) found.set(name, template);
    }
    return found;
  }

  /** Keeps the pool's present spec. Rejects with KubeError, or with an Error where another object has the name. */
  async keep(pool: VirtualMachinePool, signal: AbortSignal): Promise<void> {
    const name = revisionName(pool);
    if (this.#kept.has(keptAs(pool, name))) return;
    const { namespace, generation = 1 } = pool.metadata;
    const ownerReferences = [controllerReference(resources.pools, pool)];
    const revision: KubeObject = {
      apiVersion: apiVersionOf(type),
      kind: type.kind,
      metadata: { name, ...(namespace && { namespace }), ownerReferences },
      ...{ data: pool.spec, revision: generation },
    };
    try {
      await this.#client.create(type, revision, { signal });
      this.#keep(pool, name, pool.spec.virtualMachineTemplate);
    } catch (error) {
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
      // One of this pool and generation holds this very spec, whoever made it.
      if (await this.#read(pool, name, signal)) return;
      throw new Error(`ControllerRevision ${name} is there and is not of this pool: delete it`, { cause: error });
    }
  }

  /** Deletes those of the pool that are not in use. */
  async prune(pool: VirtualMachinePool, inUse: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const { namespace, uid } = pool.metadata;
    const { items } = await this.#client.list<KubeObject>(type, { namespace, signal });
    for (const revision of items) {
      const { name, uid: own } = revision.metadata;
      if (controllerOf(revision)?.uid !== uid || inUse.has(name)) continue;
      await writeIfThere(this.#client.delete(type, revision.metadata, { uid: own, signal }));
      this.#kept.delete(keptAs(pool, name));
    }
  }

  async #read(pool: VirtualMachinePool, name: string, signal: AbortSignal): Promise<Template | undefined> {
    const { namespace, uid } = pool.metadata;
    const ref = { name, ...(namespace && { namespace }) };
    const revision = await getIfThere<KubeObject>(this.#client, type, ref, { signal });
    const template = memberAt(revision, 'data', 'virtualMachineTemplate');
    if (!revision || controllerOf(revision)?.uid !== uid || !isRecord(memberAt(template, 'spec', 'template', 'spec')))
      return undefined;
    this.#keep(pool, name, template as unknown as Template);
    return template as unknown as Template;
  }

  #keep(pool: VirtualMachinePool, name: string, template: Template): void {
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= maxKept && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.set(keptAs(pool, name), template);
  }
}

/** A pool of the same name that was made anew has other revisions of the same names. */
const keptAs = ({ metadata }: VirtualMachinePool, name: string) => `${metadata.uid} ${name}`;
