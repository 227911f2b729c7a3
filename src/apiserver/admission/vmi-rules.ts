import { parseQuantity } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { duplicateField, type FieldError, invalidField, requiredField } from '../errors.ts';
import { at, type JsonObject, objectsAt, textAt } from '../object.ts';
import { nameProblem } from './metadata.ts';
import { checkProbes } from './probe-rules.ts';

/** Rules between the fields of a VMI's spec whose form is right already. `field` is the path of the spec; `isWhole`: nothing is added to it. */
export function checkVmiSpec(spec: JsonObject, field: string, isWhole: boolean): FieldError[] {
  return [
    ...(isWhole ? checkMemory(spec, field) : []),
    ...checkAmounts(spec, field),
    ...checkNames(spec, field),
    ...checkVolumes(spec, field),
    ...checkDisks(spec, field),
    ...checkInterfaces(spec, field),
    ...checkBootOrder(spec, field),
    ...checkProbes(spec, field),
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

function amountOf(value: unknown): number | undefined {
  return typeof value === 'string' || typeof value === 'number' ? parseQuantity(value) : undefined;
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
    const path = textAt(volume, source, 'path');
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

function duplicates(items: readonly JsonObject[], field: string): FieldError[] {
  const seen = new Set<unknown>();
  return items.flatMap(({ name }, index) => {
    const isFirst = !seen.has(name);
    seen.add(name);
    return isFirst ? [] : [duplicateField(`${field}[${index}].name`, name)];
  });
}

const presentMembers = (item: JsonObject, ignored: readonly string[]) =>
  Object.keys(item).filter((key) => !ignored.includes(key) && item[key] !== undefined && item[key] !== null);

function checkVolumes(spec: JsonObject, field: string): FieldError[] {
  const volumes = objectsAt(spec, 'volumes');
  const counts = volumes.flatMap((volume, index) => {
    const sources = presentMembers(volume, ['name']);
    if (sources.length === 1) return [];
    const found = sources.length === 0 ? 'none' : sources.join(', ');
    return [invalidField(`${field}.volumes[${index}]`, volume.name, `must have exactly one source, has ${found}`)];
  });
  return [...duplicates(volumes, `${field}.volumes`), ...counts];
}

function checkDisks(spec: JsonObject, field: string): FieldError[] {
  const path = `${field}.domain.devices.disks`;
  const disks = objectsAt(spec, 'domain', 'devices', 'disks');
  const volumes = new Set(objectsAt(spec, 'volumes').map(({ name }) => name));
  const errors = disks.flatMap((disk, index) => {
    const targets = ['disk', 'lun', 'cdrom'].filter((name) => isRecord(disk[name]));
    const found: FieldError[] = [];
    if (targets.length > 1)
      found.push(invalidField(`${path}[${index}]`, disk.name, 'can be only one of disk, lun, cdrom'));
    // An empty CD-ROM drive has no volume.
    if (!volumes.has(disk.name) && !targets.includes('cdrom')) {
      found.push(invalidField(`${path}[${index}].name`, disk.name, 'there is no volume of this name'));
    }
    return found;
  });
  return [...duplicates(disks, path), ...errors];
}

const bindings = ['bridge', 'masquerade', 'sriov', 'passtBinding', 'binding', 'slirp', 'macvtap', 'passt'];
const macPattern = /^(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}$/i;
const removedBindings = ['slirp', 'macvtap', 'passt'];

function checkInterfaces(spec: JsonObject, field: string): FieldError[] {
  const path = `${field}.domain.devices.interfaces`;
  const interfaces = objectsAt(spec, 'domain', 'devices', 'interfaces');
  const networks = objectsAt(spec, 'networks');
  const networkNames = new Set(networks.map(({ name }) => name));
  const names = new Set(interfaces.map(({ name }) => name));
  const errors = interfaces.flatMap((item, index) => {
    const used = bindings.filter((name) => isRecord(item[name]));
    const found: FieldError[] = [];
    const removed = used.find((name) => removedBindings.includes(name));
    if (removed) found.push(invalidField(`${path}[${index}].${removed}`, {}, 'this binding was removed from KubeVirt'));
    if (used.length > 1) found.push(invalidField(`${path}[${index}]`, item.name, `has more than one binding: ${used}`));
    const { macAddress } = item;
    if (typeof macAddress === 'string' && macAddress !== '' && !macPattern.test(macAddress)) {
      found.push(invalidField(`${path}[${index}].macAddress`, macAddress, 'must be like 02:00:00:01:02:03'));
    }
    if (!networkNames.has(item.name)) {
      found.push(invalidField(`${path}[${index}].name`, item.name, 'there is no network of this name'));
    }
    return found;
  });
  const unused = networks.flatMap(({ name }, index) =>
    names.has(name)
      ? []
      : [invalidField(`${field}.networks[${index}].name`, name, 'there is no interface of this name')],
  );
  const sources = networks.flatMap((network, index) => {
    const found = presentMembers(network, ['name']);
    if (found.length === 1) return [];
    return [invalidField(`${field}.networks[${index}]`, network.name, 'must have exactly one of pod, multus')];
  });
  return [
    ...duplicates(interfaces, path),
    ...duplicates(networks, `${field}.networks`),
    ...errors,
    ...unused,
    ...sources,
  ];
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
