import { isRecord, listOf, memberAt } from '../../base/index.ts';
import type { NodeConfig } from '../node-ports.ts';
import type { StatusConfig } from '../ports.ts';

const defaultAgentVersions = ['2.*', '3.*', '4.*', '5.*'];

/** What of `spec.configuration` shows in a VMI's status. Values of a wrong type count as not given. */
export function readStatusConfig(configuration: unknown, gates: NodeConfig['gates']): StatusConfig {
  const evictionStrategy = memberAt(configuration, 'evictionStrategy');
  const versions = memberAt(configuration, 'supportedGuestAgentVersions');
  const mediated = memberAt(configuration, 'permittedHostDevices', 'mediatedDevices');
  return {
    ...(typeof evictionStrategy === 'string' && { evictionStrategy }),
    supportedGuestAgentVersions: Array.isArray(versions) ? versions.filter(isString) : defaultAgentVersions,
    mediatedDevices: listOf(mediated).flatMap((device) => {
      const name = memberAt(device, 'resourceName');
      return isString(name) ? [name] : [];
    }),
    migratableBindings: migratable(memberAt(configuration, 'network', 'binding')),
    crossArchitecture: gates.CrossArchitectureVirtualization,
  };
}

/** A network binding says by a section `migration` that its interfaces survive one. */
function migratable(bindings: unknown): string[] {
  if (!isRecord(bindings)) return [];
  return Object.keys(bindings).filter((name) => isRecord(memberAt(bindings[name], 'migration')));
}

const isString = (value: unknown): value is string => typeof value === 'string';
