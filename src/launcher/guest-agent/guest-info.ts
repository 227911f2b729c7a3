import type { GuestFacts } from './store.ts';

const maxListed = 10;

/** `VirtualMachineInstanceGuestAgentInfo` (spec 20 §6); lists are cut as upstream cuts them. */
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
