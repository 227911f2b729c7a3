import { isMigrating, type VirtualMachine, type VirtualMachineInstance, type VmiSpec } from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import {
  changed,
  type JsonPatchOperation,
  type LiveChange,
  type Rollout,
  restart,
  stagedMessage,
} from './live-change.ts';

type Field = 'nodeSelector' | 'affinity' | 'tolerations';

/**
 * Where the guest may run from its next migration on; nothing moves it there (handleAffinityChangeRequest of
 * pkg/virt-controller/watch/vm/vm.go).
 */
export function affinityChange(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  rollout: Rollout,
): LiveChange | undefined {
  return schedulingChange(['affinity', 'nodeSelector'], vm, vmi, rollout);
}

/** The same of taints (handleTolerationsChangeRequest, there). */
export function tolerationsChange(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  rollout: Rollout,
): LiveChange | undefined {
  return schedulingChange(['tolerations'], vm, vmi, rollout);
}

function schedulingChange(
  fields: readonly Field[],
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  { strategy }: Rollout,
): LiveChange | undefined {
  const template: Partial<VmiSpec> = isRecord(vm.spec.template?.spec) ? vm.spec.template.spec : {};
  const operations = fields.flatMap((field) => operationsFor(field, template, vmi.spec));
  if (operations.length === 0) return undefined;
  if (strategy === 'Stage') return restart(stagedMessage);
  const bad = fields.find((field) => !isOfForm(field, template[field]));
  if (bad) return restart(`spec.template.spec.${bad} must be ${bad === 'tolerations' ? 'a list' : 'an object'}`);
  return isMigrating(vmi) ? wait(fields) : { kind: 'live', operations };
}

function operationsFor(field: Field, template: Partial<VmiSpec>, running: VmiSpec): JsonPatchOperation[] {
  const [old, wanted] = [given(field, running[field]), given(field, template[field])];
  return sameJson(old, wanted) ? [] : changed(`/spec/${field}`, running[field], wanted);
}

/** A selector without labels and a list without items are none; an affinity is what is written. */
function given(field: Field, value: unknown): unknown {
  const isEmpty = Array.isArray(value) ? value.length === 0 : isRecord(value) && Object.keys(value).length === 0;
  return value === null || (isEmpty && field !== 'affinity') ? undefined : value;
}

function isOfForm(field: Field, value: unknown): boolean {
  return (value ?? undefined) === undefined || (field === 'tolerations' ? Array.isArray(value) : isRecord(value));
}

function wait([field]: readonly Field[]): LiveChange {
  const isAffinity = field === 'affinity';
  const [what, cause] = isAffinity
    ? ['node affinity', 'Node affinity should not be changed during VMI migration']
    : ['tolerations', 'tolerations should not be changed during VMI migration'];
  const message = `Error encountered while handling ${what} change request: ${cause}`;
  return { kind: 'wait', reason: isAffinity ? 'AffinityChangeError' : 'TolerationsChangeError', message };
}
