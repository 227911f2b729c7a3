import type { VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { findEfiFirmware, type NetworkLink } from '../../host/index.ts';
import { type CloudInitData, prepareDisks } from '../disks/index.ts';
import {
  buildDomainXml,
  ConvertError,
  type ConverterOptions,
  type LauncherPaths,
  parseDomainXml,
  type SriovContext,
  shapedVmi,
} from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { LauncherEnvironment, LauncherOptions } from '../options.ts';
import { readClaimedDevices } from './claimed-devices.ts';
import type { HypervisorChoice } from './hypervisor-choice.ts';
import { readNetworkAddresses } from './network-addresses.ts';

export interface PrepareDomainOptions {
  readonly flags: Pick<LauncherOptions, 'hookSidecars' | 'imageVolume' | 'diskMemoryLimitBytes' | 'ovmfPath'>;
  readonly environment: Pick<LauncherEnvironment, 'network' | 'child'>;
  readonly paths: LauncherPaths;
  /** This machine's, in Kubernetes spelling. */
  readonly architecture: string;
  /** CPUs that the pod may use. */
  readonly cpuSet: readonly number[];
  /** Containers of the pod that change what is made here. */
  readonly hooks: DomainHooks;
  /** Sets up what the guest's networks need; gives the pod's network devices. */
  readonly setUpNetwork: (vmi: VirtualMachineInstance) => Promise<ReadonlyMap<string, NetworkLink>>;
  readonly libvirtVersion: () => Promise<number>;
  /** The guest comes from another node: what it gets when it is here may still be unknown. */
  readonly isIncoming?: boolean;
  /** Set when QEMU runs as another user than this process. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
}

export interface DomainHooks {
  readonly changesCloudInit: boolean;
  cloudInit(data: CloudInitData, vmi: VirtualMachineInstance): Promise<CloudInitData>;
  domain(xml: string, vmi: VirtualMachineInstance): Promise<string>;
}

/** Limit of all file work of one sync; the agent waits 20 s for it. */
const diskLimitMs = 18_000;

/** Everything between a VMI and its domain XML: disks on the file system, hypervisor, firmware, network devices. */
export async function prepareDomain(
  given: VirtualMachineInstance,
  converter: ConverterOptions,
  options: PrepareDomainOptions,
  choice: Pick<HypervisorChoice, 'choose'>,
): Promise<string> {
  const { flags, environment, paths, cpuSet, owner, setUpNetwork, hooks, isIncoming = false } = options;
  const vmi = shapedVmi(given);
  const hypervisor = await choice.choose();
  const links = await setUpNetwork(vmi);
  const { disks, kernelBoot } = await prepareDisks(vmi, {
    paths,
    imageVolume: flags.imageVolume,
    ...(owner && { owner }),
    diskMemoryLimitBytes: flags.diskMemoryLimitBytes,
    ...(hooks.changesCloudInit && { changeCloudInit: (data) => hooks.cloudInit(data, given) }),
    signal: AbortSignal.timeout(diskLimitMs),
  });
  const xml = buildDomainXml(vmi, {
    hypervisor,
    architecture: options.architecture,
    libvirtVersion: await options.libvirtVersion(),
    paths,
    options: converter,
    cpuSet,
    disks,
    ...(kernelBoot && { kernelBoot }),
    network: environment.network,
    links,
    hasHookSidecars: flags.hookSidecars > 0,
    deviceEnvironment: environment.child,
    ...(isIncoming ? { isIncoming } : await findSriovDevices(vmi, paths)),
    efi: await findEfiFirmware({ architecture: options.architecture, first: flags.ovmfPath }),
  });
  return sameDomain(xml, await hooks.domain(xml, given));
}

/** Which devices of the machine the pod has for its networks, and for its claims. Throws `ConvertError`. */
export async function findSriovDevices(
  vmi: VirtualMachineInstance,
  paths: Pick<LauncherPaths, 'deviceMetadataDir' | 'networkInfoFile'>,
): Promise<Required<SriovContext>> {
  return {
    claimedDevices: await readClaimedDevices(vmi, paths.deviceMetadataDir),
    networkAddresses: await readNetworkAddresses(vmi, paths.networkInfoFile),
  };
}

/** By its name this launcher finds the domain again. Throws LauncherError HOOK_FAILED, `ConvertError` BAD_XML. */
function sameDomain(before: string, after: string): string {
  if (after === before) return after;
  const was = parseDomainXml(before).Name;
  const is = nameInChanged(after);
  if (was === is) return after;
  throw new LauncherError('HOOK_FAILED', `a hook sidecar made domain ${is} out of ${was}: it may not change the name`);
}

function nameInChanged(xml: string): string {
  try {
    return parseDomainXml(xml).Name;
  } catch (cause) {
    const advice = 'hook sidecars changed it: look into the logs of their containers';
    throw new ConvertError('BAD_XML', `${errorMessage(cause)}: ${advice}`, { cause });
  }
}
