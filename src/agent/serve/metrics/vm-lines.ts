import { isRecord, listOf } from '../../../base/index.ts';
import { joined, labelText, sampleLine } from '../../../serving/index.ts';
import { outsideText } from './outside-text.ts';
import {
  affinityFamily,
  capacityFamily,
  dirtyRateFamily,
  migrationFamilies,
  type StatsFamily,
  statsFamilies,
  usedFamily,
} from './vm-families.ts';

/** Family's name → its lines, of one VM and one source. Text is made when the figures come, not when they are asked for. */
export type Lines = ReadonlyMap<string, string>;

/** More than this of one kind is no real machine; of file systems the guest itself decides how many there are. */
const entryLimit = 512;
const filesystemLimit = 128;
/** Of an answer: reading it keeps everything else waiting. */
const jsonLimit = 1024 * 1024;
const vcpuStates = ['offline', 'running', 'blocked'];

interface Entry {
  readonly values: Record<string, unknown>;
  readonly labels: string;
  /** A label of the time of a virtual CPU only. */
  readonly state?: string;
}

/**
 * Lines of DomainStats (pkg/virt-launcher/virtwrap/stats/types.go). A value counts only if its `…Set` is true and it is a number.
 * Undefined: the VM is vanishing, for it has no name. Throws when the text is no DomainStats.
 */
export function statsLines(json: string, labels: string): Lines | undefined {
  const stats = readStats(json);
  if (!stats) return undefined;
  const entries = entriesOf(stats);
  const lines = new Map<string, string>();
  for (const family of statsFamilies) {
    const text = familyLines(family, entries[family.of], labels);
    if (text !== '') lines.set(family.name, (lines.get(family.name) ?? '') + text);
  }
  if (stats.CPUMapSet === true) {
    lines.set(affinityFamily.name, sampleLine(affinityFamily.name, labels, allowedCells(stats.CPUMap)));
  }
  return lines;
}

function readJson(json: string): unknown {
  if (json.length > jsonLimit) throw new RangeError(`an answer of ${json.length} characters is too large`);
  return JSON.parse(json);
}

/** Undefined: the VM is vanishing. */
function readStats(json: string): Record<string, unknown> | undefined {
  const stats = readJson(json);
  if (!isRecord(stats)) throw new SyntaxError('the statistics are no object');
  return typeof stats.Name === 'string' && stats.Name !== '' ? stats : undefined;
}

/** Lines of the migration's part of DomainStats; none while nothing moves. Throws as `statsLines`. */
export function migrationLines(json: string, labels: string): Lines | undefined {
  const stats = readStats(json);
  if (!stats) return undefined;
  const job = isRecord(stats.MigrateDomainJobInfo) ? stats.MigrateDomainJobInfo : {};
  const lines = new Map<string, string>();
  for (const [field, { name }] of Object.entries(migrationFamilies)) {
    if (job[`${field}Set`] === true) add(lines, name, labels, job[field]);
  }
  return lines;
}

function entriesOf({ Cpu, Load, Memory, Vcpu, Net, Block }: Record<string, unknown>) {
  const one = (value: unknown): Entry[] => (isRecord(value) ? [{ values: value, labels: '' }] : []);
  return {
    cpu: one(Cpu),
    load: one(Load),
    memory: one(Memory),
    vcpu: many(Vcpu, (_vcpu, id) => labelText([['id', String(id)]])).map(withState),
    net: many(Net, (net) => device('interface', net, net.AliasSet === true ? net.Alias : undefined)),
    block: many(Block, (block) => device('drive', block, block.Alias)),
  };
}

/** Two entries with the same labels would be one series twice: the first counts. */
function many(
  list: unknown,
  labelsOf: (values: Record<string, unknown>, index: number) => string | undefined,
): Entry[] {
  const found = new Map<string, Entry>();
  for (const [index, values] of listOf(list).slice(0, entryLimit).entries()) {
    if (!isRecord(values)) continue;
    const labels = labelsOf(values, index);
    if (labels !== undefined && !found.has(labels)) found.set(labels, { values, labels });
  }
  return [...found.values()];
}

function withState(entry: Entry): Entry {
  const { StateSet, State } = entry.values;
  const name = StateSet === true && typeof State === 'number' ? vcpuStates[State] : undefined;
  return { ...entry, state: labelText([['state', name ?? 'unknown']]) };
}

/** Undefined: it has no name, so it is not published. */
function device(label: string, { NameSet, Name }: Record<string, unknown>, alias: unknown): string | undefined {
  if (NameSet !== true || typeof Name !== 'string') return undefined;
  return labelText([[label, outsideText(alias) || outsideText(Name)]]);
}

function familyLines(family: StatsFamily, entries: readonly Entry[], labels: string): string {
  const { name, of, field, scale } = family;
  const hasState = of === 'vcpu' && field === 'Time';
  let text = '';
  for (const { values, labels: own, state = '' } of entries) {
    const value = values[field];
    if (values[`${field}Set`] !== true || typeof value !== 'number') continue;
    const more = hasState ? state : (family.extra ?? '');
    text += sampleLine(name, joined(labels, joined(own, more)), scaled(value, scale));
  }
  return text;
}

/** Nanoseconds by division: a multiplication by 1e-9 shows digits that were not measured. */
function scaled(value: number, scale: number): number {
  return scale === 1e-9 ? value / 1e9 : value * scale;
}

function allowedCells(map: unknown): number {
  return listOf(map).reduce<number>((sum, row) => sum + listOf(row).filter((cell) => cell === true).length, 0);
}

/** Lines of GetFilesystems. Throws when the text is no list of file systems. */
export function filesystemLines(json: string, labels: string): Lines {
  // No guest agent: nothing, or Go's empty list.
  const answer = json === '' ? [] : (readJson(json) ?? []);
  if (!isRecord(answer) && !Array.isArray(answer)) throw new SyntaxError('the file systems are no list');
  const found = new Map<string, readonly [total: unknown, used: unknown]>();
  for (const value of listOf(isRecord(answer) ? answer.items : answer).slice(0, filesystemLimit)) {
    if (!isRecord(value)) continue;
    const own = labelText([
      ['disk_name', outsideText(value.diskName)],
      ['mount_point', outsideText(value.mountPoint)],
      ['file_system_type', outsideText(value.fileSystemType)],
    ]);
    if (!found.has(own)) found.set(own, [value.totalBytes, value.usedBytes]);
  }
  const lines = new Map<string, string>();
  for (const [own, [total, used]] of found) {
    add(lines, capacityFamily.name, joined(labels, own), total);
    add(lines, usedFamily.name, joined(labels, own), used);
  }
  return lines;
}

/** `mebibytesPerSecond`: of GetDomainDirtyRateStats. */
export function dirtyRateLines(mebibytesPerSecond: bigint, labels: string): Lines {
  const { name } = dirtyRateFamily;
  return new Map([[name, sampleLine(name, labels, Number(mebibytesPerSecond) * 1024 * 1024)]]);
}

function add(lines: Map<string, string>, name: string, labels: string, value: unknown): void {
  if (typeof value === 'number') lines.set(name, (lines.get(name) ?? '') + sampleLine(name, labels, value));
}
