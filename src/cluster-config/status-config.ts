import { isRecord, listOf, memberAt } from '../base/index.ts';
import type { Gates } from './feature-gates.ts';

/** What of the configuration shows in a VMI's status only. */
export interface StatusConfig {
  /** For VMIs that name none. */
  readonly evictionStrategy?: string;
  /** Regular expressions, for launchers that do not list the agent's commands. */
  readonly supportedGuestAgentVersions: readonly string[];
  /** Resource names of permitted mediated devices. */
  readonly mediatedDevices: readonly string[];
  /** Network bindings (plug-ins) that can migrate. */
  readonly migratableBindings: readonly string[];
  /** Gate CrossArchitectureVirtualization. */
  readonly crossArchitecture: boolean;
}

const defaultAgentVersions = ['2.*', '3.*', '4.*', '5.*'];

/** Values of a wrong type count as not given. */
export function readStatusConfig(configuration: unknown, gates: Gates): StatusConfig {
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
