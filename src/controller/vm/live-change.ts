import type { VirtualMachine, VirtualMachineInstance } from '../../api/index.ts';
import { findCondition } from '../../api/index.ts';

/** What the cluster says about changes of a VM that runs. */
export interface Rollout {
  /** `Stage`: every change waits for the next start. */
  readonly strategy: 'LiveUpdate' | 'Stage';
  /** vCPUs on one CPU of the host. */
  readonly cpuAllocationRatio: number;
}

export type JsonPatchOperation =
  | { readonly op: 'add' | 'test' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** What follows from a template that is not as the running VMI. */
export type LiveChange =
  | { readonly kind: 'live'; readonly operations: readonly JsonPatchOperation[] }
  /** Condition RestartRequired. */
  | { readonly kind: 'restart'; readonly message: string }
  /** Not while something else is under way. */
  | { readonly kind: 'wait'; readonly reason: string; readonly message: string };

export type LiveRule = (vm: VirtualMachine, vmi: VirtualMachineInstance, rollout: Rollout) => LiveChange | undefined;

/** Upstream's virt-controller says it of all other fields, too: nothing is changed live then, and the condition stays until the next start. */
export const stagedMessage = 'a non-live-updatable field was changed in the template spec';

/**
 * What is replaced is tested first: another program may have changed it. `undefined`: it is not there, or shall not be. Whoever sends
 * what adds something tests the object's version.
 */
export function changed(path: string, old: unknown, value: unknown): JsonPatchOperation[] {
  const before: JsonPatchOperation[] = old === undefined ? [] : [{ op: 'test', path, value: old }];
  if (value !== undefined) return [...before, { op: old === undefined ? 'add' : 'replace', path, value }];
  return old === undefined ? [] : [...before, { op: 'remove', path }];
}

export function restart(message: string): LiveChange {
  return { kind: 'restart', message };
}

export function hasCondition({ status }: VirtualMachineInstance, type: string, value: 'True' | 'False'): boolean {
  return findCondition(status?.conditions, type)?.status === value;
}
