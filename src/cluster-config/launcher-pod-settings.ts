import { isRecord, listOf, memberAt } from '../base/index.ts';
import type { Gates } from './feature-gates.ts';

type Amounts = Readonly<Record<string, string | number>>;

/** What the KubeVirt object says about launcher pods alone. */
export interface LauncherPodSettings {
  /** Resource names that VMIs may ask for as devices of the machine; undefined: no list is given, and any may be asked for. */
  readonly permittedDevices: ReadonlySet<string> | undefined;
  /** Kubernetes' form of a profile. */
  readonly seccompProfile: { readonly type: string; readonly localhostProfile?: string } | undefined;
  /** SELinux type; empty: the container runtime's. */
  readonly selinuxType: string;
  /** Resources of side containers by their type (`container-disk`); what is not said has its default. */
  readonly sideContainers: Readonly<Record<string, { readonly requests: Amounts; readonly limits: Amounts }>>;
  /** Serial consoles of VMIs that do not say it themselves are logged. */
  readonly logsConsoles: boolean;
  /** Gate HypervStrictCheck: only nodes that say that they can. */
  readonly strictHyperv: boolean;
  /** What may name a claim; the gates GPUsWithDRA, HostDevicesWithDRA, NetworkDevicesWithDRA. */
  readonly claims: { readonly gpus: boolean; readonly hostDevices: boolean; readonly networks: boolean };
  /** Gate IOMMUFD. */
  readonly iommufd: boolean;
  /** Options of virt-launcher that gates turn on. */
  readonly launcherFlags: readonly string[];
}

/** Values of a wrong type count as not given. */
export function readLauncherPodSettings(configuration: unknown, gates: Gates): LauncherPodSettings {
  const selinuxType = memberAt(configuration, 'selinuxLauncherType');
  return {
    permittedDevices: permittedDevices(memberAt(configuration, 'permittedHostDevices')),
    seccompProfile: seccompProfile(configuration),
    selinuxType: typeof selinuxType === 'string' ? selinuxType : '',
    sideContainers: sideContainers(memberAt(configuration, 'supportContainerResources')),
    logsConsoles: memberAt(configuration, 'virtualMachineOptions', 'disableSerialConsoleLog') === undefined,
    strictHyperv: gates.HypervStrictCheck,
    claims: {
      gpus: gates.GPUsWithDRA,
      hostDevices: gates.HostDevicesWithDRA,
      networks: gates.NetworkDevicesWithDRA,
    },
    iommufd: gates.IOMMUFD,
    launcherFlags: [
      ...(gates.LibvirtHooksServerAndClient ? ['--libvirt-hook-server-and-client'] : []),
      ...(gates.PodSecondaryInterfaceNamingUpgrade ? ['--upgrade-ordinal-ifaces'] : []),
      ...(gates.VGPULiveMigration ? ['--vgpu-dedicated-hook'] : []),
      ...(gates.VMStatsCollector ? ['--vm-stats-collector'] : []),
    ],
  };
}

function permittedDevices(permitted: unknown): ReadonlySet<string> | undefined {
  if (!isRecord(permitted)) return undefined;
  const devices = ['pciHostDevices', 'mediatedDevices', 'usb'].flatMap((kind) => listOf(permitted[kind]));
  return new Set(devices.map((device) => String(memberAt(device, 'resourceName'))));
}

function seccompProfile(configuration: unknown): LauncherPodSettings['seccompProfile'] {
  const profile = memberAt(configuration, 'seccompConfiguration', 'virtualMachineInstanceProfile', 'customProfile');
  const localhostProfile = memberAt(profile, 'localhostProfile');
  if (typeof localhostProfile === 'string') return { type: 'Localhost', localhostProfile };
  return memberAt(profile, 'runtimeDefaultProfile') === true ? { type: 'RuntimeDefault' } : undefined;
}

function sideContainers(given: unknown): LauncherPodSettings['sideContainers'] {
  const amounts = (value: unknown) => (isRecord(value) ? (value as Amounts) : {});
  const entries = listOf(given).map((each) => {
    const requests = amounts(memberAt(each, 'resources', 'requests'));
    return [String(memberAt(each, 'type')), { requests, limits: amounts(memberAt(each, 'resources', 'limits')) }];
  });
  return Object.fromEntries(entries);
}
