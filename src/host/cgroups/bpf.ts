import { createHash } from 'node:crypto';
import { closeSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';
import { CgroupError } from './errors.ts';

/** bpf(2) for programs of type BPF_PROG_TYPE_CGROUP_DEVICE; numbers and layouts of linux/bpf.h. */

const commands = { load: 5, attach: 8, descriptorOf: 13, info: 15, query: 16 } as const;
const cgroupDeviceProgram = 15;
const cgroupDeviceAttachment = 6;
/** BPF_F_ALLOW_MULTI and BPF_F_REPLACE. */
export const attachFlags = { multi: 2, replace: 4 } as const;

/** System calls have numbers of their own on each architecture. */
const callNumbers: Readonly<Partial<Record<string, number>>> = { x64: 321, arm64: 280, s390x: 351, riscv64: 280 };

/** As many as are read and changed: container runtimes and systemd attach one each. */
const maxPrograms = 16;
const maxProgramBytes = 64 * 1024;
/** Where the kernel tells of more than this, it is not interested in it. */
const attributeBytes = 128;
const programInfoBytes = 128;
const loadTries = 5;

export interface AttachedProgram {
  readonly id: number;
  readonly name: string;
  /** Instructions; undefined: the kernel does not show them. */
  readonly instructions: Buffer | undefined;
}

export interface AttachedPrograms {
  readonly flags: number;
  readonly programs: readonly AttachedProgram[];
}

type Call = (command: number, attributes: Buffer, size: number) => number;

/** The kernel's filters of devices. Made by `loadDeviceFilters`. All throw CgroupError DEVICES_REFUSED or DEVICES_FOREIGN. */
export class DeviceFilters {
  readonly #call: Call;
  readonly #addressOf: (buffer: Buffer) => bigint;

  constructor(call: Call, addressOf: (buffer: Buffer) => bigint) {
    this.#call = call;
    this.#addressOf = addressOf;
  }

  /** Those of this very cgroup, not those above it. `cgroup`: a descriptor of its directory. */
  attached(cgroup: number): AttachedPrograms {
    const ids = Buffer.alloc(maxPrograms * 4);
    const attributes = Buffer.alloc(attributeBytes);
    const query = new Fields(attributes);
    query.word(0, cgroup).word(4, cgroupDeviceAttachment);
    query.address(16, this.#addressOf(ids)).word(24, maxPrograms);
    const error = this.#call(commands.query, attributes, 64);
    if (error === noSpace) throw foreign(`a cgroup has more than ${maxPrograms} device programs`);
    this.#check(error, 'the device programs of a cgroup cannot be listed');
    const fields = new Words(ids);
    const count = new Words(attributes).at(24);
    const flags = new Words(attributes).at(12);
    const programs = Array.from({ length: count }, (_, index) => this.#read(fields.at(index * 4)));
    return { flags, programs: programs.filter((program) => program !== undefined) };
  }

  /** In one step: at each moment the replaced one holds, or the new one. False when that is no longer attached. */
  attach(cgroup: number, { flags, replaced, instructions }: Attachment): boolean {
    const loaded = this.#load(instructions);
    try {
      if (replaced === undefined) return this.#attach(cgroup, loaded, flags, undefined);
      const before = this.#open(replaced);
      if (before === undefined) return false;
      try {
        return this.#attach(cgroup, loaded, flags, before);
      } finally {
        closeSync(before);
      }
    } finally {
      closeSync(loaded);
    }
  }

  #attach(cgroup: number, program: number, flags: number, replaced: number | undefined): boolean {
    // Without "multi" a cgroup has one program, and the next one takes its place.
    const isReplacing = (flags & attachFlags.multi) !== 0 && replaced !== undefined;
    const attributes = Buffer.alloc(attributeBytes);
    const fields = new Fields(attributes);
    fields.word(0, cgroup).word(4, program).word(8, cgroupDeviceAttachment);
    fields.word(12, isReplacing ? flags | attachFlags.replace : flags).word(16, isReplacing ? replaced : 0);
    const error = this.#call(commands.attach, attributes, 20);
    if (isReplacing && error === noEntry) return false;
    this.#check(error, 'the kernel does not take the device program');
    return true;
  }

  #load(instructions: Uint8Array): number {
    const program = Buffer.from(instructions);
    const license = Buffer.from('Apache-2.0\0');
    const log = Buffer.alloc(4096);
    const attributes = Buffer.alloc(attributeBytes);
    const fields = new Fields(attributes);
    fields
      .word(0, cgroupDeviceProgram)
      .word(4, program.length / 8)
      .address(8, this.#addressOf(program));
    fields.address(16, this.#addressOf(license)).word(68, cgroupDeviceAttachment);
    attributes.write(programName(program), 48, 'latin1');
    for (let tries = 1; ; tries++) {
      const result = this.#call(commands.load, attributes, 72);
      if (result >= 0) return result;
      // A signal came in between.
      if (result === tryAgain && tries < loadTries) continue;
      if (result === invalid || result === noRights) {
        fields.word(24, 1).word(28, log.length).address(32, this.#addressOf(log));
        this.#call(commands.load, attributes, 72);
      }
      throw refused('the kernel does not load the device program', result, textOf(log));
    }
  }

  /** Undefined: it was detached meanwhile. */
  #open(id: number): number | undefined {
    const attributes = Buffer.alloc(attributeBytes);
    new Fields(attributes).word(0, id);
    const result = this.#call(commands.descriptorOf, attributes, 12);
    if (result === noEntry) return undefined;
    this.#check(result, 'a device program cannot be opened');
    return result;
  }

  #read(id: number): AttachedProgram | undefined {
    const descriptor = this.#open(id);
    if (descriptor === undefined) return undefined;
    try {
      const { length, name } = this.#info(descriptor, undefined);
      if (length > maxProgramBytes) throw foreign(`device program ${id} has ${length} bytes`);
      const instructions = Buffer.alloc(length);
      const { isShown } = this.#info(descriptor, instructions);
      return { id, name, instructions: isShown && length > 0 ? instructions : undefined };
    } finally {
      closeSync(descriptor);
    }
  }

  #info(descriptor: number, instructions: Buffer | undefined): { length: number; name: string; isShown: boolean } {
    const info = Buffer.alloc(programInfoBytes);
    const wanted = new Fields(info);
    if (instructions) wanted.word(20, instructions.length).address(32, this.#addressOf(instructions));
    const attributes = Buffer.alloc(attributeBytes);
    new Fields(attributes).word(0, descriptor).word(4, info.length).address(8, this.#addressOf(info));
    this.#check(this.#call(commands.info, attributes, 16), 'a device program cannot be read');
    const words = new Words(info);
    const name = info.toString('latin1', 64, 80).split('\0')[0] ?? '';
    return { length: words.at(20), name, isShown: words.at(32) !== 0 || words.at(36) !== 0 };
  }

  #check(result: number, problem: string): void {
    if (result < 0) throw refused(problem, result);
  }
}

export interface Attachment {
  /** As the others of this cgroup were attached: the kernel takes no other ones. */
  readonly flags: number;
  /** Id of the one whose place it takes; unless given it is added. */
  readonly replaced?: number;
  readonly instructions: Uint8Array;
}

/** Of 15 letters: tells a program whose instructions the kernel does not show. */
export function programName(instructions: Uint8Array): string {
  return `vmi_${createHash('sha256').update(instructions).digest('hex').slice(0, 11)}`;
}

/** Loads the C library's calls. Rejects with CgroupError where there is no such call. */
export async function loadDeviceFilters(): Promise<DeviceFilters> {
  const number = callNumbers[process.arch];
  if (number === undefined) {
    throw new CgroupError(
      'DEVICES_REFUSED',
      `bpf(2) has no known number on ${process.arch}: this node cannot hot-plug`,
    );
  }
  const { default: koffi } = await import('koffi');
  const syscall = koffi.load(null).func('long syscall(long number, int command, void *attributes, uint size)');
  const call: Call = (command, attributes, size) => {
    const result = Number(syscall(number, command, attributes, size));
    return result < 0 ? -koffi.errno() : result;
  };
  return new DeviceFilters(call, (buffer) => koffi.address(buffer));
}

/** Error numbers below 0, the same on all architectures that Node.js runs on. */
const noRights = -1;
const noEntry = -2;
const tryAgain = -11;
const noSpace = -28;
const invalid = -22;

const isLittle = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

class Fields {
  readonly #buffer: Buffer;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  word(at: number, value: number): this {
    if (isLittle) this.#buffer.writeUInt32LE(value, at);
    else this.#buffer.writeUInt32BE(value, at);
    return this;
  }

  address(at: number, value: bigint): this {
    if (isLittle) this.#buffer.writeBigUInt64LE(value, at);
    else this.#buffer.writeBigUInt64BE(value, at);
    return this;
  }
}

class Words {
  readonly #buffer: Buffer;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  at(offset: number): number {
    return isLittle ? this.#buffer.readUInt32LE(offset) : this.#buffer.readUInt32BE(offset);
  }
}

function foreign(problem: string): CgroupError {
  return new CgroupError('DEVICES_FOREIGN', `${problem}, more than this agent changes`);
}

function refused(problem: string, error: number, log = ''): CgroupError {
  const advice =
    error === noRights
      ? ': run the node agent privileged, or with CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN'
      : error === invalid
        ? ': Linux 5.6 or newer is needed'
        : '';
  const text = `${problem} (${getSystemErrorName(error)})${advice}${log && ` ${log}`}`;
  return new CgroupError('DEVICES_REFUSED', text);
}

/** The last words of the verifier. */
function textOf(log: Buffer): string {
  const end = log.indexOf(0);
  return log.toString('latin1', Math.max(0, end - 300), end).trim();
}
