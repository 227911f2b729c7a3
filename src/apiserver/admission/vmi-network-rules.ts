import { isIPv4 } from 'node:net';
import { interfaceModels, isMacAddress } from '../../api/index.ts';
import { isRecord, listOf } from '../../base/index.ts';
import type { ClusterDefaults } from '../api-type.ts';
import { type FieldError, invalidField, refusedField } from '../errors.ts';
import { at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { duplicates, presentMembers, type SpecRules } from './spec-rules.ts';

/** What KubeVirt's webhook says of networks and interfaces (upstream: pkg/network/admitter). */
export function checkInterfaces({ spec, field, cluster, isWhole }: SpecRules): FieldError[] {
  const path = `${field}.domain.devices.interfaces`;
  const interfaces = objectsAt(spec, 'domain', 'devices', 'interfaces');
  const networks = objectsAt(spec, 'networks');
  const names = new Set(interfaces.map(({ name }) => name));
  const unused = networks.flatMap(({ name }, index) =>
    names.has(name)
      ? []
      : [invalidField(`${field}.networks[${index}].name`, name, 'there is no interface of this name')],
  );
  const sources = networks.flatMap((network, index) => {
    const found = presentMembers(network, ['name']);
    if (found.length === 1) return [];
    return [invalidField(`${field}.networks[${index}]`, network.name, 'must have exactly one of pod, multus')];
  });
  const errors = interfaces.flatMap((item, index) => {
    const network = networks.find(({ name }) => name === item.name);
    const own = { item, network, path: `${path}[${index}]` };
    return [
      ...checkName(own),
      ...checkBinding(own, cluster, isWhole),
      ...checkState(own),
      ...checkDevice(own),
      ...checkPorts(own),
      ...checkPortRanges(own, cluster),
      ...checkDhcp(own, field),
    ];
  });
  return [
    ...checkDefaultNetwork(networks, field),
    ...duplicates(interfaces, path),
    ...duplicates(networks, `${field}.networks`),
    ...errors,
    ...unused,
    ...sources,
  ];
}

interface OneInterface {
  readonly item: JsonObject;
  readonly network: JsonObject | undefined;
  readonly path: string;
}

const isDefaultMultus = (network: JsonObject) => at(network, 'multus', 'default') === true;

/** One network at most is the pod's own. */
function checkDefaultNetwork(networks: readonly JsonObject[], field: string): FieldError[] {
  const ofPod = networks.filter(({ pod }) => isRecord(pod)).length;
  const ofMultus = networks.filter(isDefaultMultus).length;
  const found: FieldError[] = [];
  if (ofPod > 1) {
    const words = `more than one interface is connected to a pod network in ${field}.interfaces`;
    found.push({ ...refusedField(`${field}.interfaces`, words), reason: 'FieldValueDuplicate' });
  }
  if (ofMultus > 1) found.push(refusedField(`${field}.networks`, 'Multus CNI should only have one default network'));
  if (ofPod > 0 && ofMultus > 0) {
    const words = 'Pod network cannot be defined when Multus default network is defined';
    found.push(refusedField(`${field}.networks`, words));
  }
  return found;
}

function checkName({ item, network, path }: OneInterface): FieldError[] {
  const found: FieldError[] = [];
  if (!/^[\w-]+$/.test(String(item.name))) {
    const words =
      'Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)';
    found.push(refusedField(`${path}.name`, words));
  }
  if (!network) found.push(invalidField(`${path}.name`, item.name, 'there is no network of this name'));
  return found;
}

const bindings = ['bridge', 'masquerade', 'sriov', 'passtBinding', 'binding'];
const discontinued = {
  slirp: 'Slirp interface support',
  passt: 'Passt network binding',
  macvtap: 'Macvtap network binding',
};
/** Of the bridge that masquerade has in the pod. */
const reservedMac = '02:00:00:00:00:00';

function checkBinding({ item, network, path }: OneInterface, cluster: ClusterDefaults, isWhole: boolean): FieldError[] {
  const has = (name: string) => isRecord(item[name]);
  const gone = Object.entries(discontinued).filter(([name]) => has(name));
  if (gone.length > 0) {
    return gone.map(([name, what]) => refusedField(`${path}.${name}`, `${what} has been discontinued since v1.3`));
  }
  const found: FieldError[] = [];
  const given = bindings.filter(has).length;
  // A preference may still give one.
  if (given > 1 || (given === 0 && isWhole)) {
    const words = `logical ${item.name} interface must have exactly one binding method or binding plugin`;
    found.push(refusedField(path, words));
  }
  const isOnPod = isRecord(network?.pod);
  const refuse = (words: string, member = 'name') => found.push(refusedField(`${path}.${member}`, words));
  if (has('masquerade') && network && !isOnPod) refuse('Masquerade interface only implemented with pod network');
  if (has('masquerade') && item.macAddress === reservedMac) {
    refuse('The requested MAC address is reserved for the in-pod bridge. Please choose another one.', 'macAddress');
  }
  if (has('bridge') && isOnPod && !cluster.bridgeOnPodNetwork) {
    refuse('Bridge on pod network configuration is not enabled under kubevirt-config');
  }
  if (has('passtBinding') && !cluster.gates.PasstBinding) refuse('PasstBinding feature gate is not enabled');
  if (has('passtBinding') && network && !isOnPod) refuse('PasstBinding interface only implemented with pod network');
  return found;
}

function checkState({ item, network, path }: OneInterface): FieldError[] {
  const { state, name } = item;
  const what = `"${name}" interface's state "${state}"`;
  const refuse = (why: string) => [refusedField(`${path}.state`, `${what} ${why}`)];
  if (isRecord(item.sriov) && (state === 'up' || state === 'down')) return refuse('is not supported for SR-IOV NICs');
  if (state !== 'absent') return [];
  if (!isRecord(item.bridge)) return refuse('is supported only for bridge binding');
  const isDefault = network !== undefined && (isRecord(network.pod) || isDefaultMultus(network));
  return isDefault ? refuse('is not supported on default networks') : [];
}

export const pciPattern = /^[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/i;

function checkDevice({ item, path }: OneInterface): FieldError[] {
  const found: FieldError[] = [];
  const { macAddress } = item;
  if (typeof macAddress === 'string' && macAddress !== '' && !isMacAddress(macAddress)) {
    found.push(invalidField(`${path}.macAddress`, macAddress, 'must be like 02:00:00:01:02:03'));
  }
  const [model, pciAddress] = [stringAt(item, 'model'), stringAt(item, 'pciAddress')];
  if (model && !interfaceModels.includes(model)) {
    const words = `interface ${path}.name uses model ${model} that is not supported.`;
    found.push({ ...refusedField(`${path}.model`, words), reason: 'FieldValueNotSupported' });
  }
  if (pciAddress && !pciPattern.test(pciAddress)) {
    found.push(refusedField(`${path}.pciAddress`, `interface ${path}.name has malformed PCI address (${pciAddress}).`));
  }
  return found;
}

/** Names of ports, as pods have them: up to 15 letters, digits and single dashes within, at least one letter. */
function isPortName(name: string): boolean {
  const isWord = /^[a-z0-9-]{1,15}$/.test(name) && /[a-z]/.test(name);
  return isWord && !name.includes('--') && !name.startsWith('-') && !name.endsWith('-');
}

/** Elsewhere they say nothing. */
function checkPorts({ item, network, path }: OneInterface): FieldError[] {
  if (!isRecord(network?.pod)) return [];
  const seen = new Set<string>();
  return objectsAt(item, 'ports').flatMap((port, index) => {
    const name = stringAt(port, 'name') ?? '';
    if (name === '') return [];
    const at = `${path}.ports[${index}].name`;
    const found = isPortName(name) ? [] : [refusedField(at, `Invalid name of the port: ${name}`)];
    if (seen.has(name)) {
      found.push({ ...refusedField(at, `Duplicate name of the port: ${name}`), reason: 'FieldValueDuplicate' });
    }
    seen.add(name);
    return found;
  });
}

function checkPortRanges({ item, network, path }: OneInterface, { gates }: ClusterDefaults): FieldError[] {
  if (item.portRanges === undefined || item.portRanges === null) return [];
  const refuse = (words: string, where = `${path}.name`) => refusedField(where, words);
  if (!gates.PortRangesSpec) {
    return [refuse('portRanges is specified on interface but the PortRangesSpec feature gate is not enabled')];
  }
  if (!isRecord(network?.pod)) return [];
  const ranges = objectsAt(item, 'portRanges');
  const list = `${path}.portRanges`;
  if (ranges.length > 10) return [refuse('No more than 10 portRanges are allowed', list)];
  return [
    ...(listOf(item.ports).length > 0 ? [refuse('Cannot define both ports and portRanges on interface')] : []),
    ...(isRecord(item.masquerade) ? [] : [refuse('portRanges are only supported on masquerade interfaces')]),
    ...ranges.flatMap((range, index) => checkPortRange(range, `${list}[${index}]`)),
    ...overlaps(ranges).map((words) => refuse(words, list)),
  ];
}

const isPort = (value: unknown) => typeof value === 'number' && value > 0 && value < 65_536;

function checkPortRange({ protocol, start, end }: JsonObject, path: string): FieldError[] {
  if (protocol !== 'TCP' && protocol !== 'UDP')
    return [refusedField(`${path}.protocol`, 'Unknown protocol, only TCP or UDP allowed')];
  if (!isPort(start)) return [refusedField(`${path}.start`, 'Start must be a valid port number, 0 < x < 65536')];
  if (!isPort(end)) return [refusedField(`${path}.end`, 'End must be a valid port number, 0 < x < 65536')];
  if (Number(start) <= Number(end)) return [];
  return [refusedField(`${path}.start`, 'Start must be less than or equal to end')];
}

function overlaps(ranges: readonly JsonObject[]): string[] {
  return ['TCP', 'UDP'].flatMap((wanted) => {
    const own = ranges
      .filter(({ protocol, start, end }) => protocol === wanted && isPort(start) && Number(start) <= Number(end))
      .map(({ start, end }) => ({ start: Number(start), end: Number(end) }))
      .sort((one, other) => one.start - other.start || one.end - other.end);
    return own.flatMap((range, index) => {
      const before = own[index - 1];
      if (!before || range.start > before.end) return [];
      return [`${wanted} portRanges [${before.start}-${before.end}] and [${range.start}-${range.end}] overlap`];
    });
  });
}

function checkDhcp({ item, path }: OneInterface, field: string): FieldError[] {
  const options = objectsAt(item, 'dhcpOptions', 'privateOptions').map(({ option }) => Number(option));
  const found: FieldError[] = [];
  if (new Set(options).size < options.length) {
    found.push(refusedField(field, 'Found Duplicates: you have provided duplicate DHCPPrivateOptions'));
  }
  if (options.some((option) => !(option >= 224 && option <= 254))) {
    found.push(refusedField(field, 'provided DHCPPrivateOptions are out of range, must be in range 224 to 254'));
  }
  const servers = listOf(at(item, 'dhcpOptions', 'ntpServers')).flatMap((server, index) => {
    if (isIPv4(String(server))) return [];
    const words = 'NTP servers must be a list of valid IPv4 addresses.';
    return [refusedField(`${path}.dhcpOptions.ntpServers[${index}]`, words)];
  });
  return [...found, ...servers];
}
