import type {
  TypedReference,
  VirtualMachine,
  VirtualMachineClone,
  VirtualMachineRestore,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { create, getVm, list, remove } from './kube-calls.ts';
import type { Vm } from './server-calls.ts';

/** Requests about snapshots of VMs, and what is made of them. All reject with CallError. */

/** What a namespace has, of one VM. */
export interface SnapshotFacts {
  /** Absent: an instance alone, of which there are no snapshots. */
  readonly vm: VirtualMachine | undefined;
  readonly snapshots: readonly VirtualMachineSnapshot[];
  readonly contents: readonly VirtualMachineSnapshotContent[];
  readonly restores: readonly VirtualMachineRestore[];
  readonly clones: readonly VirtualMachineClone[];
}

/** What a clone is made of: the VM as it is now, or a snapshot of it. */
export type CloneSource = { readonly kind: 'VirtualMachine' | 'VirtualMachineSnapshot'; readonly name: string };

const groups = {
  VirtualMachine: 'kubevirt.io',
  VirtualMachineSnapshot: 'snapshot.kubevirt.io',
  VirtualMachineClone: 'clone.kubevirt.io',
} as const;

const paths = {
  snapshots: (namespace: string) =>
    `/apis/snapshot.kubevirt.io/v1beta1/namespaces/${namespace}/virtualmachinesnapshots`,
  contents: (namespace: string) =>
    `/apis/snapshot.kubevirt.io/v1beta1/namespaces/${namespace}/virtualmachinesnapshotcontents`,
  restores: (namespace: string) => `/apis/snapshot.kubevirt.io/v1beta1/namespaces/${namespace}/virtualmachinerestores`,
  clones: (namespace: string) => `/apis/clone.kubevirt.io/v1beta1/namespaces/${namespace}/virtualmachineclones`,
} as const;

export async function snapshotsOf(vm: Vm, signal: AbortSignal): Promise<SnapshotFacts> {
  const { namespace, name } = vm;
  const [object, snapshots, contents, restores, clones] = await Promise.all([
    getVm(vm, signal),
    list<VirtualMachineSnapshot>(paths.snapshots(namespace), signal),
    list<VirtualMachineSnapshotContent>(paths.contents(namespace), signal),
    list<VirtualMachineRestore>(paths.restores(namespace), signal),
    list<VirtualMachineClone>(paths.clones(namespace), signal),
  ]);
  const own = snapshots.filter(({ spec }) => namesVirtualMachine(spec?.source) && spec.source.name === name);
  const names = new Set(own.map(({ metadata }) => metadata.name));
  return {
    vm: object,
    snapshots: own,
    contents,
    restores: restores.filter(({ spec }) => namesVirtualMachine(spec?.target) && spec.target.name === name),
    clones: clones.filter(({ spec }) => {
      const source = spec?.source;
      return namesVirtualMachine(source) ? source.name === name : names.has(source?.name ?? '');
    }),
  };
}

function namesVirtualMachine(reference: TypedReference | undefined): boolean {
  return reference?.kind === 'VirtualMachine' && reference.apiGroup === groups.VirtualMachine;
}

export async function takeSnapshot({ namespace, name }: Vm, snapshot: string): Promise<void> {
  const source = { apiGroup: groups.VirtualMachine, kind: 'VirtualMachine', name };
  const metadata = { name: snapshot, namespace };
  await create(paths.snapshots(namespace), {
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineSnapshot', metadata, spec: { source } },
  });
}

/** `policy`: of a VM that runs; absent: it does not. */
export async function restoreSnapshot({ namespace, name }: Vm, snapshot: string, policy?: string): Promise<void> {
  const target = { apiGroup: groups.VirtualMachine, kind: 'VirtualMachine', name };
  const targetReadinessPolicy = policy === undefined ? {} : { targetReadinessPolicy: policy };
  await create(paths.restores(namespace), {
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineRestore' },
    metadata: { generateName: `restore-${name}-`, namespace },
    spec: { target, virtualMachineSnapshotName: snapshot, ...targetReadinessPolicy },
  });
}

export async function cloneWithDisks(namespace: string, { kind, name }: CloneSource, target: string): Promise<void> {
  await create(paths.clones(namespace), {
    ...{ apiVersion: 'clone.kubevirt.io/v1beta1', kind: 'VirtualMachineClone' },
    metadata: { generateName: `clone-${target}-`, namespace },
    spec: {
      source: { apiGroup: groups[kind], kind, name },
      target: { apiGroup: groups.VirtualMachine, kind: 'VirtualMachine', name: target },
    },
  });
}

/** `kind`: which of the lists it is in. */
export async function removeOf(kind: 'snapshots' | 'restores' | 'clones', { namespace, name }: Vm): Promise<void> {
  await remove(`${paths[kind](namespace)}/${name}`);
}
