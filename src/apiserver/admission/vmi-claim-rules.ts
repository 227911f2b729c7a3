import { isRecord } from '../../base/index.ts';
import type { ClusterDefaults } from '../api-type.ts';
import { type FieldError, invalidField, refusedField } from '../errors.ts';
import { at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { nameProblem } from './metadata.ts';
import type { SpecRules } from './spec-rules.ts';

/** A device or a network that names a request of a claim. */
interface Request {
  readonly kind: 'GPUs' | 'HostDevices' | 'Networks';
  /** Of the item in its list. */
  readonly path: string;
  readonly index: number;
  readonly claimName: string;
  readonly requestName: string;
}

const lists = {
  gpus: { kind: 'GPUs', one: 'GPU', gate: 'GPUsWithDRA' },
  hostDevices: { kind: 'HostDevices', one: 'HostDevice', gate: 'HostDevicesWithDRA' },
} as const;
type List = keyof typeof lists;

/** What KubeVirt's webhook says of devices that are given out by claims (upstream: pkg/dra/admitter, pkg/network/admitter). */
export function checkClaims({ spec, field, cluster }: SpecRules): FieldError[] {
  const claims = objectsAt(spec, 'resourceClaims');
  const devices = (Object.keys(lists) as List[]).map((list) => checkDevices(list, spec, field, cluster));
  const networks = checkNetworks(spec, field, cluster);
  const requests = [...devices, networks].flatMap((each) => each.requests);
  return [
    ...checkResourceClaims(claims, `${field}.resourceClaims`),
    ...[...devices, networks].flatMap(({ errors }) => errors),
    ...sharedRequests(requests),
    ...unknownClaims(requests, claims, field),
  ];
}

function checkResourceClaims(claims: readonly JsonObject[], field: string): FieldError[] {
  const seen = new Set<string>();
  return claims.flatMap((claim, index) => {
    const path = `${field}[${index}]`;
    const name = stringAt(claim, 'name') ?? '';
    const found: FieldError[] = [];
    const problem = name === '' ? undefined : nameProblem(name, 'label');
    if (name === '') found.push(required(`${path}.name`, `${path}.name is a required field`));
    else if (seen.has(name)) found.push(duplicate(`${path}.name`, `duplicate resourceClaims name "${name}"`));
    else if (problem) found.push(invalidField(`${path}.name`, name, problem));
    seen.add(name);
    const sources = ['resourceClaimName', 'resourceClaimTemplateName'].filter((each) => claim[each] != null);
    if (sources.length > 1) {
      const words = 'at most one of resourceClaimName or resourceClaimTemplateName may be specified';
      found.push(refusedField(path, words));
    }
    if (sources.length === 0) {
      found.push(refusedField(path, 'must specify one of: resourceClaimName, resourceClaimTemplateName'));
    }
    for (const source of sources) {
      const odd = nameProblem(String(claim[source]), 'subdomain');
      if (odd) found.push(invalidField(`${path}.${source}`, claim[source], odd));
    }
    return found;
  });
}

interface Checked {
  readonly errors: readonly FieldError[];
  readonly requests: readonly Request[];
}

function checkDevices(list: List, spec: JsonObject, field: string, { gates }: ClusterDefaults): Checked {
  const { kind, one, gate } = lists[list];
  const path = `${field}.domain.devices.${list}`;
  const refuse = (words: string) => refusedField(path, `vmi.spec.domain.devices.${list} ${words}`);
  const items = objectsAt(spec, 'domain', 'devices', list).map((item, index) => ({
    index,
    deviceName: stringAt(item, 'deviceName'),
    ...requestIn(item),
  }));
  const isClaimed = (item: (typeof items)[number]) => item.claimName !== '' || item.requestName !== '';
  const claimed = items.filter((item) => !item.deviceName && isClaimed(item));
  const others = items.filter((item) => !claimed.includes(item));
  if (list === 'gpus' && claimed.length > 0 && others.length > 0) {
    const words = 'contains both DRA and non-DRA GPUs; each GPU must be either DRA or non-DRA';
    return { errors: [refuse(words)], requests: [] };
  }
  const errors = others.flatMap((item) => {
    if (!item.deviceName) {
      const words = `contains ${one}s without deviceName or claimRequest; each ${one} must specify either a deviceName or a claimRequest`;
      return [required(path, refuse(words).message)];
    }
    return isClaimed(item) ? [refuse(`contains ${one}s with both deviceName and claimRequest`)] : [];
  });
  if (claimed.length > 0 && !gates[gate]) {
    errors.push(refuse(`contains DRA enabled ${one}s but feature gate is not enabled`));
    return { errors, requests: [] };
  }
  const requests = claimed.map(({ index, claimName, requestName }) => {
    return { kind, path: `${path}[${index}]`, index, claimName, requestName };
  });
  return { errors: [...errors, ...requests.flatMap((each) => missingNames(each, each.path, one))], requests };
}

function checkNetworks(spec: JsonObject, field: string, { gates }: ClusterDefaults): Checked {
  const networks = objectsAt(spec, 'networks');
  const refuse = (words: string) => ({ errors: [refusedField(`${field}.networks`, words)], requests: [] });
  const claimed = networks.flatMap((network, index) => {
    if (!isRecord(network.resourceClaim)) return [];
    const path = `${field}.networks[${index}]`;
    return [{ kind: 'Networks' as const, path, index, name: network.name, ...requestIn(network.resourceClaim) }];
  });
  if (claimed.length === 0) return { errors: [], requests: [] };
  if (!gates.NetworkDevicesWithDRA) {
    return refuse('vmi.spec.networks contains DRA networks but NetworkDevicesWithDRA feature gate is not enabled');
  }
  if (networks.some(({ multus }) => isRecord(multus))) {
    return refuse('mixing Multus and DRA resourceClaim networks in the same VMI is not supported');
  }
  const interfaces = objectsAt(spec, 'domain', 'devices', 'interfaces');
  const errors = claimed.flatMap((network) => {
    const item = interfaces.find(({ name }) => name === network.name);
    const isDevice = !item || isRecord(item.sriov) || isRecord(item.binding);
    const words = `DRA network "${network.name}" requires an SR-IOV or binding plugin interface`;
    return [
      ...(isDevice ? [] : [refusedField(`${field}.domain.devices.interfaces`, words)]),
      ...missingNames(network, `${network.path}.resourceClaim`, 'network'),
    ];
  });
  return { errors, requests: claimed };
}

/** Empty: it is not named. */
function requestIn(item: unknown): { readonly claimName: string; readonly requestName: string } {
  return { claimName: stringAt(item, 'claimName') ?? '', requestName: stringAt(item, 'requestName') ?? '' };
}

function missingNames({ claimName, requestName }: Request, path: string, what: string): FieldError[] {
  return Object.entries({ claimName, requestName }).flatMap(([name, value]) =>
    value === '' ? [required(`${path}.${name}`, `${name} is required for DRA ${what}`)] : [],
  );
}

/** What a request gives goes to one device. */
function sharedRequests(requests: readonly Request[]): FieldError[] {
  const owners = new Map<string, Request>();
  return requests.flatMap((request) => {
    const { kind, index, path, claimName, requestName } = request;
    if (claimName === '' || requestName === '') return [];
    const key = `${claimName}/${requestName}`;
    const owner = owners.get(key);
    if (!owner) owners.set(key, request);
    if (!owner) return [];
    const where = owner.kind === kind ? '' : ` between ${owner.kind}[${owner.index}] and ${kind}[${index}]`;
    return [duplicate(path, `duplicate claimName/requestName pair "${key}"${where}`)];
  });
}

function unknownClaims(requests: readonly Request[], claims: readonly JsonObject[], field: string): FieldError[] {
  const names = new Set(claims.map((claim) => at(claim, 'name')));
  const unknown = requests.filter(({ claimName }) => claimName !== '' && !names.has(claimName));
  const ofDevices = unknown.some(({ kind }) => kind !== 'Networks');
  const words =
    'vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and vmi.spec.domain.devices.hostDevices';
  return [
    ...(ofDevices ? [refusedField(`${field}.resourceClaims`, words)] : []),
    ...unknown.flatMap(({ kind, path, claimName }): FieldError[] => {
      if (kind !== 'Networks') return [];
      const message = `network references resourceClaim "${claimName}" which is not defined in spec.resourceClaims`;
      return [{ field: `${path}.resourceClaim.claimName`, reason: 'FieldValueNotFound', message }];
    }),
  ];
}

function required(field: string, message: string): FieldError {
  return { field, reason: 'FieldValueRequired', message };
}

function duplicate(field: string, message: string): FieldError {
  return { field, reason: 'FieldValueDuplicate', message };
}
