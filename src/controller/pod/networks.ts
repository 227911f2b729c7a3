import {
  annotations,
  type Interface,
  isSecondaryNetwork,
  type Network,
  type Pod,
  primaryNetwork,
  secondaryPodLinks,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { PodRenderError } from './errors.ts';
import { podNetworkStatus } from './network-status.ts';

const { multusNetworks: networksKey, multusDefaultNetwork: mainNetworkKey } = annotations;

/** The argument that tells a binding plug-in's CNI which network it is called for. */
const bindingArgument = 'logicNetworkName';

type Bindings = ControllerConfig['networkBindings'];

/** Members in the order in which upstream writes them: the text is compared as a whole. */
interface NetworkSelection {
  readonly name: string;
  readonly namespace: string;
  readonly mac?: string;
  readonly interface?: string;
  readonly 'cni-args'?: Readonly<Record<string, string>>;
}

/** For a pod that is made (upstream: Generate in pkg/network/pod/annotations). Throws PodRenderError. */
export function networkAnnotations(vmi: VirtualMachineInstance, bindings: Bindings): Record<string, string> {
  const main = mainNetwork(vmi);
  const selections = selectionsOf(vmi, presentInterfaces(vmi), [], bindings);
  return {
    ...(selections !== '' && { [networksKey]: selections }),
    ...(main !== undefined && { [mainNetworkKey]: main }),
  };
}

/**
 * For the pod of a guest that runs, whose interfaces come and go: Multus's controller for dynamic networks follows this annotation. Empty: it is
 * as it shall be. Throws PodRenderError.
 */
export function changedNetworks(vmi: VirtualMachineInstance, pod: Pod, bindings: Bindings): Record<string, string> {
  const given = vmi.spec.domain.devices?.interfaces ?? [];
  const reported = new Set((vmi.status?.interfaces ?? []).map(({ name }) => name));
  const present = presentInterfaces(vmi);
  // A device that is passed through is there from the start or not at all.
  const followed = present.filter(({ name, sriov }) => !sriov || reported.has(name));
  const isUnplugging = present.length < given.length;
  if (!isUnplugging && followed.every(({ name }) => reported.has(name))) return {};
  const links = (podNetworkStatus(pod) ?? []).map(({ link }) => link);
  const wanted = selectionsOf(vmi, followed, links, bindings);
  return wanted === (pod.metadata.annotations?.[networksKey] ?? '') ? {} : { [networksKey]: wanted };
}

const presentInterfaces = ({ spec }: VirtualMachineInstance): Interface[] =>
  (spec.domain.devices?.interfaces ?? []).filter(({ state }) => state !== 'absent');

/** In the order of the interfaces. `links`: of the pod, when there is one. */
function selectionsOf(
  { metadata: { namespace = 'default' }, spec }: VirtualMachineInstance,
  interfaces: readonly Interface[],
  links: readonly string[],
  bindings: Bindings,
): string {
  const networks = spec.networks ?? [];
  const names = secondaryPodLinks(networks, links);
  const selections = interfaces.flatMap((iface): NetworkSelection[] => {
    const network = networks.find(({ name }) => name === iface.name);
    if (!network) return [];
    return [
      ...(isSecondaryNetwork(network) ? [secondary(namespace, iface, network, names.get(network.name) ?? '')] : []),
      ...ofBinding(namespace, iface, bindings),
    ];
  });
  return selections.length > 0 ? JSON.stringify(selections) : '';
}

function secondary(namespace: string, { macAddress }: Interface, { name, multus }: Network, link: string) {
  const definition = definitionNamed(namespace, multus?.networkName, `network ${name}`);
  return { ...definition, ...(macAddress && { mac: macAddress }), interface: link };
}

function ofBinding(namespace: string, { name, binding }: Interface, bindings: Bindings): NetworkSelection[] {
  if (!binding) return [];
  const plugin = Object.hasOwn(bindings, binding.name) ? bindings[binding.name] : undefined;
  if (!plugin) {
    const problem = `interface ${name}: the KubeVirt object has no network binding ${JSON.stringify(binding.name)}`;
    throw new PodRenderError('BAD_NETWORK', `${problem}: register it in spec.configuration.network.binding`);
  }
  if (plugin.networkAttachmentDefinition === undefined) return [];
  const definition = definitionNamed(namespace, plugin.networkAttachmentDefinition, `network binding ${binding.name}`);
  return [{ ...definition, 'cni-args': { [bindingArgument]: name } }];
}

function mainNetwork({ metadata: { namespace = 'default' }, spec }: VirtualMachineInstance): string | undefined {
  const networks = spec.networks ?? [];
  const main = primaryNetwork(networks);
  const other = networks.find((each) => each !== main && !isSecondaryNetwork(each) && (each.pod || each.multus));
  if (main && other) {
    const problem = `networks ${main.name} and ${other.name} would both be the main network of the pod`;
    throw new PodRenderError('BAD_NETWORK', `${problem}: only one of them can be it`);
  }
  if (!main?.multus) return undefined;
  definitionNamed(namespace, main.multus.networkName, `network ${main.name}`);
  return main.multus.networkName;
}

const label = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const maxName = 253;

/**
 * `[NAMESPACE/]NAME` of a NetworkAttachmentDefinition. Nothing else goes into an annotation: Multus would read more out of it, such as further
 * networks or the name of a link.
 */
function definitionNamed(
  namespace: string,
  given: unknown,
  what: string,
): Pick<NetworkSelection, 'name' | 'namespace'> {
  const parts = typeof given === 'string' ? given.split('/') : [];
  const [name = '', ownNamespace = namespace] = parts.reverse();
  const isName = name.length <= maxName && name.split('.').every((each) => label.test(each));
  if (parts.length <= 2 && isName && label.test(ownNamespace)) return { name, namespace: ownNamespace };
  const problem = `${what}: ${JSON.stringify(given)?.slice(0, maxName)} does not name a NetworkAttachmentDefinition`;
  throw new PodRenderError('BAD_NETWORK', `${problem}: write NAME or NAMESPACE/NAME`);
}
