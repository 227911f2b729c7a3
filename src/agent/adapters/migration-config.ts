import { defaultMigrationSettings, readMigrationSettings, unusableMigrationFields } from '../migration-settings.ts';
import type { ClusterConfig, NetworkBinding } from '../ports.ts';

/** NVIDIA Grace GPUs by PCI id, with or without `0x`. */
const graceSelector = /^(?:0x)?10de:(?:0x)?(?:2342|2348|2941)$/i;

/** What of `spec.configuration` travels to other nodes and to launchers. Values of a wrong type count as not given. */
export function readMigrationConfig(
  configuration: unknown,
): Pick<ClusterConfig, 'migrations' | 'networkBindings' | 'graceResources'> {
  const given = at(configuration, 'migrations');
  const gates = at(configuration, 'developerConfiguration', 'featureGates');
  return {
    migrations: {
      settings: readMigrationSettings(given, defaultMigrationSettings),
      stallDetection: listOf(gates).includes('MigrationStallDetection'),
      disableTls: at(given, 'disableTLS') === true,
    },
    networkBindings: bindingsOf(at(configuration, 'network', 'binding')),
    graceResources: listOf(at(configuration, 'permittedHostDevices', 'pciHostDevices')).flatMap((device) => {
      const name = at(device, 'resourceName');
      return isWord(name) && graceSelector.test(String(at(device, 'pciVendorSelector'))) ? [name] : [];
    }),
  };
}

/** A switch for encryption, or a limit, that cannot be read must not silently become its default. */
export function isMigrationConfigUsable(configuration: unknown): boolean {
  const given = at(configuration, 'migrations');
  const disableTls = at(given, 'disableTLS') ?? false;
  return unusableMigrationFields(given).length === 0 && typeof disableTls === 'boolean';
}

function bindingsOf(bindings: unknown): Record<string, NetworkBinding> {
  if (!isRecord(bindings)) return {};
  const entries = Object.entries(bindings).map(([name, binding]): [string, NetworkBinding] => {
    const domainAttachmentType = at(binding, 'domainAttachmentType');
    const migrationMethod = at(binding, 'migration', 'method');
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

function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((holder, name) => (isRecord(holder) ? holder[name] : undefined), value);
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value !== '';

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
