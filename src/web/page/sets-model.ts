import type { KubeObject } from '../../api/index.ts';
import { fieldsOf, textOf } from './json-fields.ts';
import type { Tone } from './row-model.ts';
import { count } from './words.ts';

export type SetKind = 'pool' | 'replica set';

/** What keeps a number of machines: a VirtualMachinePool or a VirtualMachineInstanceReplicaSet. */
export interface MachineSet {
  readonly kind: SetKind;
  readonly namespace: string;
  readonly name: string;
  /** How many there shall be. */
  readonly wanted: number;
  /** How many there are, and how many of them are ready. */
  readonly there: number;
  readonly ready: number;
  readonly isPaused: boolean;
}

export function setOf(kind: SetKind, { metadata, ...object }: KubeObject): MachineSet {
  const { spec, status } = object as { readonly spec?: unknown; readonly status?: unknown };
  const number = (value: unknown, otherwise: number) => (typeof value === 'number' ? value : otherwise);
  const { replicas, readyReplicas } = fieldsOf(status);
  return {
    ...{ kind, namespace: textOf(metadata.namespace), name: metadata.name },
    wanted: number(fieldsOf(spec).replicas, 1),
    there: number(replicas, 0),
    ready: number(readyReplicas, 0),
    isPaused: fieldsOf(spec).paused === true,
  };
}

export function keyOfSet({ kind, namespace, name }: MachineSet): string {
  return `${kind} ${namespace}/${name}`;
}

/** "3 machines, 2 ready" */
export function setText({ there, wanted, ready }: MachineSet): string {
  const many = there === wanted ? count(there, 'machine') : `${there} of ${count(wanted, 'machine')}`;
  return there === 0 ? many : `${many}, ${ready} ready`;
}

export function setStatus({ there, wanted, isPaused }: MachineSet): { readonly text: string; readonly tone: Tone } {
  if (isPaused) return { text: 'Paused', tone: 'paused' };
  if (there !== wanted) return { text: there < wanted ? 'Growing' : 'Shrinking', tone: 'busy' };
  return { text: 'Complete', tone: 'good' };
}

/** What becomes of the machines, line by line. */
export function whatScalingDoes({ kind, there }: MachineSet): readonly string[] {
  const fate = kind === 'pool' ? 'with their own disks' : 'with all that is on no claim';
  return [
    `It has ${count(there, 'machine')} now.`,
    `With fewer, those that are too many are shut down and deleted, ${fate}; with more, others are made like the template.`,
  ];
}
