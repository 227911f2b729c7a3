import { duplicateField, type FieldError, invalidField, requiredField } from '../errors.ts';
import { at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { nameProblem } from './metadata.ts';
import { checkProbes } from './probe-rules.ts';
import { amountOf, type SpecRules } from './spec-rules.ts';
import { checkAccess } from './vmi-access-rules.ts';
import { checkClaims } from './vmi-claim-rules.ts';
import { checkClock } from './vmi-clock.ts';
import { checkCpu, checkGuestMemory } from './vmi-cpu-rules.ts';
import { checkDisks, checkVolumes } from './vmi-disk-rules.ts';
import { checkLaunchSecurity } from './vmi-launch-security.ts';
import { checkMachine } from './vmi-machine-rules.ts';
import { checkInterfaces } from './vmi-network-rules.ts';
import { checkScheduling } from './vmi-scheduling.ts';

/** Rules between the fields of a VMI's spec whose form is right already, those of KubeVirt's webhook among them. */
export function checkVmiSpec(rules: SpecRules): FieldError[] {
  const { spec, field, isWhole } = rules;
  return [
    ...(isWhole ? checkMemory(spec, field) : []),
    ...checkAmounts(spec, field),
    ...checkNames(spec, field),
    ...checkVolumes(rules),
    ...checkDisks(rules),
    ...checkInterfaces(rules),
    ...checkClaims(rules),
    ...checkBootOrder(spec, field),
    ...checkMachine(rules),
    ...checkLaunchSecurity(rules),
    ...checkCpu(rules),
    ...checkGuestMemory(rules),
    ...checkAccess(rules),
    ...checkProbes(spec, field),
    ...checkClock(spec, field),
    ...checkScheduling(spec, field),
  ];
}

function checkMemory(spec: JsonObject, field: string): FieldError[] {
  const sources = [
    at(spec, 'domain', 'memory', 'guest'),
    at(spec, 'domain', 'memory', 'hugepages', 'pageSize'),
    at(spec, 'domain', 'resources', 'requests', 'memory'),
    at(spec, 'domain', 'resources', 'limits', 'memory'),
  ];
  if (sources.some((source) => source !== undefined && source !== null)) return [];
  return [requiredField(`${field}.domain.memory.guest`, 'say how much memory the guest has, for example "128Mi"')];
}

/** Amounts that no guest can be given (upstream: `validateMemoryRequestsAndLimits`, `validateCpuRequestDoesNotExceedLimit`). */
function checkAmounts(spec: JsonObject, field: string): FieldError[] {
  const path = `${field}.domain`;
  const guest = at(spec, 'domain', 'memory', 'guest');
  const none = amountOf(guest) === 0 ? [invalidField(`${path}.memory.guest`, guest, 'must be more than 0')] : [];
  const above = ['cpu', 'memory'].flatMap((name) => {
    const [request, limit] = ['requests', 'limits'].map((kind) => at(spec, 'domain', 'resources', kind, name));
    const isAbove = (amountOf(request) ?? 0) > (amountOf(limit) ?? Number.POSITIVE_INFINITY);
    const why = `is more than ${path}.resources.limits.${name}, which is ${limit}`;
    return isAbove ? [invalidField(`${path}.resources.requests.${name}`, request, why)] : [];
  });
  const disks = objectsAt(spec, 'volumes').flatMap((volume, index) => {
    const capacity = at(volume, 'emptyDisk', 'capacity');
    if (amountOf(capacity) !== 0) return [];
    return [invalidField(`${field}.volumes[${index}].emptyDisk.capacity`, capacity, 'must be more than 0')];
  });
  return [...none, ...above, ...disks];
}

/** Names that become host names, files, and parts of pods. */
function checkNames(spec: JsonObject, field: string): FieldError[] {
  const check = (path: string, value: unknown, rule: 'label' | 'subdomain') => {
    const problem = typeof value === 'string' && value !== '' ? nameProblem(value, rule) : undefined;
    return problem === undefined ? [] : [invalidField(path, value, problem)];
  };
  const volumes = objectsAt(spec, 'volumes').flatMap((volume, index) => [
    ...check(`${field}.volumes[${index}].name`, volume.name, 'label'),
    ...checkPaths(volume, `${field}.volumes[${index}]`),
  ]);
  return [
    ...check(`${field}.hostname`, spec.hostname, 'label'),
    ...check(`${field}.subdomain`, spec.subdomain, 'subdomain'),
    ...volumes,
  ];
}

/** Also the rules that upstream's definition has in CEL. */
function checkPaths(volume: JsonObject, field: string): FieldError[] {
  const paths = ['hostDisk', 'containerPath'].flatMap((source) => {
    const path = stringAt(volume, source, 'path');
    if (path === undefined) return [];
    if (!path.startsWith('/'))
      return [invalidField(`${field}.${source}.path`, path, "path must be absolute (start with '/')")];
    return path.split('/').includes('..')
      ? [invalidField(`${field}.${source}.path`, path, "path must not contain '..'")]
      : [];
  });
  const why = 'readOnly must be true, write access is not supported';
  const isWritable = at(volume, 'containerPath', 'readOnly') === false;
  return isWritable ? [...paths, invalidField(`${field}.containerPath.readOnly`, false, why)] : paths;
}

function checkBootOrder(spec: JsonObject, field: string): FieldError[] {
  const seen = new Set<unknown>();
  return ['disks', 'interfaces'].flatMap((list) =>
    objectsAt(spec, 'domain', 'devices', list).flatMap(({ bootOrder }, index) => {
      if (bootOrder === undefined || bootOrder === null) return [];
      if (!seen.has(bootOrder)) {
        seen.add(bootOrder);
        return [];
      }
      const path = `${field}.domain.devices.${list}[${index}].bootOrder`;
      return [duplicateField(path, bootOrder)];
    }),
  );
}
