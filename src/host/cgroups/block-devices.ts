import { closeSync, constants, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { type AttachedProgram, type DeviceFilters, loadDeviceFilters, programName } from './bpf.ts';
import {
  type BlockDevice,
  type DeviceRules,
  isPlain,
  readDeviceRules,
  type StandardRule,
  standardProgram,
  withDeviceRules,
} from './device-program.ts';
import { CgroupError } from './errors.ts';
import type { DeviceCgroup } from './places.ts';

export interface DeviceChange {
  /** All devices that are to be allowed beyond what the container's runtime allows. */
  readonly allow: readonly BlockDevice[];
  /** To be denied from now on, whoever allowed them. */
  readonly deny: readonly BlockDevice[];
  /** All that the container has anyway, for where the kernel does not show its program. Unless given such a program is left as it is. */
  readonly standard?: () => readonly StandardRule[];
}

/** The programs of upstream's agent allow what it plugged: what is denied stays so, the latest ones. */
const maxDenied = 64;
/** A runtime that changes the programs meanwhile is waited for, so often. */
const replaceTries = 5;

let filters: Promise<DeviceFilters> | undefined;

/**
 * Makes the block devices of one container's cgroup those that are wanted, and no disk is denied for a moment. Returns how many
 * changes that took: none when all is so already. Rejects with CgroupError.
 */
export async function setBlockDevices(cgroup: DeviceCgroup, change: DeviceChange): Promise<number> {
  let changes = cgroup.v1 === undefined ? 0 : inDirectory(cgroup.v1, (directory) => setByList(directory, change));
  for (const directory of cgroup.v2) {
    filters ??= loadDeviceFilters();
    const loaded = await filters;
    changes += inDirectory(directory, () => setByProgram(loaded, directory, change));
  }
  return changes;
}

function inDirectory<T>(directory: string, act: (directory: string) => T): T {
  try {
    return act(directory);
  } catch (cause) {
    if (cause instanceof CgroupError) throw cause;
    const code = errorCode(cause) ?? '';
    if (code === 'ENOENT' || code === 'ENODEV' || code === 'ESRCH') {
      throw new CgroupError('CGROUP_GONE', `the cgroup ${directory} is gone`, { cause });
    }
    const advice = code === 'EPERM' || code === 'EACCES' ? ': run the node agent privileged' : '';
    throw new CgroupError('DEVICES_REFUSED', `device rules of ${directory}: ${errorMessage(cause)}${advice}`, {
      cause,
    });
  }
}

/** Version 1: each write is one exception, the kernel keeps all others. */
function setByList(directory: string, { allow, deny }: DeviceChange): number {
  const listed = readFileSync(path.join(directory, 'devices.list'), 'utf8').split('\n');
  const missing = allow.filter((device) => !listed.some((line) => covers(line, device)));
  const denied = deny.filter((device) => !allow.some((each) => isSame(each, device)));
  const present = denied.filter((device) => listed.some((line) => covers(line, device)));
  for (const device of missing) writeFileSync(path.join(directory, 'devices.allow'), `${ruleText(device)}\n`);
  for (const device of present) writeFileSync(path.join(directory, 'devices.deny'), `${ruleText(device)}\n`);
  return missing.length + present.length;
}

function ruleText({ major, minor }: BlockDevice): string {
  return `b ${major}:${minor} rwm`;
}

/** `b 8:16 rwm`, with `*` for any number and `a` for both types. */
function covers(line: string, { major, minor }: BlockDevice): boolean {
  const [type = '', numbers = '', access = ''] = line.split(' ');
  const [ofMajor, ofMinor] = numbers.split(':');
  const isMeant = (type === 'b' || type === 'a') && [`${major}`, '*'].includes(ofMajor ?? '');
  return isMeant && [`${minor}`, '*'].includes(ofMinor ?? '') && [...'rwm'].every((letter) => access.includes(letter));
}

/** Version 2. A cgroup without a program filters nothing: there a program would only take away. */
function setByProgram(loaded: DeviceFilters, directory: string, change: DeviceChange): number {
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    for (let tries = 0; tries < replaceTries; tries++) {
      const changes = replaceAll(loaded, descriptor, change);
      if (changes !== undefined) return changes;
    }
  } finally {
    closeSync(descriptor);
  }
  throw new CgroupError('DEVICES_FOREIGN', `another program keeps changing the device rules of ${directory}`);
}

/** Undefined: one of them was replaced by others meanwhile. */
function replaceAll(loaded: DeviceFilters, cgroup: number, change: DeviceChange): number | undefined {
  const { flags, programs } = loaded.attached(cgroup);
  let changes = 0;
  for (const program of programs) {
    const instructions = nextProgram(program, change);
    if (instructions === undefined) continue;
    if (!loaded.attach(cgroup, { flags, replaced: program.id, instructions })) return undefined;
    changes++;
  }
  return changes;
}

/** Undefined: it is so already. */
function nextProgram({ name, instructions }: AttachedProgram, change: DeviceChange): Buffer | undefined {
  try {
    const { rules, base } = instructions ? readDeviceRules(instructions) : nothingShown;
    if (isPlain(base)) {
      const next = nextRules(rules, change);
      return isSameRules(rules, next) ? undefined : withDeviceRules(next, base);
    }
    // What it allows is not known: in its place comes one that denies by itself all that is not named.
    if (!change.standard) return undefined;
    const next = withDeviceRules({ allow: sorted(change.allow), deny: [] }, standardProgram(change.standard()));
    return name === programName(next) ? undefined : next;
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new CgroupError('DEVICES_FOREIGN', 'more devices are plugged than one program can name', { cause });
  }
}

const nothingShown = { rules: { allow: [], deny: [] }, base: Buffer.alloc(0) };

/** What was allowed and is not wanted any more is denied, too. */
export function nextRules(before: DeviceRules, { allow, deny }: Pick<DeviceChange, 'allow' | 'deny'>): DeviceRules {
  const isWanted = (device: BlockDevice) => allow.some((each) => isSame(each, device));
  const denied = [...before.deny, ...before.allow, ...deny].filter((device) => !isWanted(device));
  const once = denied.filter((device, index) => !denied.slice(index + 1).some((later) => isSame(later, device)));
  return { allow: sorted(allow), deny: once.slice(-maxDenied) };
}

function sorted(devices: readonly BlockDevice[]): BlockDevice[] {
  const once = devices.filter((each, index) => devices.findIndex((other) => isSame(other, each)) === index);
  return once.sort((one, other) => one.major - other.major || one.minor - other.minor);
}

function isSame(one: BlockDevice, other: BlockDevice): boolean {
  return one.major === other.major && one.minor === other.minor;
}

function isSameRules(one: DeviceRules, other: DeviceRules): boolean {
  const isEqual = (these: readonly BlockDevice[], those: readonly BlockDevice[]) =>
    these.length === those.length &&
    these.every((device, index) => device.major === those[index]?.major && device.minor === those[index]?.minor);
  return isEqual(sorted(one.allow), sorted(other.allow)) && isEqual(sorted(one.deny), sorted(other.deny));
}
