import {
  isBeingDeleted,
  isFinal,
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { matcherFields } from '../../instancetype/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { storedRevisionName } from '../instancetypes/index.ts';
import { ownerReference, revisionName, revisionPrefix } from './make-vmi.ts';

type VmSpec = VirtualMachine['spec'];

/** Specs in memory; what is not is read again. */
const maxKept = 256;

/** Kept until the VMI has ended, and not longer than the VM. */
export async function keepStartSpec(
  vm: VirtualMachine,
  client: Pick<KubeClient, 'create'>,
  signal: AbortSignal,
): Promise<void> {
  const { name, namespace, uid = '', generation = 1 } = vm.metadata;
  const revision: KubeObject = {
    apiVersion: 'apps/v1',
    kind: 'ControllerRevision',
    metadata: {
      name: revisionName(vm),
      ...(namespace && { namespace }),
      ownerReferences: [ownerReference(name, uid)],
    },
    ...{ data: { spec: withRevisions(vm) }, revision: generation },
  };
  try {
    await client.create(resources.controllerRevisions, revision, { signal });
  } catch (error) {
    // Without it nobody is told that a change needs a restart; no reason not to start.
    if (signal.aborted || !isKubeError(error)) throw error;
  }
}

/** What an instance type says later is another revision. */
function withRevisions(vm: VirtualMachine): VmSpec {
  const named = matcherFields.flatMap((field) => {
    const [matcher, revisionName] = [vm.spec[field], storedRevisionName(vm, field)];
    return isRecord(matcher) && revisionName ? [[field, { ...matcher, revisionName }] as const] : [];
  });
  return { ...vm.spec, ...Object.fromEntries(named) };
}

/** It is of no use to the next VMI but one of the same spec. */
export async function dropStartSpec(
  { metadata, status }: VirtualMachineInstance,
  client: Pick<KubeClient, 'delete'>,
  signal: AbortSignal,
): Promise<void> {
  const vmUid = metadata.ownerReferences?.find(({ controller }) => controller)?.uid;
  const name = ownRevision(status, vmUid);
  if (!vmUid || name === undefined) return;
  try {
    const ref = { name, ...(metadata.namespace && { namespace: metadata.namespace }) };
    await client.delete(resources.controllerRevisions, ref, { signal });
  } catch (error) {
    // It goes with the VM at the latest.
    if (signal.aborted || !isKubeError(error)) throw error;
  }
}

/** The status is anyone's who may write VMIs. */
function ownRevision(status: VirtualMachineInstance['status'], vmUid = ''): string | undefined {
  const name: unknown = status?.virtualMachineRevisionName;
  return typeof name === 'string' && name.startsWith(revisionPrefix(vmUid)) ? name : undefined;
}

/** Specs that VMIs were started from. What a revision holds never changes. */
export class StartSpecs {
  readonly #client: Pick<KubeClient, 'get'>;
  readonly #kept = new Map<string, VmSpec>();

  constructor(client: Pick<KubeClient, 'get'>) {
    this.#client = client;
  }

  /** Undefined: it is not known. Rejects with KubeError. */
  async of(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | undefined,
    signal: AbortSignal,
  ): Promise<VmSpec | undefined> {
    const name = ownRevision(vmi?.status, vm.metadata.uid);
    if (!vmi || name === undefined) return undefined;
    if (isFinal(vmi) || isBeingDeleted(vmi) || isBeingDeleted(vm)) return undefined;
    if (name === revisionName(vm)) return vm.spec;
    return this.#kept.get(name) ?? this.#read(name, vm, signal);
  }

  async #read(name: string, { metadata }: VirtualMachine, signal: AbortSignal): Promise<VmSpec | undefined> {
    const ref = { name, ...(metadata.namespace && { namespace: metadata.namespace }) };
    try {
      const spec = memberAt(
        await getIfThere<KubeObject>(this.#client, resources.controllerRevisions, ref, { signal }),
        'data',
        'spec',
      );
      if (!isRecord(memberAt(spec, 'template', 'spec'))) return undefined;
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= maxKept && oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(name, spec as VmSpec);
      return spec as VmSpec;
    } catch (error) {
      if (isKubeError(error, 'FORBIDDEN')) return undefined;
      throw error;
    }
  }
}
