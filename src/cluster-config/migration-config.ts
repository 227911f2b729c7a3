import { isRecord, listOf, memberAt } from '../base/index.ts';
import type { Gates } from './feature-gates.ts';
import {
  defaultMigrationSettings,
  type MigrationConfig,
  readMigrationSettings,
  unusableMigrationFields,
} from './migration-settings.ts';

export interface NetworkBinding {
  /** `tap`, `managedTap` or a word of the plug-in; absent: the plug-in attaches it by itself. */
  readonly domainAttachmentType?: string;
  /** `link-refresh`; absent: its interfaces need nothing after a migration, or cannot migrate. */
  readonly migrationMethod?: string;
  /** `[NAMESPACE/]NAME` of the network that its CNI plug-in is called for. */
  readonly networkAttachmentDefinition?: string;
  /** Image of a container beside the launcher that is asked before the guest is defined. */
  readonly sidecarImage?: string;
  /** `device-info`: launcher and side container read `kubevirt.io/network-info`. */
  readonly downwardAPI?: string;
  /** What its part of the launcher pod needs. */
  readonly memoryRequest?: string | number;
}

/** What of the configuration travels to other nodes and to launchers. */
export interface MigrationSection {
  readonly migrations: MigrationConfig;
  /** Network plug-ins by name. */
  readonly networkBindings: Readonly<Record<string, NetworkBinding>>;
  /** Resource names of permitted PCI devices that are NVIDIA Grace GPUs. */
  readonly graceResources: readonly string[];
}

/** NVIDIA Grace GPUs by PCI id, with or without `0x`. */
const graceSelector = /^(?:0x)?10de:(?:0x)?(?:2342|2348|2941)$/i;

/** Values of a wrong type count as not given. */
export function readMigrationConfig(configuration: unknown, gates: Gates): MigrationSection {
  const given = memberAt(configuration, 'migrations');
  return {
    migrations: {
      settings: readMigrationSettings(given, defaultMigrationSettings),
      stallDetection: gates.MigrationStallDetection,
      disableTls: memberAt(given, 'disableTLS') === true,
    },
    networkBindings: bindingsOf(memberAt(configuration, 'network', 'binding')),
    graceResources: listOf(memberAt(configuration, 'permittedHostDevices', 'pciHostDevices')).flatMap((device) => {
      const name = memberAt(device, 'resourceName');
      return isWord(name) && graceSelector.test(String(memberAt(device, 'pciVendorSelector'))) ? [name] : [];
    }),
  };
}

/**
 * Paths of fields that are given and cannot be used: a switch for encryption, or a limit, that cannot be read must not silently
 * become its default.
 */
export function unusableMigrationConfig(configuration: unknown): string[] {
  const given = memberAt(configuration, 'migrations');
  const disableTls = memberAt(given, 'disableTLS') ?? false;
  const fields = [...unusableMigrationFields(given), ...(typeof disableTls === 'boolean' ? [] : ['disableTLS'])];
  return fields.map((field) => `migrations.${field}`);
}

export function bindingsOf(bindings: unknown): Record<string, NetworkBinding> {
  if (!isRecord(bindings)) return {};
  const entries = Object.entries(bindings).map(([name, binding]): [string, NetworkBinding] => {
    const domainAttachmentType = memberAt(binding, 'domainAttachmentType');
    const migrationMethod = memberAt(binding, 'migration', 'method');
    const networkAttachmentDefinition = memberAt(binding, 'networkAttachmentDefinition');
    const sidecarImage = memberAt(binding, 'sidecarImage');
    const downwardAPI = memberAt(binding, 'downwardAPI');
    const memoryRequest = memberAt(binding, 'computeResourceOverhead', 'requests', 'memory');
    return [
      name,
      {
        ...(isWord(domainAttachmentType) && { domainAttachmentType }),
        ...(isWord(migrationMethod) && { migrationMethod }),
        ...(isWord(networkAttachmentDefinition) && { networkAttachmentDefinition }),
        ...(isWord(sidecarImage) && { sidecarImage }),
        ...(isWord(downwardAPI) && { downwardAPI }),
        ...((isWord(memoryRequest) || typeof memoryRequest === 'number') && { memoryRequest }),
      },
    ];
  });
  return Object.fromEntries(entries);
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value !== '';
