import type { cmd } from '../../wire/index.ts';
import { LauncherError } from '../errors.ts';
import type { DomainStats } from '../stats/index.ts';
import { attempt, ok } from './respond.ts';

export interface VmStatsSources {
  /** `--vm-stats-collector`. */
  readonly vmStatsEnabled: boolean;
  stats(): Promise<DomainStats>;
  /** MiB/s. */
  dirtyRate(): Promise<bigint>;
  agentVersion(): string;
  /** One command of the guest agent; gives its result as JSON text. */
  agentAnswer(command: string): Promise<string>;
}

/** Categories that are one guest agent command each (`vmstats.go` of upstream's cmd-server). */
const agentCommands = {
  guestGetLoad: 'guest-get-load',
  guestGetCpuStats: 'guest-get-cpustats',
  guestGetDiskStats: 'guest-get-diskstats',
  guestGetTime: 'guest-get-time',
  guestGetVcpus: 'guest-get-vcpus',
  guestGetMemoryBlockInfo: 'guest-get-memory-block-info',
  guestGetUsers: 'guest-get-users',
  guestGetOsInfo: 'guest-get-osinfo',
  guestGetDisks: 'guest-get-disks',
  guestGetHostName: 'guest-get-host-name',
  guestGetTimezone: 'guest-get-timezone',
  guestNetworkGetRoute: 'guest-network-get-route',
  guestNetworkGetInterfaces: 'guest-network-get-interfaces',
  guestGetMemoryBlocks: 'guest-get-memory-blocks',
} as const;

type AgentCategory = keyof typeof agentCommands;

/** GetVMStats: each asked-for part by itself; one that fails is named in `response` and spoils no other. */
export async function vmStats(request: cmd.VMStatsRequest, sources: VmStatsSources): Promise<cmd.VMStatsResponse> {
  if (!sources.vmStatsEnabled) {
    throw new LauncherError('NOT_SUPPORTED', 'VMStatsCollector feature gate is not enabled');
  }
  const failures: string[] = [];
  const note = (part: string, response: cmd.Response) => {
    if (!response.success) failures.push(`${part}: ${response.message}`);
    return response;
  };
  const answer = emptyAnswer();
  if (request.domainStats) {
    const { response, value } = await attempt(() => sources.stats());
    answer.domainStats = { response: note('domain stats', response), domainStats: value ? JSON.stringify(value) : '' };
  }
  if (request.dirtyRate) {
    const { response, value } = await attempt(() => sources.dirtyRate());
    answer.dirtyRateStats = { response: note('dirty rate stats', response), dirtyRateMbs: value ?? 0n };
  }
  const categories = (Object.keys(agentCommands) as AgentCategory[]).filter((category) => request[category]);
  if (categories.length > 0) answer.guestAgentVersion = { success: true, message: sources.agentVersion() };
  for (const category of categories) {
    const command = agentCommands[category];
    const { response, value } = await attempt(() => sources.agentAnswer(command));
    answer[category] = value === undefined ? note(`agent data ${command}`, response) : { ...ok, message: value };
  }
  answer.response = failures.length === 0 ? ok : { success: false, message: failures.join('; ') };
  return answer;
}

function emptyAnswer(): cmd.VMStatsResponse {
  const none = Object.fromEntries(Object.keys(agentCommands).map((category) => [category, undefined]));
  return {
    ...(none as Record<AgentCategory, undefined>),
    response: undefined,
    domainStats: undefined,
    dirtyRateStats: undefined,
    guestAgentVersion: undefined,
  };
}
