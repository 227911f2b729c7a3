import { listOf, memberAt } from '../base/index.ts';

type GateState = 'alpha' | 'beta' | 'ga' | 'deprecated';

/** States in v1.9.0 of the gates that our programs read; source: upstream's `pkg/virt-config/featuregate`. */
const states = {
  ConfigurableHypervisor: 'alpha',
  CPUManager: 'alpha',
  CrossArchitectureVirtualization: 'alpha',
  DecentralizedLiveMigration: 'alpha',
  DeclarativeHotplugVolumes: 'beta',
  DisableMDEVConfiguration: 'deprecated',
  GPUsWithDRA: 'beta',
  GraceIOVirtualization: 'alpha',
  HostDevicesWithDRA: 'beta',
  HotplugVolumes: 'deprecated',
  HypervStrictCheck: 'alpha',
  ImageVolume: 'beta',
  IncrementalBackup: 'alpha',
  IOMMUFD: 'alpha',
  KubevirtSeccompProfile: 'beta',
  LibvirtHooksServerAndClient: 'beta',
  MigrationStallDetection: 'alpha',
  NetworkDevicesWithDRA: 'alpha',
  PasstBinding: 'beta',
  PCINUMAAwareTopology: 'alpha',
  Plugins: 'alpha',
  PodSecondaryInterfaceNamingUpgrade: 'beta',
  PortRangesSpec: 'alpha',
  Root: 'alpha',
  VGPULiveMigration: 'alpha',
  VMStatsCollector: 'alpha',
  VSOCK: 'alpha',
  WorkloadEncryptionSEV: 'beta',
  WorkloadEncryptionTDX: 'alpha',
} as const satisfies Readonly<Record<string, GateState>>;

export type GateName = keyof typeof states;
export type Gates = Readonly<Record<GateName, boolean>>;

export const gateNames = Object.keys(states) as readonly GateName[];

/**
 * A gate in state `ga` is always on. Else it is on when `featureGates` lists it, off when `disabledFeatureGates` lists it, and
 * without either on for `beta` only. A gate that both lists name is on, as upstream has it.
 */
export function isGateOn(state: GateState, isListed: boolean, isDisabled: boolean): boolean {
  if (state === 'ga' || isListed) return true;
  return state === 'beta' && !isDisabled;
}

/** `configuration`: `spec.configuration` of the KubeVirt object, of any shape. */
export function readGates(configuration: unknown): Gates {
  const listed = new Set(listOf(memberAt(configuration, 'developerConfiguration', 'featureGates')));
  const disabled = new Set(listOf(memberAt(configuration, 'developerConfiguration', 'disabledFeatureGates')));
  const entries = gateNames.map((name) => [name, isGateOn(states[name], listed.has(name), disabled.has(name))]);
  return Object.fromEntries(entries) as Gates;
}
