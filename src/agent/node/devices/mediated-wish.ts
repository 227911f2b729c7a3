import { isRecord, listOf, memberAt } from '../../../base/index.ts';
import type { NodeConfig } from '../../../cluster-config/index.ts';
import { typeName } from './host-devices.ts';

/** `mediatedDevicesConfiguration` of the KubeVirt object, and who else provides devices. Plain data. */
export interface MediatedSettings {
  /** False: mediated devices are left alone altogether. */
  readonly isOn: boolean;
  /** Where no node's own list fits. */
  readonly types: readonly string[];
  readonly nodes: readonly { readonly selector: Readonly<Record<string, string>>; readonly types: readonly string[] }[];
  /** Types that others make. */
  readonly external: readonly string[];
  /** Entries that cannot be used, in words: while there are any, nothing is taken away. */
  readonly problems: readonly string[];
}

/** What this node should have. */
export interface MediatedWish {
  /** Names or ids of types, with `_` for each space; no type twice. */
  readonly types: readonly string[];
  readonly external: readonly string[];
}

export function mediatedSettings({
  gates,
  mediatedDevicesConfiguration: given,
  permittedHostDevices,
}: Pick<NodeConfig, 'gates' | 'mediatedDevicesConfiguration' | 'permittedHostDevices'>): MediatedSettings {
  const problems: string[] = [];
  const enabled = memberAt(given, 'enabled');
  const isOff = enabled === false || (enabled === undefined && gates.DisableMDEVConfiguration);
  if (given !== undefined && !isRecord(given)) problems.push('mediatedDevicesConfiguration is no object');
  const nodes = listAt(given, 'nodeMediatedDeviceTypes', problems).flatMap((entry, index) => {
    const selector = memberAt(entry, 'nodeSelector') ?? {};
    const types = typesOf(entry, `nodeMediatedDeviceTypes[${index}]`, problems);
    if (isTexts(selector)) return [{ selector, types }];
    // Half understood it would choose nodes that were not meant.
    problems.push(`nodeMediatedDeviceTypes[${index}]: nodeSelector is no map of texts`);
    return [];
  });
  const permitted = listOf(memberAt(permittedHostDevices, 'mediatedDevices'));
  const external = permitted.flatMap((entry) => {
    const name = memberAt(entry, 'mdevNameSelector');
    return memberAt(entry, 'externalResourceProvider') === true && typeof name === 'string' ? [typeName(name)] : [];
  });
  const types = typesOf(given, 'mediatedDevicesConfiguration', problems);
  return { isOn: !isOff, types, nodes, external, problems };
}

/**
 * Of a node with these labels: all lists that fit together, else the cluster's, as `GetDesiredMDEVTypes` of pkg/virt-config
 * chooses.
 */
export function wishOf(settings: MediatedSettings, labels: Readonly<Record<string, string>>): MediatedWish {
  const fitting = settings.nodes.filter(({ selector }) =>
    Object.entries(selector).every(([key, value]) => labels[key] === value),
  );
  const own = new Set(fitting.flatMap(({ types }) => types));
  return { types: [...(own.size > 0 ? own : new Set(settings.types))], external: settings.external };
}

/** The older spelling counts where the newer one says nothing. */
function typesOf(holder: unknown, shown: string, problems: string[]): string[] {
  const named = listAt(holder, 'mediatedDeviceTypes', problems);
  const given = named.length > 0 ? named : listAt(holder, 'mediatedDevicesTypes', problems);
  const types = given.filter((type) => typeof type === 'string' && isTypeName(type));
  if (types.length < given.length) problems.push(`${shown}: types that are no names of types are left out`);
  return types.map((type) => typeName(String(type)));
}

function listAt(holder: unknown, name: string, problems: string[]): readonly unknown[] {
  const given = memberAt(holder, name);
  if (given !== undefined && !Array.isArray(given)) problems.push(`${name} is no list`);
  return listOf(given);
}

function isTypeName(text: string): boolean {
  return text.trim() !== '' && !text.includes('/') && !text.includes('\0');
}

function isTexts(value: unknown): value is Record<string, string> {
  return isRecord(value) && Object.values(value).every((text) => typeof text === 'string');
}
