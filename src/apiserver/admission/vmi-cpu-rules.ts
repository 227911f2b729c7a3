import { parseQuantity } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { type FieldError, refusedField } from '../errors.ts';
import { at, type JsonObject, numberAt, stringAt } from '../object.ts';
import type { SpecRules } from './spec-rules.ts';

/** 0: there is none. */
function amount(spec: JsonObject, ...path: readonly string[]): number {
  const value = at(spec, 'domain', ...path);
  return (typeof value === 'string' || typeof value === 'number' ? parseQuantity(value) : undefined) ?? 0;
}

/** What KubeVirt's webhook says of CPUs (upstream: validateCpuPinning, validateNUMA, validateRealtime and others in vmi-create-admitter.go). */
export function checkCpu(rules: SpecRules): FieldError[] {
  const { spec, field, isWhole } = rules;
  const cpu = at(spec, 'domain', 'cpu');
  if (!isRecord(cpu)) return [];
  const path = `${field}.domain.cpu`;
  const found: FieldError[] = [];
  const [sockets = 0, maxSockets = 0] = [numberAt(cpu, 'sockets'), numberAt(cpu, 'maxSockets')];
  if (maxSockets > 0 && sockets > maxSockets) {
    const words = 'Number of sockets in CPU topology is greater than the maximum sockets allowed';
    found.push(refusedField(`${path}.sockets`, words));
  }
  // An instance type may give what is missing.
  const isDedicated = cpu.dedicatedCpuPlacement === true;
  if (isWhole && cpu.isolateEmulatorThread === true && !isDedicated) {
    const words = 'IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement';
    found.push(refusedField(`${path}.isolateEmulatorThread`, words));
  }
  if (isDedicated) found.push(...checkPinning(rules, cpu));
  return isWhole ? [...found, ...checkNuma(rules, cpu, isDedicated), ...checkRealtime(cpu, path, isDedicated)] : found;
}

/** Whole CPUs, as many as are asked for. */
function checkPinning({ spec, field }: SpecRules, cpu: JsonObject): FieldError[] {
  const path = `${field}.domain`;
  const [requests, limits] = [`${path}.resources.requests.cpu`, `${path}.resources.limits.cpu`];
  const found: FieldError[] = [];
  const refuse = (where: string, words: string) => found.push(refusedField(where, words));
  const [request, limit] = [amount(spec, 'resources', 'requests', 'cpu'), amount(spec, 'resources', 'limits', 'cpu')];
  if (!Number.isInteger(request)) refuse(requests, 'provided resources CPU requests must be an interger');
  if (!Number.isInteger(limit)) refuse(limits, 'provided resources CPU limits must be an interger');
  const [memory, memoryLimit] = ['requests', 'limits'].map((kind) => amount(spec, 'resources', kind, 'memory'));
  if (memory && memoryLimit && memory !== memoryLimit) {
    const where = `${path}.resources.requests.memory`;
    refuse(where, `${where} must be equal to ${path}.resources.limits.memory`);
  }
  const where = `${path}.cpu.dedicatedCpuPlacement`;
  const [asked, capped] = [Math.ceil(request), Math.ceil(limit)];
  if (asked > 0 && capped > 0 && asked !== capped) {
    refuse(where, `${requests} or ${limits} must be equal when DedicatedCPUPlacement is true `);
  }
  const count = guestCpus(cpu);
  if ((asked > 0 || capped > 0) && count > 0 && asked !== count && capped !== count) {
    const both = `${requests} or ${limits} must not be provided at the same time with ${path}.cpu.cores`;
    refuse(where, `${both} when DedicatedCPUPlacement is true `);
  }
  const threads = numberAt(cpu, 'threads') ?? 0;
  if (threads > 2) {
    const what = `Not more than two threads must be provided at ${path}.cpu.threads (got ${threads})`;
    refuse(where, `${what} when DedicatedCPUPlacement is true`);
  }
  return found;
}

/** 0: it does not say. */
function guestCpus(cpu: JsonObject): number {
  const figures = ['cores', 'sockets', 'threads'].map((name) => numberAt(cpu, name) ?? 0);
  return figures.every((figure) => figure === 0) ? 0 : figures.reduce((all, figure) => all * (figure || 1), 1);
}

function checkNuma({ spec, field }: SpecRules, cpu: JsonObject, isDedicated: boolean): FieldError[] {
  if (!isRecord(at(cpu, 'numa', 'guestMappingPassthrough'))) return [];
  const path = `${field}.domain`;
  const where = `${path}.cpu.numa.guestMappingPassthrough`;
  const found: FieldError[] = [];
  if (!isDedicated) {
    const words = `${path}.cpu.dedicatedCpuPlacement must be set to true when NUMA topology strategy is set in ${where}`;
    found.push(refusedField(where, words));
  }
  if (!isRecord(at(spec, 'domain', 'memory', 'hugepages'))) {
    const words = `${path}.memory.hugepages must be requested when NUMA topology strategy is set in ${where}`;
    found.push(refusedField(where, words));
  }
  return found;
}

function checkRealtime(cpu: JsonObject, path: string, isDedicated: boolean): FieldError[] {
  if (!isRecord(cpu.realtime)) return [];
  const required = (member: string, what: string): FieldError => {
    const words = `${path}.${member} must be ${what} when ${path}.realtime is used`;
    return { ...refusedField(`${path}.${member}`, words), reason: 'FieldValueRequired' };
  };
  const numa = 'numa.guestMappingPassthrough';
  return [
    ...(isDedicated ? [] : [required('dedicatedCpuPlacement', 'set to true')]),
    ...(isRecord(at(cpu, 'numa', 'guestMappingPassthrough')) ? [] : [required(numa, 'defined')]),
  ];
}

const leastRequest = 1_000_000;

/** What KubeVirt's webhook says of memory (upstream: validateHugepagesMemoryRequests, validateGuestMemoryLimit). */
export function checkGuestMemory({ spec, field, cluster }: SpecRules): FieldError[] {
  const path = `${field}.domain`;
  const request = amount(spec, 'resources', 'requests', 'memory');
  const limit = amount(spec, 'resources', 'limits', 'memory');
  const guest = amount(spec, 'memory', 'guest');
  const shown = (...names: readonly string[]) => String(at(spec, 'domain', ...names) ?? '0');
  const requests = `${path}.resources.requests.memory`;
  const found: FieldError[] = [];
  if (request > 0 && request < leastRequest) {
    const value = shown('resources', 'requests', 'memory');
    found.push(refusedField(requests, `${requests} '${value}': must be greater than or equal to 1M.`));
  }
  if (cluster.liveUpdate?.rolloutStrategy === 'Stage' && guest > limit && limit > 0) {
    const guestPath = `${path}.memory.guest`;
    const ofLimit = `${path}.resources.limits.memory '${shown('resources', 'limits', 'memory')}'`;
    const words = `${guestPath} '${shown('memory', 'guest')}' must be equal to or less than the memory limit ${ofLimit}`;
    found.push(refusedField(guestPath, words));
  }
  const pageSize = stringAt(spec, 'domain', 'memory', 'hugepages', 'pageSize');
  const page = pageSize === undefined ? undefined : parseQuantity(pageSize);
  const memory = request || guest || limit;
  if (!page || memory % page === 0) return found;
  const how = memory < page ? 'must be equal to or larger than' : 'is not a multiple of the';
  const value = shown('resources', 'requests', 'memory');
  const words = `${requests} '${value}' ${how} page size ${path}.memory.hugepages.pageSize '${pageSize}'`;
  return [...found, refusedField(requests, words)];
}
