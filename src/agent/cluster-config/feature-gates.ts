import { listOf, memberAt } from '../../base/index.ts';
import type { GateName } from '../node-ports.ts';

type GateState = 'alpha' | 'beta' | 'ga' | 'deprecated';

/** Of v1.9.0 (spec 60 §7.3): those that the agent reads. */
const states: Readonly<Record<GateName, GateState>> = {
  ConfigurableHypervisor: 'alpha',
  CPUManager: 'alpha',
  CrossArchitectureVirtualization: 'alpha',
  DisableMDEVConfiguration: 'deprecated',
  GraceIOVirtualization: 'alpha',
  ImageVolume: 'beta',
  IncrementalBackup: 'alpha',
  IOMMUFD: 'alpha',
  KubevirtSeccompProfile: 'beta',
  MigrationStallDetection: 'alpha',
  PasstBinding: 'beta',
  PCINUMAAwareTopology: 'alpha',
  Plugins: 'alpha',
  PortRangesSpec: 'alpha',
  VGPULiveMigration: 'alpha',
  VMStatsCollector: 'alpha',
  VSOCK: 'alpha',
  WorkloadEncryptionSEV: 'beta',
  WorkloadEncryptionTDX: 'alpha',
};

export const gateNames = Object.keys(states) as GateName[];

/**
 * `ga`: always; else listed in `featureGates`: on; else listed in `disabledFeatureGates`: off; else on for `beta` only
 * (spec 40 §7.2). Whoever lists a gate in both wants it.
 */
export function isGateOn(state: GateState, isListed: boolean, isDisabled: boolean): boolean {
  if (state === 'ga' || isListed) return true;
  return state === 'beta' && !isDisabled;
}

export function readGates(configuration: unknown): Readonly<Record<GateName, boolean>> {
  const listed = new Set(listOf(memberAt(configuration, 'developerConfiguration', 'featureGates')));
  const disabled = new Set(listOf(memberAt(configuration, 'developerConfiguration', 'disabledFeatureGates')));
  const entries = gateNames.map((name) => [name, isGateOn(states[name], listed.has(name), disabled.has(name))]);
  return Object.fromEntries(entries) as Record<GateName, boolean>;
}
