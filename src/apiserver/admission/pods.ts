import { copyJson, isRecord, sameJson } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { duplicateField, type FieldError, invalidField, requiredField } from '../errors.ts';
import { type ApiObject, at, ensureObject, type JsonObject, numberAt, objectsAt, stringAt } from '../object.ts';
import { nameProblem } from './metadata.ts';

const defaultGraceSeconds = 30;

/** How long a kubelet gets to end a pod: nothing for one that was never bound to a node or has ended. */
export function podGraceSeconds(pod: ApiObject): number {
  const phase = stringAt(pod, 'status', 'phase');
  if (!stringAt(pod, 'spec', 'nodeName') || phase === 'Succeeded' || phase === 'Failed') return 0;
  return numberAt(pod, 'spec', 'terminationGracePeriodSeconds') ?? defaultGraceSeconds;
}

export const podAdmission: Admission = {
  fill(pod, { old }) {
    const spec = ensureObject(pod, 'spec');
    spec.restartPolicy ??= 'Always';
    spec.terminationGracePeriodSeconds ??= defaultGraceSeconds;
    spec.dnsPolicy ??= 'ClusterFirst';
    spec.schedulerName ??= 'default-scheduler';
    spec.serviceAccountName ??= 'default';
    if (!old) pod.status = { phase: 'Pending', qosClass: qosClass(pod) };
  },
  validate(pod, { old }) {
    return [...validateContainers(pod), ...(old ? validateChange(pod, old) : validatePriority(pod))];
  },
};

/** Those that each cluster has. */
const priorityClasses: readonly unknown[] = ['system-node-critical', 'system-cluster-critical'];

/** This server keeps no PriorityClasses, and without one a real server makes no pod either. */
function validatePriority(pod: ApiObject): FieldError[] {
  const name = stringAt(pod, 'spec', 'priorityClassName') ?? '';
  if (name === '' || priorityClasses.includes(name)) return [];
  const problem = `no PriorityClass with name ${name} was found: this server keeps none, take it out`;
  return [invalidField('spec.priorityClassName', name, problem)];
}

function validateContainers(pod: ApiObject): FieldError[] {
  const containers = objectsAt(pod, 'spec', 'containers');
  if (containers.length === 0) return [requiredField('spec.containers')];
  const all = [...objectsAt(pod, 'spec', 'initContainers'), ...containers];
  const twice = namedTwice(all);
  return containers.flatMap((container, index) => {
    const field = `spec.containers[${index}]`;
    const { name } = container;
    if (typeof name !== 'string' || name === '') return [requiredField(`${field}.name`)];
    const problem = nameProblem(name, 'label');
    if (problem !== undefined) return [invalidField(`${field}.name`, name, problem)];
    if (twice.has(name)) return [duplicateField(`${field}.name`, name)];
    return container.image ? [] : [requiredField(`${field}.image`)];
  });
}

function namedTwice(items: readonly JsonObject[]): ReadonlySet<unknown> {
  const seen = new Set<unknown>();
  const twice = new Set<unknown>();
  for (const { name } of items) {
    if (seen.has(name)) twice.add(name);
    seen.add(name);
  }
  return twice;
}

/** A pod's spec is fixed but for these; the node is set by `binding`. */
function validateChange(pod: ApiObject, old: ApiObject): FieldError[] {
  if (sameJson(comparable(pod), comparable(old))) return [];
  const text =
    'pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, ' +
    '`spec.activeDeadlineSeconds`, `spec.tolerations` and `spec.schedulingGates`';
  return [{ field: 'spec', reason: 'FieldValueInvalid', message: `Forbidden: ${text}` }];
}

function comparable(pod: ApiObject): unknown {
  const spec = copyJson(at(pod, 'spec'));
  if (!isRecord(spec)) return spec;
  for (const name of ['activeDeadlineSeconds', 'tolerations', 'schedulingGates', 'terminationGracePeriodSeconds']) {
    delete spec[name];
  }
  for (const list of ['containers', 'initContainers']) {
    for (const container of objectsAt(spec, list)) delete container.image;
  }
  return spec;
}

function qosClass(pod: ApiObject): string {
  const containers = [...objectsAt(pod, 'spec', 'containers'), ...objectsAt(pod, 'spec', 'initContainers')];
  const resources = containers.map((container) => ({
    requests: at(container, 'resources', 'requests') ?? {},
    limits: at(container, 'resources', 'limits') ?? {},
  }));
  const figure = (from: unknown, name: string) => at(from, name);
  const isGuaranteed = resources.every(({ requests, limits }) =>
    ['cpu', 'memory'].every((name) => {
      const limit = figure(limits, name);
      return limit !== undefined && sameJson(figure(requests, name) ?? limit, limit);
    }),
  );
  if (isGuaranteed) return 'Guaranteed';
  const isBestEffort = resources.every(({ requests, limits }) =>
    ['cpu', 'memory'].every((name) => figure(requests, name) === undefined && figure(limits, name) === undefined),
  );
  return isBestEffort ? 'BestEffort' : 'Burstable';
}
