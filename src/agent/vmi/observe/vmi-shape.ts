import type { VirtualMachineInstance } from '../../../api/index.ts';
import { copyJson, isRecord } from '../../../base/index.ts';

/** A field of a VMI that cannot be used, with the place in words a user can act on. */
export interface VmiProblem {
  /** Path as kubectl explains it: `spec.domain.devices.disks`. */
  readonly path: string;
  readonly expected: string;
  /** `status` and `metadata` problems forbid writing the object back. */
  readonly part: 'metadata' | 'spec' | 'status';
}

type Check = (value: unknown) => boolean;

const isString: Check = (value) => typeof value === 'string';
const isRecordOfStrings: Check = (value) => isRecord(value) && Object.values(value).every(isString);
const isListOfRecords: Check = (value) => Array.isArray(value) && value.every(isRecord);
const isNamedList: Check = (value) =>
  Array.isArray(value) && value.every((item) => isRecord(item) && isString(item.name));
const isTypedList: Check = (value) =>
  Array.isArray(value) && value.every((item) => isRecord(item) && isString(item.type));
const isInterfaceList: Check = (value) =>
  Array.isArray(value) &&
  value.every((item) => isRecord(item) && (item.infoSource === undefined || isString(item.infoSource)));
const isSeconds: Check = (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0;

interface FieldRule {
  readonly path: readonly string[];
  readonly check: Check;
  readonly expected: string;
}

const rule = (path: string, check: Check, expected: string): FieldRule => ({ path: path.split('.'), check, expected });

/** Every field that this agent reads; parents first. Absent and null are fine everywhere but at `required`. */
const fields: readonly FieldRule[] = [
  rule('metadata.labels', isRecordOfStrings, 'a map of strings'),
  rule('metadata.annotations', isRecordOfStrings, 'a map of strings'),
  rule('metadata.deletionTimestamp', isString, 'a time'),
  rule('metadata.resourceVersion', isString, 'a string'),
  rule('status', isRecord, 'an object'),
  rule('status.phase', isString, 'a string'),
  rule('status.nodeName', isString, 'a string'),
  rule('status.activePods', isRecordOfStrings, 'a map of strings'),
  rule('status.conditions', isTypedList, 'a list of conditions'),
  rule('status.volumeStatus', isNamedList, 'a list of named objects'),
  rule('status.interfaces', isInterfaceList, 'a list of interfaces'),
  rule('status.phaseTransitionTimestamps', isListOfRecords, 'a list of objects'),
  rule('status.migrationState', isRecord, 'an object'),
  rule('status.guestOSInfo', isRecord, 'an object'),
  rule('status.machine', isRecord, 'an object'),
  rule('status.memory', isRecord, 'an object'),
  rule('spec', isRecord, 'an object'),
  rule('spec.terminationGracePeriodSeconds', isSeconds, 'a number of seconds, 0 or more'),
  rule('spec.volumes', isNamedList, 'a list of named volumes'),
  rule('spec.networks', isNamedList, 'a list of named networks'),
  rule('spec.domain', isRecord, 'an object'),
  rule('spec.domain.devices', isRecord, 'an object'),
  rule('spec.domain.devices.disks', isNamedList, 'a list of named disks'),
  rule('spec.domain.devices.interfaces', isNamedList, 'a list of named interfaces'),
  rule('spec.domain.devices.filesystems', isNamedList, 'a list of named filesystems'),
  rule('spec.domain.devices.hostDevices', isNamedList, 'a list of named devices'),
  rule('spec.domain.devices.gpus', isNamedList, 'a list of named devices'),
  rule('spec.domain.cpu', isRecord, 'an object'),
  rule('spec.domain.cpu.features', isNamedList, 'a list of named features'),
  rule('spec.domain.launchSecurity', isRecord, 'an object'),
  rule('spec.domain.features', isRecord, 'an object'),
  rule('spec.domain.firmware', isRecord, 'an object'),
];

const required: readonly FieldRule[] = [
  rule('spec', isRecord, 'an object'),
  rule('spec.domain', isRecord, 'an object'),
];

/** Objects without these cannot even be named; they are not looked at. */
export function isAddressable(object: unknown): object is VirtualMachineInstance {
  if (!isRecord(object) || !isRecord(object.metadata)) return false;
  const { name, namespace, uid } = object.metadata;
  return isString(name) && isString(namespace) && isString(uid) && name !== '' && namespace !== '' && uid !== '';
}

export interface ReadableVmi {
  /** The object itself when all of it can be used, else a copy without what cannot. To be read only, in either case. */
  readonly vmi: VirtualMachineInstance;
  readonly problems: readonly VmiProblem[];
}

/**
 * Makes an object safe to read: fields of a wrong type are left out and reported. The CRD lets many of them through, and one bad
 * object must not stop the others.
 */
export function readableVmi(object: VirtualMachineInstance): ReadableVmi {
  if (fields.every((field) => isUsable(field, object))) return { vmi: object, problems: missingOf(object, []) };
  const vmi = copyJson(object);
  const problems: VmiProblem[] = [];
  for (const field of fields) {
    if (isUsable(field, vmi)) continue;
    const holder = holderOf(vmi, field.path);
    const last = field.path.at(-1) ?? '';
    if (holder?.[last] !== null) problems.push(problemOf(field));
    delete holder?.[last];
  }
  return { vmi, problems: [...problems, ...missingOf(vmi, problems)] };
}

/** Null is fine, but no reader expects it. */
function isUsable({ path, check }: FieldRule, object: VirtualMachineInstance): boolean {
  const value = holderOf(object, path)?.[path.at(-1) ?? ''];
  return value === undefined || (value !== null && check(value));
}

function missingOf(vmi: VirtualMachineInstance, known: readonly VmiProblem[]): VmiProblem[] {
  const isMissing = ({ path }: FieldRule) => holderOf(vmi, path)?.[path.at(-1) ?? ''] === undefined;
  return required
    .filter(isMissing)
    .map(problemOf)
    .filter(({ path }) => !known.some((other) => other.path === path));
}

export function describeProblems(problems: readonly VmiProblem[]): string {
  const texts = problems.map(({ path, expected }) => `${path} must be ${expected}`);
  return `this VirtualMachineInstance cannot be used as it is: ${texts.join('; ')}. Delete it and create it again without the mistake.`;
}

function problemOf(field: FieldRule): VmiProblem {
  const [first] = field.path;
  const part = first === 'status' || first === 'metadata' ? first : 'spec';
  return { path: field.path.join('.'), expected: field.expected, part };
}

function holderOf(object: unknown, path: readonly string[]): Record<string, unknown> | undefined {
  let holder: unknown = object;
  for (let depth = 0; depth < path.length - 1; depth++) {
    holder = isRecord(holder) ? holder[path[depth] ?? ''] : undefined;
  }
  return isRecord(holder) ? holder : undefined;
}
