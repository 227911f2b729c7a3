import {
  findCondition,
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { durationText, type VmRow, vmRow } from '../../web/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import { type OutputFormat, printed } from './answer-format.ts';
import { connectToNode, notAnswering } from './find-vmi.ts';
import type { Paint } from './style.ts';

export interface ListWish {
  /** Undefined: all of them. */
  readonly namespace: string | undefined;
  readonly output: OutputFormat;
}

interface Listed {
  readonly row: VmRow;
  /** The VirtualMachine, or the instance that has none. */
  readonly object: KubeObject;
  readonly vmi: VirtualMachineInstance | undefined;
}

/** VirtualMachines, and instances without one, of the node that runs on this state directory. Rejects with NodeError. */
export async function listVms(paths: NodePaths, wish: ListWish, now: Date, paint?: Paint): Promise<string> {
  const client = await connectToNode(paths);
  try {
    return printed(wish.output, shownVms(await readVms(client, wish.namespace), wish.namespace, now), paint);
  } catch (error) {
    throw isKubeError(error) ? notAnswering(error) : error;
  } finally {
    client.close();
  }
}

async function readVms(client: KubeClient, namespace: string | undefined): Promise<Listed[]> {
  const where = namespace === undefined ? {} : { namespace };
  const [vms, vmis] = await Promise.all([
    client.list<VirtualMachine>(resources.virtualMachines, where),
    client.list<VirtualMachineInstance>(resources.virtualMachineInstances, where),
  ]);
  if (namespace !== undefined && vms.items.length + vmis.items.length === 0) await needNamespace(client, namespace);
  return joined(vms.items, vmis.items);
}

/** That there are no VMs in a namespace that does not exist is no answer. */
async function needNamespace(client: KubeClient, namespace: string): Promise<void> {
  const { items } = await client.list(resources.namespaces);
  if (items.some(({ metadata }) => metadata.name === namespace)) return;
  const names = items.map(({ metadata }) => metadata.name).join(', ');
  throw new NodeError('NOT_FOUND', `there is no namespace ${namespace}; there are: ${names}`);
}

/** By namespace and name. Pure. */
export function joined(vms: readonly VirtualMachine[], vmis: readonly VirtualMachineInstance[]): Listed[] {
  const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;
  const instances = new Map(vmis.map((vmi) => [keyOf(vmi), vmi]));
  const machines = new Map(vms.map((vm) => [keyOf(vm), vm]));
  const keys = [...new Set([...machines.keys(), ...instances.keys()])].sort();
  return keys.flatMap((key) => {
    const [vm, vmi] = [machines.get(key), instances.get(key)];
    const object = vm ?? vmi;
    const row = vmRow(vm, vmi);
    return object && row ? [{ row, object, vmi }] : [];
  });
}

/** Pure. `namespace`: of the question. */
export function shownVms(listed: readonly Listed[], namespace: string | undefined, now: Date) {
  const where = namespace === undefined ? 'on this node' : `in the namespace ${namespace} (all: virt-node list -A)`;
  return {
    head: ['NAMESPACE', 'NAME', 'STATUS', 'READY', 'NODE', 'ADDRESS', 'AGE'],
    rows: listed.map(({ row, vmi }) => [
      row.namespace,
      row.name,
      row.status,
      findCondition(vmi?.status?.conditions, 'Ready')?.status ?? '-',
      row.vmi?.node ?? '-',
      row.vmi?.ip ?? '-',
      row.createdAt === '' ? '-' : durationText(Math.max(0, now.getTime() - Date.parse(row.createdAt))),
    ]),
    wide: {
      head: ['RUNSTRATEGY', 'CPUS', 'MEMORY', 'GUEST', 'WHY'],
      rows: listed.map((each) => [
        each.row.runStrategy ?? '-',
        cpusOf(each.vmi),
        memoryOf(each.vmi),
        each.row.vmi?.guestOs ?? '-',
        problemOf(each.row) ?? '-',
      ]),
    },
    names: listed.map(({ row }) => `${kindOf(row).toLowerCase()}.kubevirt.io/${row.name}`),
    document: {
      apiVersion: 'v1',
      kind: 'List',
      metadata: {},
      items: listed.map(({ row, object }) => ({ ...withKind(object, row), ...(row.vmi && { instance: row.vmi }) })),
    },
    empty: `there are no virtual machines ${where}`,
  };
}

/** Objects of a list come without kind and apiVersion. */
function withKind(object: KubeObject, row: VmRow): KubeObject {
  return { ...object, apiVersion: 'kubevirt.io/v1', kind: kindOf(row) };
}

function kindOf({ runStrategy }: VmRow): string {
  return runStrategy === undefined ? 'VirtualMachineInstance' : 'VirtualMachine';
}

function cpusOf(vmi: VirtualMachineInstance | undefined): string {
  const { cores = 1, sockets = 1, threads = 1 } = vmi?.spec.domain.cpu ?? {};
  return vmi ? String(cores * sockets * threads) : '-';
}

function memoryOf(vmi: VirtualMachineInstance | undefined): string {
  const { memory, resources: asked } = vmi?.spec.domain ?? {};
  return String(memory?.guest ?? asked?.requests?.memory ?? '-');
}

/** What keeps an instance from running when they are False. */
const wanted = ['Synchronized', 'PodScheduled', 'DataVolumesReady'];

/** The first condition that says what is wrong. */
function problemOf({ conditions }: VmRow): string | undefined {
  const failed = conditions.find(
    ({ type, status }) => (type === 'Failure' && status === 'True') || (status === 'False' && wanted.includes(type)),
  );
  return failed && [failed.reason, failed.message].filter(Boolean).join(': ');
}
