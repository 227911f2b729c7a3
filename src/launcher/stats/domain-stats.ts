import { type DomainRef, MemoryStatTag, type TypedParams, type TypedValue } from '../../libvirt/index.ts';
import type { GuestFacts } from '../guest-agent/index.ts';

/** JSON of `pkg/virt-launcher/virtwrap/stats/types.go`: Go names, nothing left out, each value beside its `…Set`. */
export type DomainStats = Readonly<Record<string, unknown>>;

export interface StatsSources {
  readonly domain: DomainRef;
  readonly params: TypedParams;
  /** By tag; empty when the balloon gives none. */
  readonly memory: ReadonlyMap<number, bigint>;
  /** Undefined: not known. */
  readonly cpuMap: readonly (readonly boolean[])[] | undefined;
  readonly load: GuestFacts['load'];
  /** Target device of a disk or interface → user alias. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Of the job that moves the guest; absent when none does. */
  readonly job?: TypedParams | undefined;
}

type Value = { readonly name: string; readonly value: TypedValue | undefined };

const tags: readonly (readonly [string, number])[] = [
  ['Unused', MemoryStatTag.UNUSED],
  ['Cached', MemoryStatTag.DISK_CACHES],
  ['Available', MemoryStatTag.AVAILABLE],
  ['ActualBalloon', MemoryStatTag.ACTUAL_BALLOON],
  ['RSS', MemoryStatTag.RSS],
  ['SwapIn', MemoryStatTag.SWAP_IN],
  ['SwapOut', MemoryStatTag.SWAP_OUT],
  ['Usable', MemoryStatTag.USABLE],
  ['MajorFault', MemoryStatTag.MAJOR_FAULT],
  ['MinorFault', MemoryStatTag.MINOR_FAULT],
];

const jobFields: readonly (readonly [string, string])[] = [
  ['DataTotal', 'data_total'],
  ['DataProcessed', 'data_processed'],
  ['DataRemaining', 'data_remaining'],
  ['MemoryBps', 'memory_bps'],
];

const netFields: readonly (readonly [string, string])[] = [
  ['RxBytes', 'rx.bytes'],
  ['RxPkts', 'rx.pkts'],
  ['RxErrs', 'rx.errs'],
  ['RxDrop', 'rx.drop'],
  ['TxBytes', 'tx.bytes'],
  ['TxPkts', 'tx.pkts'],
  ['TxErrs', 'tx.errs'],
  ['TxDrop', 'tx.drop'],
];

const blockFields: readonly (readonly [string, string])[] = [
  ['BackingIndex', 'backingIndex'],
  ['RdReqs', 'rd.reqs'],
  ['RdBytes', 'rd.bytes'],
  ['RdTimes', 'rd.times'],
  ['WrReqs', 'wr.reqs'],
  ['WrBytes', 'wr.bytes'],
  ['WrTimes', 'wr.times'],
  ['FlReqs', 'fl.reqs'],
  ['FlTimes', 'fl.times'],
  ['Errors', 'errors'],
  ['Allocation', 'allocation'],
  ['Capacity', 'capacity'],
  ['Physical', 'physical'],
];

export function domainStats(sources: StatsSources): DomainStats {
  const { domain, params, memory, cpuMap, load } = sources;
  return {
    Name: domain.name,
    UUID: domain.uuid,
    Cpu: withFlags(
      fields(params, 'cpu', [
        ['Time', 'time'],
        ['User', 'user'],
        ['System', 'system'],
      ]),
    ),
    Memory: withFlags([
      ...tags.map(([name, tag]) => ({ name, value: memory.get(tag) })),
      { name: 'Total', value: params.get('balloon.current') },
    ]),
    MigrateDomainJobInfo: withFlags(migrationFigures(sources.job)),
    Vcpu: vcpus(params),
    Net: devices(params, 'net').map((prefix) => net(sources, prefix)),
    Block: devices(params, 'block').map((prefix) => block(sources, prefix)),
    CPUMapSet: cpuMap !== undefined,
    CPUMap: cpuMap ?? null,
    DirtyRate: dirtyRate(params),
    Load: load
      ? withFlags([
          { name: 'Load1m', value: load.load1m },
          { name: 'Load5m', value: load.load5m },
          { name: 'Load15m', value: load.load15m },
        ])
      : null,
  };
}

/** Of a job that moves the guest; its dirty rate is counted in pages. */
function migrationFigures(job: TypedParams = new Map()): Value[] {
  const [pages, pageBytes] = [job.get('memory_dirty_rate'), job.get('memory_page_size')];
  const isRated = typeof pages === 'bigint' && typeof pageBytes === 'bigint';
  return [
    ...jobFields.map(([name, key]) => ({ name, value: job.get(key) })),
    { name: 'MemDirtyRate', value: isRated ? pages * pageBytes : undefined },
  ];
}

/** Megabytes per second of the last finished measurement; undefined when there is none. */
export function measuredDirtyRate(params: TypedParams): bigint | undefined {
  const measured = 2;
  const rate = params.get('dirtyrate.megabytes_per_second');
  return params.get('dirtyrate.calc_status') === measured && typeof rate === 'bigint' ? rate : undefined;
}

function vcpus(params: TypedParams): object[] {
  const ids = [...params.keys()].map((key) => /^vcpu\.(\d+)\.state$/.exec(key)?.[1]).filter((id) => id !== undefined);
  return ids
    .sort((a, b) => Number(a) - Number(b))
    .map((id) =>
      withFlags(
        fields(params, `vcpu.${id}`, [
          ['State', 'state'],
          ['Time', 'time'],
          ['Wait', 'wait'],
          ['Delay', 'delay'],
        ]),
      ),
    );
}

function net({ params, aliases }: StatsSources, prefix: string): object {
  const name = text(params, `${prefix}.name`);
  const alias = aliases.get(name);
  return {
    NameSet: name !== '',
    Name: name,
    AliasSet: alias !== undefined,
    Alias: alias ?? '',
    ...withFlags(fields(params, prefix, netFields)),
  };
}

function block({ params, aliases }: StatsSources, prefix: string): object {
  const name = text(params, `${prefix}.name`);
  const path = text(params, `${prefix}.path`);
  return {
    NameSet: name !== '',
    Name: name,
    Alias: aliases.get(name) ?? '',
    PathSet: path !== '',
    Path: path,
    ...withFlags(fields(params, prefix, blockFields)),
  };
}

function dirtyRate(params: TypedParams): object | null {
  if (!params.has('dirtyrate.calc_status')) return null;
  const names = [
    ['CalcStatus', 'calc_status'],
    ['CalcStartTime', 'calc_start_time'],
    ['CalcPeriod', 'calc_period'],
    ['MegabytesPerSecond', 'megabytes_per_second'],
  ] as const;
  return withFlags(fields(params, 'dirtyrate', names));
}

function devices(params: TypedParams, kind: 'net' | 'block'): string[] {
  const count = Number(params.get(`${kind}.count`) ?? 0);
  return Array.from({ length: Math.min(Math.max(0, count), 1024) }, (_, at) => `${kind}.${at}`);
}

function fields(params: TypedParams, prefix: string, names: readonly (readonly [string, string])[]): Value[] {
  return names.map(([name, field]) => ({ name, value: params.get(`${prefix}.${field}`) }));
}

/** Counters above 2^53 lose their last digits here; their readers take them as floats. */
function withFlags(values: readonly Value[]): Record<string, unknown> {
  return Object.fromEntries(
    values.flatMap(({ name, value }) => [
      [`${name}Set`, value !== undefined],
      [name, value === undefined ? 0 : Number(value)],
    ]),
  );
}

function text(params: TypedParams, field: string): string {
  const value = params.get(field);
  return typeof value === 'string' ? value : '';
}
