import path from 'node:path';
import type { VirtualMachineInstance } from '../api/index.ts';
import { cpuSetOf, machineArchitecture } from '../host/index.ts';
import { CommandServer } from './cmd-server/index.ts';
import type { LibvirtHypervisor, PodPaths, QemuUser } from './daemon/index.ts';
import { makePodDirectories } from './daemon/index.ts';
import { findPluggedDisks, forgetChanges, noteGuestEnded, trackedImage } from './disks/index.ts';
import type { VmiIdentity } from './domain/index.ts';
import { HookSidecars } from './hooks/index.ts';
import { LauncherParts, type PartsDeps } from './launcher-parts.ts';
import { findSriovDevices, type HypervisorChoice, prepareDomain } from './lifecycle/index.ts';
import { podNetwork } from './network/index.ts';
import type { LauncherEnvironment, LauncherOptions } from './options.ts';

/** What a launcher has found or begun before it reads all of this. */
export interface Begun {
  readonly flags: LauncherOptions;
  readonly environment: LauncherEnvironment;
  /** As in `LauncherSettings`. */
  readonly root?: string;
  readonly identity: VmiIdentity;
  readonly paths: PodPaths;
  /** Set when QEMU runs as another user than this process. */
  readonly qemuUser: QemuUser | undefined;
  readonly hypervisor: LibvirtHypervisor;
  readonly choice: HypervisorChoice;
}

export interface Made {
  readonly parts: LauncherParts;
  readonly server: CommandServer;
  readonly hooks: HookSidecars;
  /** Keeps the records of changed blocks for the next guest. */
  readonly noteEnd: () => Promise<void>;
}

type MakeDeps = Pick<PartsDeps, 'life' | 'signalProcess' | 'onTargetPodCleanup' | 'log' | 'clock'>;

/** Mounted in this container and in those of the sidecars. */
const hookSidecarsDir = '/var/run/kubevirt-hooks';
const checkTimeoutMs = 15_000;

/** Puts a launcher together. This file, and with it three fifths of the program, is read while the libvirt daemon starts. */
export function makeParts(begun: Begun, deps: MakeDeps): Made {
  const { flags, environment, identity, paths, qemuUser, hypervisor, choice } = begun;
  const { log, clock } = deps;
  const { hookSidecars: count, qemuTimeoutMs: timeoutMs } = flags;
  const directory = path.join(begun.root ?? '/', hookSidecarsDir);
  const hooks = new HookSidecars({ directory, count, timeoutMs }, { clock, log });
  const network = environment.network === 'tap' ? podNetwork(paths.disks, { log, clock }) : undefined;
  // Before the agent puts this process beside the emulator's threads, which takes most CPUs from it.
  const cpuSet = cpuSetOf(process.pid);
  const setUpNetwork = async (vmi: VirtualMachineInstance) => (await network?.prepare(vmi)) ?? new Map();
  const parts = new LauncherParts(
    { flags, identity, paths, cpuSet, ...(qemuUser && { qemuUser }) },
    {
      ...deps,
      hypervisor,
      prepare: async (vmi, converter, given) => {
        // Of a guest that arrives libvirt makes none of them, and fails when the one of its serial log is missing.
        await makePodDirectories(paths, qemuUser);
        return prepareDomain(
          vmi,
          converter,
          {
            flags,
            environment,
            architecture: machineArchitecture(),
            paths: paths.disks,
            cpuSet,
            owner: qemuUser,
            setUpNetwork,
            libvirtVersion: () => hypervisor.libvirtVersion(),
            hooks,
            ...given,
          },
          choice,
        );
      },
      findSriovDevices: (vmi) => findSriovDevices(vmi, paths.disks),
      findMedia: (vmi, names) =>
        findPluggedDisks(vmi, names, { paths: paths.disks, ...(qemuUser && { owner: qemuUser }) }),
      tracking: {
        imageOf: (volume) => trackedImage(volume, { paths: paths.disks }),
        forget: (volume) => forgetChanges(volume, { paths: paths.disks }),
      },
      network,
    },
  );
  const { initSocket, commandSocket } = paths;
  const server = new CommandServer({ initSocket, socket: commandSocket, checkTimeoutMs }, parts.service);
  const noteEnd = () => noteGuestEnded(identity.uid, { paths: paths.disks });
  return { parts, server, hooks, noteEnd };
}
