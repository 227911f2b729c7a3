import type { Key, VirtualMachineInstance } from '../../../api/index.ts';
import { errorMessage, isRecord, jsonRecord } from '../../../base/index.ts';
import type { LauncherClients } from '../../../launcher-client/index.ts';

/** What `/v1/vmstats` can be asked for, by the name in the query. The guest's parts are raw JSON of its agent. */
const guestParts = [
  'guestGetLoad',
  'guestGetCpuStats',
  'guestGetDiskStats',
  'guestGetTime',
  'guestGetVcpus',
  'guestGetMemoryBlockInfo',
  'guestGetUsers',
  'guestGetOsInfo',
  'guestGetDisks',
  'guestGetHostName',
  'guestGetTimezone',
  'guestNetworkGetRoute',
  'guestNetworkGetInterfaces',
  'guestGetMemoryBlocks',
] as const;
export const vmStatsParts = ['domainStats', 'dirtyRate', ...guestParts] as const;
export type VmStatsPart = (typeof vmStatsParts)[number];

/**
 * JSON of one VM: `{"stats": …}` with all that its launcher gave, `{"error": …}`, or both when some parts failed. Text, not
 * values: counters of 64 bits stay what they are.
 */
export type VmStatsResult = string;

const unavailable = 'stats not available: VMI socket not found or busy';
/** VMs asked side by side. */
const parallelism = 64;
/** Calls under way to one launcher; upstream's limit. */
const perVm = 3;
/** Of one part, and of one answer to all VMs together, in characters: what launchers send is held in memory. */
const limits = { part: 1024 * 1024, answer: 64 * 1024 * 1024 } as const;
const errorLength = 1_000;
/** Go's empty struct: what upstream answers when the statistics of the domain were not asked for. */
const noDomainStats = JSON.stringify({
  ...{ Name: '', UUID: '', Cpu: null, Memory: null, MigrateDomainJobInfo: null, Vcpu: null, Net: null, Block: null },
  ...{ CPUMapSet: false, CPUMap: null, DirtyRate: null, Load: null },
});

/** Each part counts only as exactly `=true`. */
export function wantedParts(query: URLSearchParams): readonly VmStatsPart[] {
  return vmStatsParts.filter((part) => query.getAll(part).at(0) === 'true');
}

/** GetVMStats of many launchers, over the connections that the VMI loop has. */
export class VmStatsCollector {
  readonly #clients: Pick<LauncherClients, 'peek'>;
  readonly #calls = new Map<string, number>();

  constructor(clients: Pick<LauncherClients, 'peek'>) {
    this.#clients = clients;
  }

  /** What is not there when `signal` fires is answered as not available. Never rejects. */
  async collect(
    vmis: readonly (readonly [Key, VirtualMachineInstance])[],
    parts: readonly VmStatsPart[],
    signal: AbortSignal,
  ): Promise<Map<Key, VmStatsResult>> {
    const results = new Map<Key, VmStatsResult>(vmis.map(([key]) => [key, failure(unavailable)]));
    const waiting = vmis.values();
    let length = 0;
    const work = async () => {
      for (const [key, vmi] of waiting) {
        if (signal.aborted) return;
        const result = await this.#ask(vmi, parts, signal);
        if (signal.aborted) return;
        const fits = length + result.length <= limits.answer;
        if (fits) length += result.length;
        results.set(
          key,
          fits ? result : failure('the statistics of all VMs together are too large: ask for fewer parts'),
        );
      }
    };
    await untilAborted(Promise.all(Array.from({ length: parallelism }, work)), signal);
    return results;
  }

  async #ask(vmi: VirtualMachineInstance, parts: readonly VmStatsPart[], signal: AbortSignal): Promise<VmStatsResult> {
    const { uid = '' } = vmi.metadata;
    const connection = this.#clients.peek(uid);
    const open = this.#calls.get(uid) ?? 0;
    if (!connection?.connected || open >= perVm) return failure(unavailable);
    this.#calls.set(uid, open + 1);
    try {
      const request = Object.fromEntries(vmStatsParts.map((part) => [part, parts.includes(part) ? {} : undefined]));
      const answer = await connection.call('getVmStats', request as never, signal);
      return resultOf(answer as unknown as Record<string, unknown>, parts);
    } catch (error) {
      return failure(errorMessage(error));
    } finally {
      const left = (this.#calls.get(uid) ?? 1) - 1;
      if (left > 0) this.#calls.set(uid, left);
      else this.#calls.delete(uid);
    }
  }
}

/** Until all is done or the time is over, whatever still hangs then. */
async function untilAborted(done: Promise<unknown>, signal: AbortSignal): Promise<void> {
  let onAbort: () => void = () => undefined;
  const over = new Promise<void>((resolve) => {
    onAbort = resolve;
  });
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  await Promise.race([done, over]);
  signal.removeEventListener('abort', onAbort);
}

function failure(message: string): VmStatsResult {
  return JSON.stringify({ error: message.slice(0, errorLength) });
}

/** Go's names. A part that failed is empty, and is named beside the others; when all did, that is the answer. */
function resultOf(answer: Record<string, unknown>, parts: readonly VmStatsPart[]): VmStatsResult {
  const domainStats = domainStatsOf(answer.domainStats);
  const members = [
    `"DomainStats":${domainStats ?? noDomainStats}`,
    `"DirtyRateMbps":${dirtyRateOf(answer.dirtyRateStats)}`,
    `"GuestAgentVersion":${JSON.stringify(messageOf(answer.guestAgentVersion))}`,
    ...guestParts.map((part) => `"G${part.slice(1)}":${JSON.stringify(messageOf(answer[part]))}`),
  ];
  const { response } = answer;
  const said = isRecord(response) && response.success === false ? String(response.message) : undefined;
  const failed = parts.filter((part) =>
    part === 'domainStats'
      ? domainStats === undefined
      : !isSuccess(answer[part === 'dirtyRate' ? 'dirtyRateStats' : part]),
  );
  if (said !== undefined && failed.length === parts.length) return failure(said);
  const problem = failed.length === 0 ? '' : said || `the launcher gave no usable ${failed.join(', ')}`;
  const error = problem === '' ? '' : `,"error":${JSON.stringify(problem.slice(0, errorLength))}`;
  return `{"stats":{${members.join(',')}}${error}}`;
}

function isSuccess(answer: unknown): boolean {
  if (!isRecord(answer)) return false;
  const response = 'response' in answer ? answer.response : answer;
  return isRecord(response) && response.success === true;
}

function messageOf(answer: unknown): string {
  if (!isRecord(answer) || answer.success !== true || typeof answer.message !== 'string') return '';
  return answer.message.length > limits.part ? '' : answer.message;
}

/** As it came, once it is known to be one JSON object. */
function domainStatsOf(answer: unknown): string | undefined {
  if (!isRecord(answer) || !isSuccess(answer) || typeof answer.domainStats !== 'string') return undefined;
  const text = answer.domainStats;
  if (text.length > limits.part) return undefined;
  return jsonRecord(text) && text;
}

/** JSON. */
function dirtyRateOf(answer: unknown): string {
  return isRecord(answer) && isSuccess(answer) && typeof answer.dirtyRateMbs === 'bigint'
    ? String(answer.dirtyRateMbs)
    : 'null';
}
