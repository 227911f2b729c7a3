import { memberAt } from '../../base/index.ts';
import type { EffectiveConfig } from '../node-ports.ts';
import type { ClusterConfig, SmBios } from '../ports.ts';
import type { KubeVirt } from './active-kubevirt.ts';
import { readGates } from './feature-gates.ts';
import { readMigrationConfig, unusableMigrationConfig } from './migration-config.ts';
import { readNodeConfig } from './node-config.ts';
import { readStatusConfig } from './status-config.ts';
import { unusableFields } from './usable.ts';

/** Shape of what has no unusable fields. */
interface Configuration {
  readonly smbios?: SmBios | null;
  readonly memBalloonStatsPeriod?: number | null;
  readonly developerConfiguration?: {
    readonly useEmulation?: boolean;
    readonly minimumReservePVCBytes?: number | null;
    readonly pvcTolerateLessSpaceUpToPercent?: number | null;
  } | null;
}

export type ConfigReading =
  | { readonly kind: 'usable'; readonly config: EffectiveConfig }
  | { readonly kind: 'unusable'; readonly problem: string };

/** Annotation on the CR that keeps VGA for EFI guests. */
const vgaForEfi = 'kubevirt.io/vga-display-efi-x86';

/** Annotations of the CR that count. */
export const readAnnotations: readonly string[] = [vgaForEfi];

const defaultSmBios: SmBios = { family: 'KubeVirt', manufacturer: 'KubeVirt', product: 'None' };

/** What the agent takes from the KubeVirt object, with its defaults. One field that cannot be used spoils it all (spec 60 §7.1). */
export function readEffectiveConfig(kubevirt: KubeVirt | undefined, nodeName: string): ConfigReading {
  const given: unknown = kubevirt?.spec?.configuration ?? {};
  const unusable = [...unusableFields(given), ...unusableMigrationConfig(given)];
  if (unusable.length > 0) {
    const problem = `these fields of the KubeVirt object's spec.configuration cannot be used: ${unusable.slice(0, 10).join(', ')}`;
    return { kind: 'unusable', problem };
  }
  const config = toClusterConfig(given, kubevirt?.metadata.annotations ?? {});
  return { kind: 'usable', config: { ...config, node: readNodeConfig(given, nodeName) } };
}

/** `readEffectiveConfig`, with `last`, at first the defaults, in place of what cannot be used. */
export function readClusterConfig(
  kubevirt: KubeVirt | undefined,
  last?: EffectiveConfig,
  nodeName = '',
): EffectiveConfig {
  const reading = readEffectiveConfig(kubevirt, nodeName);
  return reading.kind === 'usable' ? reading.config : (last ?? defaultConfig(nodeName));
}

export function defaultConfig(nodeName: string): EffectiveConfig {
  return { ...toClusterConfig({}, {}), node: readNodeConfig({}, nodeName) };
}

function toClusterConfig(given: unknown, annotations: Readonly<Record<string, string>>): ClusterConfig {
  const configuration = given as Configuration;
  const developer = configuration.developerConfiguration ?? {};
  const gates = readGates(given);
  const isGiven = (...path: string[]) => memberAt(given, ...path) !== undefined;
  return {
    smbios: { ...defaultSmBios, ...configuration.smbios },
    memBalloonStatsPeriodSeconds: configuration.memBalloonStatsPeriod ?? 10,
    clusterFlags: {
      freePageReportingDisabled: isGiven('virtualMachineOptions', 'disableFreePageReporting'),
      bochsDisplayForEfiGuests: annotations[vgaForEfi] === undefined,
      serialConsoleLogDisabled: isGiven('virtualMachineOptions', 'disableSerialConsoleLog'),
      pciNumaAwareTopologyEnabled: gates.PCINUMAAwareTopology,
      vgpuLiveMigrationEnabled: gates.VGPULiveMigration,
      graceIoVirtualizationEnabled: gates.GraceIOVirtualization,
    },
    useEmulation: developer.useEmulation === true,
    imageVolume: gates.ImageVolume,
    minimumReservePvcBytes: developer.minimumReservePVCBytes ?? 131_072,
    tolerateLessPvcSpacePercent: developer.pvcTolerateLessSpaceUpToPercent ?? 10,
    status: readStatusConfig(given, gates),
    ...readMigrationConfig(given, gates),
  };
}
