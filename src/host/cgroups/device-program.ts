/**
 * Programs of type BPF_PROG_TYPE_CGROUP_DEVICE, as the kernel's Documentation/admin-guide/cgroup-v2.rst and the header linux/bpf.h
 * have them. Pure.
 *
 * A process may open a device when each program of its cgroup says so, so a further program can only take away. What a container's
 * runtime allowed is kept by putting rules before its own program: what they name is decided, for all else that one is asked.
 */

/** A block device, by its numbers. */
export interface BlockDevice {
  readonly major: number;
  readonly minor: number;
}

/** A device in both lists is allowed. */
export interface DeviceRules {
  readonly allow: readonly BlockDevice[];
  readonly deny: readonly BlockDevice[];
}

/** For a cgroup whose program cannot be kept; a number that is missing stands for all of them. */
export interface StandardRule {
  readonly type: 'block' | 'char';
  readonly major?: number;
  readonly minor?: number;
  /** To make the node only, neither to read nor to write. */
  readonly onlyMake?: boolean;
}

export const instructionBytes = 8;

/** Eight bytes each, with numbers in the machine's order. */
interface Instruction {
  readonly op: number;
  readonly to?: number;
  readonly from?: number;
  readonly jump?: number;
  readonly value?: number;
}

/** Codes from linux/bpf_common.h and linux/bpf.h: 32-bit load, and, right shift, move, jumps, end. */
const ops = { load: 0x61, and: 0x54, shiftRight: 0x74, move: 0xb7, ifNot: 0x55, exit: 0x95 } as const;

/** Fields of struct bpf_cgroup_dev_ctx. */
const context = { accessType: 0, major: 4, minor: 8 } as const;
const deviceType = { block: 1, char: 2 } as const;
const makeNode = 1;

/** In the first instruction, above the number of rules. It moves a number that is never read. */
const mark = 0x4b560000;
const maxRules = 0xffff;
const headLength = 6;
const ruleLength = 4;
/** The mark, the jump over the rules, and the loads. */
const jumpIndex = 3;

/** Jumps have 16 bits, with a sign. */
const maxJump = 0x7fff;

/**
 * Rules in front of a program. Throws RangeError when they are too many: a jump does not reach over them.
 * `base`: the runtime's, without rules of an earlier call.
 */
export function withDeviceRules({ allow, deny }: DeviceRules, base: Uint8Array, isLittle = littleEndian): Buffer {
  const denied = deny.filter((each) => !allow.some((allowed) => isSame(allowed, each)));
  const rules = [
    ...unique(allow).map((rule) => [rule, 1] as const),
    ...unique(denied).map((rule) => [rule, 0] as const),
  ];
  if (rules.length === 0) return Buffer.from(base);
  if (rules.length > maxRules || rules.length * ruleLength + 2 > maxJump) throw new RangeError('too many device rules');
  const head: Instruction[] = [
    { op: ops.move, to: 0, value: mark | rules.length },
    { op: ops.load, to: 2, from: 1, jump: context.accessType },
    { op: ops.and, to: 2, value: 0xffff },
    { op: ops.ifNot, to: 2, value: deviceType.block, jump: 2 + rules.length * ruleLength },
    { op: ops.load, to: 2, from: 1, jump: context.major },
    { op: ops.load, to: 3, from: 1, jump: context.minor },
  ];
  const checks = rules.flatMap(([{ major, minor }, result]): Instruction[] => [
    { op: ops.ifNot, to: 2, value: major, jump: 3 },
    { op: ops.ifNot, to: 3, value: minor, jump: 2 },
    { op: ops.move, to: 0, value: result },
    { op: ops.exit },
  ]);
  return Buffer.concat([encode([...head, ...checks], isLittle), base]);
}

/** The other way round: what `withDeviceRules` was given. A program without its mark is all base. */
export function readDeviceRules(
  program: Uint8Array,
  isLittle = littleEndian,
): { readonly rules: DeviceRules; readonly base: Buffer } {
  const bytes = Buffer.from(program);
  const count = ruleCountOf(bytes, isLittle);
  const allow: BlockDevice[] = [];
  const deny: BlockDevice[] = [];
  for (let rule = 0; rule < count; rule++) {
    const at = headLength + rule * ruleLength;
    const [major, minor, result] = [at, at + 1, at + 2].map((index) => decode(bytes, index, isLittle));
    if (!major || !minor || !result) break;
    (result.value === 1 ? allow : deny).push({ major: major.value, minor: minor.value });
  }
  const restAt = count === 0 ? 0 : (headLength + count * ruleLength) * instructionBytes;
  return { rules: { allow, deny }, base: bytes.subarray(restAt) };
}

/** 0 for a program whose beginning is not of this shape to the last jump. */
function ruleCountOf(bytes: Buffer, isLittle: boolean): number {
  const first = decode(bytes, 0, isLittle);
  if (first?.op !== ops.move || (first.value & 0xffff0000) !== mark) return 0;
  const count = first.value & 0xffff;
  const jump = decode(bytes, jumpIndex, isLittle);
  const isWhole = bytes.length > (headLength + count * ruleLength) * instructionBytes;
  return isWhole && jump?.op === ops.ifNot && jump.jump === 2 + count * ruleLength ? count : 0;
}

/**
 * A program of its own, which allows what its rules name and nothing else, for a cgroup whose program cannot be read: the kernel
 * shows none whose constants were blinded (net.core.bpf_jit_harden).
 */
export function standardProgram(rules: readonly StandardRule[], isLittle = littleEndian): Buffer {
  const head: Instruction[] = [
    { op: ops.load, to: 4, from: 1, jump: context.accessType },
    { op: ops.shiftRight, to: 4, value: 16 },
    { op: ops.load, to: 5, from: 1, jump: context.accessType },
    { op: ops.and, to: 5, value: 0xffff },
    { op: ops.load, to: 2, from: 1, jump: context.major },
    { op: ops.load, to: 3, from: 1, jump: context.minor },
  ];
  const end: Instruction[] = [{ op: ops.move, to: 0, value: 0 }, { op: ops.exit }];
  return encode([...head, ...rules.flatMap(standardCheck), ...end], isLittle);
}

function standardCheck({ type, major, minor, onlyMake }: StandardRule): Instruction[] {
  const checks = [
    { to: 5, value: deviceType[type] },
    ...(onlyMake ? [{ to: 4, value: makeNode }] : []),
    ...(major === undefined ? [] : [{ to: 2, value: major }]),
    ...(minor === undefined ? [] : [{ to: 3, value: minor }]),
  ];
  const jumps = checks.map(({ to, value }, index) => ({ op: ops.ifNot, to, value, jump: checks.length - index + 1 }));
  return [...jumps, { op: ops.move, to: 0, value: 1 }, { op: ops.exit }];
}

/** It can be loaded again as it was read: it calls nothing, and has no addresses of maps in it. */
export function isPlain(program: Uint8Array): boolean {
  const call = 0x85;
  const load64 = 0x18;
  /** Register 11 is the kernel's own, for blinded constants. */
  const lastRegister = 10;
  if (program.length === 0 || program.length % instructionBytes !== 0) return false;
  for (let at = 0; at < program.length; at += instructionBytes) {
    const [op = call, registers = 0] = program.subarray(at, at + 2);
    if (op === call || op === load64 || (registers & 0xf) > lastRegister || registers >> 4 > lastRegister) return false;
  }
  return true;
}

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function isSame(one: BlockDevice, other: BlockDevice): boolean {
  return one.major === other.major && one.minor === other.minor;
}

function unique(devices: readonly BlockDevice[]): BlockDevice[] {
  return devices.filter((each, index) => devices.findIndex((other) => isSame(other, each)) === index);
}

function encode(instructions: readonly Instruction[], isLittle: boolean): Buffer {
  const bytes = Buffer.alloc(instructions.length * instructionBytes);
  for (const [index, { op, to = 0, from = 0, jump = 0, value = 0 }] of instructions.entries()) {
    const at = index * instructionBytes;
    bytes.writeUInt8(op, at);
    bytes.writeUInt8(isLittle ? (from << 4) | to : (to << 4) | from, at + 1);
    if (isLittle) {
      bytes.writeInt16LE(jump, at + 2);
      bytes.writeInt32LE(value | 0, at + 4);
    } else {
      bytes.writeInt16BE(jump, at + 2);
      bytes.writeInt32BE(value | 0, at + 4);
    }
  }
  return bytes;
}

function decode(bytes: Buffer, index: number, isLittle: boolean) {
  const at = index * instructionBytes;
  if (at + instructionBytes > bytes.length) return undefined;
  const op = bytes.readUInt8(at);
  const jump = isLittle ? bytes.readInt16LE(at + 2) : bytes.readInt16BE(at + 2);
  const value = isLittle ? bytes.readInt32LE(at + 4) : bytes.readInt32BE(at + 4);
  return { op, jump, value };
}
