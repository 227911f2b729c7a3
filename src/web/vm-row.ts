import {
  type Condition,
  findCondition,
  type KubeObject,
  parseQuantity,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../api/index.ts';
import { memberAt } from '../base/index.ts';
import { moveRow } from './move-row.ts';
import type { NamedType, VmRow } from './rows.ts';

/**
 * A VirtualMachine and its instance as one line of the list. Undefined when neither is there. Total: one bad object must not
 * take the lines of all others along.
 */
export function vmRow(
  vm: VirtualMachine | undefined,
  vmi: VirtualMachineInstance | undefined,
  migrations: readonly VirtualMachineInstanceMigration[] = [],
): VmRow | undefined {
  const object: KubeObject | undefined = vm ?? vmi;
  if (!object) return undefined;
  const { namespace = '', name, creationTimestamp = '' } = object.metadata;
  const conditions = conditionsOf(vm, vmi);
  const phase = vmi?.status?.phase || 'Pending';
  const strategy = vm?.spec?.runStrategy ?? (vm?.spec?.running === true ? 'Always' : 'Halted');
  const move = vmi && moveRow(migrations, vmi);
  const owner = ownerOf(object);
  return {
    namespace,
    name,
    status: vm ? (vm.status?.printableStatus ?? (vmi ? phase : 'Stopped')) : phase,
    conditions,
    createdAt: creationTimestamp,
    ...(vm && { runStrategy: strategy }),
    ...(vmi && { vmi: instanceOf(vmi, phase) }),
    ...(move && { move }),
    ...(owner && { owner }),
    ...typesOf(vm),
    ...sizeOf((vmi ?? vm?.spec?.template)?.spec, typesOf(vm).instancetype === undefined),
  };
}

/** The instance's say more of what both have; that it has to be restarted only the VM says. */
function conditionsOf(vm: VirtualMachine | undefined, vmi: VirtualMachineInstance | undefined): readonly Condition[] {
  const listOf = (object: VirtualMachine | VirtualMachineInstance | undefined) => {
    const found: unknown = object?.status?.conditions;
    return Array.isArray(found) ? found.filter(isCondition) : undefined;
  };
  const [own, others] = [listOf(vmi), listOf(vm) ?? []];
  if (!own) return others;
  return [...own, ...others.filter(({ type }) => type === 'RestartRequired')];
}

function ownerOf({ metadata: { ownerReferences } }: KubeObject): VmRow['owner'] {
  const owners: readonly unknown[] = Array.isArray(ownerReferences) ? ownerReferences : [];
  const controller = owners.find((owner) => memberAt(owner, 'controller') === true);
  const [kind, name] = [memberAt(controller, 'kind'), memberAt(controller, 'name')];
  return typeof kind === 'string' && typeof name === 'string' ? { kind, name } : undefined;
}

function typesOf(vm: VirtualMachine | undefined): Pick<VmRow, 'instancetype' | 'preference'> {
  const [instancetype, preference] = [namedType(vm, 'instancetype'), namedType(vm, 'preference')];
  return { ...(instancetype && { instancetype }), ...(preference && { preference }) };
}

/** Without a kind it is of the cluster. */
function namedType(vm: VirtualMachine | undefined, member: string): NamedType | undefined {
  const [name, kind] = ['name', 'kind'].map((field) => memberAt(vm, 'spec', member, field));
  if (typeof name !== 'string') return undefined;
  return { name, isCluster: typeof kind !== 'string' || kind === '' || kind.toLowerCase().includes('cluster') };
}

/** What an instance type says is in the instance, not in the template; without one (`isOwn`) there is one CPU unless it says more. */
function sizeOf(spec: unknown, isOwn: boolean): Pick<VmRow, 'cpus' | 'memoryBytes'> {
  const part = (name: string) => Number(memberAt(spec, 'domain', 'cpu', name) ?? 1);
  const cpu = memberAt(spec, 'domain', 'cpu');
  const cpus = cpu === undefined && !isOwn ? undefined : part('sockets') * part('cores') * part('threads');
  const memory =
    memberAt(spec, 'domain', 'memory', 'guest') ?? memberAt(spec, 'domain', 'resources', 'requests', 'memory');
  const memoryBytes = parseQuantity(typeof memory === 'string' ? memory : undefined);
  return {
    ...(cpus !== undefined && Number.isSafeInteger(cpus) && { cpus }),
    ...(memoryBytes !== undefined && { memoryBytes }),
  };
}

/** The page reads all of them as texts. */
function isCondition(value: unknown): value is Condition {
  const { type, status, reason, message, lastTransitionTime }: Partial<Condition> = value ?? {};
  const optional = [reason, message, lastTransitionTime].map((field) => field ?? '');
  return [type, status, ...optional].every((field) => typeof field === 'string');
}

function instanceOf({ metadata, status }: VirtualMachineInstance, phase: string): NonNullable<VmRow['vmi']> {
  const interfaces = Array.isArray(status?.interfaces) ? status.interfaces : [];
  const ip: unknown = interfaces.find((each) => each?.ipAddress)?.ipAddress;
  const node: unknown = status?.nodeName;
  const guestOs: unknown = status?.guestOSInfo?.prettyName ?? status?.guestOSInfo?.name;
  return {
    uid: metadata.uid ?? '',
    phase,
    paused: findCondition(status?.conditions, 'Paused')?.status === 'True',
    ...(typeof node === 'string' && node && { node }),
    ...(typeof ip === 'string' && ip && { ip }),
    ...(typeof guestOs === 'string' && guestOs && { guestOs }),
  };
}
