import { type DomainInterfaceStatus, type GuestOsInfo, noGuestOsInfo } from '../../api/index.ts';
import { Listeners } from '../../base/index.ts';

export interface GuestUser {
  readonly userName: string;
  readonly domain: string;
  /** Seconds since 1970, with a fraction. */
  readonly loginTime: number;
}

export interface GuestFilesystem {
  readonly diskName: string;
  readonly mountPoint: string;
  readonly fileSystemType: string;
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly disk: readonly { readonly serial: string; readonly busType: string }[];
}

/** What the guest agent last said. Nothing is forgotten when it goes away as upstream's `agent_poller.go` keeps it, too. */
export interface GuestFacts {
  readonly interfaces: readonly DomainInterfaceStatus[] | null;
  readonly osInfo: GuestOsInfo;
  readonly hostname: string;
  /** `<zone>, <offset>`. */
  readonly timezone: string;
  readonly users: readonly GuestUser[];
  readonly filesystems: readonly GuestFilesystem[];
  readonly fsFreezeStatus: string;
  readonly agentVersion: string;
  readonly supportedCommands: readonly { readonly name: string; readonly enabled: boolean }[];
  readonly load: { readonly load1m: number; readonly load5m: number; readonly load15m: number } | undefined;
}

const noFacts: GuestFacts = {
  interfaces: null,
  osInfo: noGuestOsInfo,
  hostname: '',
  timezone: '',
  users: [],
  filesystems: [],
  fsFreezeStatus: '',
  agentVersion: '',
  supportedCommands: [],
  load: undefined,
};

/** The facts that go into domain events; a difference in one of them is worth an event. */
function notified({ interfaces, osInfo, fsFreezeStatus }: GuestFacts): string {
  return JSON.stringify([interfaces, osInfo, fsFreezeStatus]);
}

export class GuestStore {
  #facts: GuestFacts = noFacts;
  readonly #listeners = new Listeners();

  get facts(): GuestFacts {
    return this.#facts;
  }

  update(change: Partial<GuestFacts>): void {
    const before = notified(this.#facts);
    this.#facts = { ...this.#facts, ...change };
    if (notified(this.#facts) === before) return;
    this.#listeners.notify();
  }

  /** Calls back when interfaces, OS or freeze status changed. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}

const maxListed = 10;

/** `VirtualMachineInstanceGuestAgentInfo` ; lists are cut as upstream cuts them. */
export function guestAgentInfo(facts: GuestFacts): object {
  const { osInfo } = facts;
  return {
    guestAgentVersion: facts.agentVersion,
    supportedCommands: facts.supportedCommands,
    hostname: facts.hostname,
    os: {
      name: osInfo.Name,
      kernelRelease: osInfo.KernelRelease,
      version: osInfo.Version,
      prettyName: osInfo.PrettyName,
      versionId: osInfo.VersionId,
      kernelVersion: osInfo.KernelVersion,
      machine: osInfo.Machine,
      id: osInfo.Id,
    },
    timezone: facts.timezone,
    userList: facts.users.slice(0, maxListed),
    fsInfo: { disks: facts.filesystems.slice(0, maxListed) },
    fsFreezeStatus: facts.fsFreezeStatus,
  };
}
