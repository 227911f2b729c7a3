import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { defaultMigrationSettings, readMigrationSettings, unusableMigrationFields } from '../migration-settings.ts';
import type { NodeConfig } from '../node-ports.ts';
import type { ClusterConfig, NetworkBinding } from '../ports.ts';

/** NVIDIA Grace GPUs by PCI id, with or without `0x`. */
const graceSelector = /^(?:0x)?10de:(?:0x)?(?:2342|2348|2941)$/i;

/** What of `spec.configuration` travels to other nodes and to launchers. Values of a wrong type count as not given. */
export function readMigrationConfig(
  configuration: unknown,
  gates: NodeConfig['gates'],
): Pick<ClusterConfig, 'migrations' | 'networkBindings' | 'graceResources'> {
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

function bindingsOf(bindings: unknown): Record<string, NetworkBinding> {
  if (!isRecord(bindings)) return {};
  const entries = Object.entries(bindings).map(([name, binding]): [string, NetworkBinding] => {
    const domainAttachmentType = memberAt(binding, 'domainAttachmentType');
    const migrationMethod = memberAt(binding, 'migration', 'method');
    return [
      name,
      {
        ...(isWord(domainAttachmentType) && { domainAttachmentType }),
        ...(isWord(migrationMethod) && { migrationMethod }),
      },
    ];
  });
  return Object.fromEntries(entries);
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value !== '';
