import type { StatusConfig } from '../ports.ts';

const defaultAgentVersions = ['2.*', '3.*', '4.*', '5.*'];

/** What of `spec.configuration` shows in a VMI's status. Values of a wrong type count as not given. */
export function readStatusConfig(configuration: unknown): StatusConfig {
  const evictionStrategy = at(configuration, 'evictionStrategy');
  const versions = at(configuration, 'supportedGuestAgentVersions');
  const mediated = at(configuration, 'permittedHostDevices', 'mediatedDevices');
  return {
    ...(typeof evictionStrategy === 'string' && { evictionStrategy }),
    supportedGuestAgentVersions: Array.isArray(versions) ? versions.filter(isString) : defaultAgentVersions,
    mediatedDevices: listOf(mediated).flatMap((device) => {
      const name = at(device, 'resourceName');
      return isString(name) ? [name] : [];
    }),
    migratableBindings: migratable(at(configuration, 'network', 'binding')),
    crossArchitecture: listOf(at(configuration, 'developerConfiguration', 'featureGates')).includes(
      'CrossArchitectureVirtualization',
    ),
  };
}

/** A network binding says by a section `migration` that its interfaces survive one. */
function migratable(bindings: unknown): string[] {
  if (!isRecord(bindings)) return [];
  return Object.keys(bindings).filter((name) => isRecord(at(bindings[name], 'migration')));
}

function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((holder, name) => (isRecord(holder) ? holder[name] : undefined), value);
}

const isString = (value: unknown): value is string => typeof value === 'string';

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
