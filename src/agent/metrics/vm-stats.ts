import type { Key, VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, isRecord } from '../../base/index.ts';
import type { LauncherClients } from '../../launcher-client/index.ts';

/** What `/v1/vmstats` can be asked for (spec 31 §5), by the name in the query. The guest's parts are raw JSON of its agent. */
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

/** Of one VM: all that its launcher gave, or why there is nothing. */
export type VmStatsResult = { readonly stats: Readonly<Record<string, unknown>> } | { readonly error: string };

const unavailable = 'stats not available: VMI socket not found or busy';
/** VMs asked side by side. */
const parallelism = 64;
/** Calls under way to one launcher; upstream's limit. */
const perVm = 3;

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

  /** What is not there when `signal` fires is told as not available. Never rejects. */
  async collect(
    vmis: readonly (readonly [Key, VirtualMachineInstance])[],
    parts: readonly VmStatsPart[],
    signal: AbortSignal,
  ): Promise<Map<Key, VmStatsResult>> {
    const results = new Map<Key, VmStatsResult>(vmis.map(([key]) => [key, { error: unavailable }]));
    const waiting = vmis.values();
    const work = async () => {
      for (const [key, vmi] of waiting) {
        if (signal.aborted) return;
        const result = await this.#ask(vmi, parts, signal);
        if (!signal.aborted) results.set(key, result);
      }
    };
    await Promise.all(Array.from({ length: parallelism }, work));
    return results;
  }

  async #ask(vmi: VirtualMachineInstance, parts: readonly VmStatsPart[], signal: AbortSignal): Promise<VmStatsResult> {
    const { uid = '' } = vmi.metadata;
    const connection = this.#clients.peek(uid);
    const open = this.#calls.get(uid) ?? 0;
    if (!connection?.connected || open >= perVm) return { error: unavailable };
    this.#calls.set(uid, open + 1);
    try {
      const request = Object.fromEntries(vmStatsParts.map((part) => [part, parts.includes(part) ? {} : undefined]));
      const answer = await connection.call('getVmStats', request as never, signal);
      return resultOf(answer as unknown as Record<string, unknown>, parts);
    } catch (error) {
      return { error: errorMessage(error) };
    } finally {
      const left = (this.#calls.get(uid) ?? 1) - 1;
      if (left > 0) this.#calls.set(uid, left);
      else this.#calls.delete(uid);
    }
  }
}

/** Go's names. A part that failed is empty; when all did, that is the answer. */
function resultOf(answer: Record<string, unknown>, parts: readonly VmStatsPart[]): VmStatsResult {
  const stats: Record<string, unknown> = {
    DomainStats: domainStatsOf(answer.domainStats),
    DirtyRateMbps: dirtyRateOf(answer.dirtyRateStats),
    GuestAgentVersion: messageOf(answer.guestAgentVersion),
  };
  for (const part of guestParts) stats[`G${part.slice(1)}`] = messageOf(answer[part]);
  const succeeded = parts.some((part) => isSuccess(answer[part === 'dirtyRate' ? 'dirtyRateStats' : part]));
  const { response } = answer;
  if (!succeeded && isRecord(response) && response.success === false) return { error: String(response.message) };
  return { stats };
}

function isSuccess(answer: unknown): boolean {
  if (!isRecord(answer)) return false;
  const response = 'response' in answer ? answer.response : answer;
  return isRecord(response) && response.success === true;
}

function messageOf(answer: unknown): string {
  return isRecord(answer) && answer.success === true && typeof answer.message === 'string' ? answer.message : '';
}

function domainStatsOf(answer: unknown): unknown {
  if (!isRecord(answer) || !isSuccess(answer) || typeof answer.domainStats !== 'string') return null;
  try {
    return JSON.parse(answer.domainStats);
  } catch {
    return null;
  }
}

function dirtyRateOf(answer: unknown): number | null {
  return isRecord(answer) && isSuccess(answer) ? Number(answer.dirtyRateMbs) : null;
}
