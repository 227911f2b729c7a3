import { isNonRoot } from '../../../../api/index.ts';
import { errorMessage } from '../../../../base/index.ts';
import { qemuId } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import type { HookContext } from '../work/index.ts';
import { bindingOf, passtSettings } from './binding-links.ts';
import type { LauncherFiles } from './launcher-files.ts';
import { linkNames, podLinkNames } from './names.ts';
import { type NetworkPlan, type Original, planNetwork } from './plan.ts';
import type { NetworkState, PodInterfaceCache } from './pod-interface-cache.ts';
import type { PodNetwork } from './pod-links.ts';
import type { PodNamespace } from './pod-namespace.ts';
import type { Target, Targets } from './targets.ts';

/** What only this agent knows of links that it took apart, and of which pod. */
export type PodNetworkState = {
  /** The launcher's process: the same VMI may come back in another pod. */
  readonly pid: number;
  readonly originals: Readonly<Record<string, Original>>;
};

export interface SetUpDeps {
  readonly namespace: PodNamespace;
  readonly files: LauncherFiles;
  readonly cache: PodInterfaceCache;
  readonly podIp: string;
}

/** Interface → its state, after a look at the pod: what was finished in another pod is not in this one. */
export function pendingTargets(
  { uid, vmi, config }: HookContext<PodNetworkState>,
  { wanted, unplugged }: Targets,
  { namespace, cache }: SetUpDeps,
): Targets {
  const there = namespace.linkNames();
  const podLinks = podLinkNames(vmi, there);
  const isReady = (target: Target) => {
    const { iface, network } = target;
    if (cache.read(uid, network.name)?.state !== 'finished') return false;
    const binding = bindingOf(iface, config.networkBindings);
    if (binding.kind === 'passt') return passtSettings.every(({ name, value }) => isSet(namespace, name, value));
    if (binding.kind === 'plugin' && !binding.hasManagedTap) return true;
    const names = linkNames(podLinks.get(network.name) ?? '', network);
    return names !== undefined && there.includes(names.tap) && there.includes(names.bridge);
  };
  const isBegun = ({ network }: Target) => (cache.read(uid, network.name)?.state ?? 'pending') !== 'pending';
  return { wanted: wanted.filter((target) => !isReady(target)), unplugged: unplugged.filter(isBegun) };
}

function isSet(namespace: PodNamespace, name: string, value: string): boolean {
  return namespace.setting(name).split(/\s+/).join(' ') === value;
}

/**
 * Sets networks up, or takes them away. Each step may be the last one that was done: all of them are done again then, and change only what differs. What the
 * undo needs is saved before anything is changed. Rejects with HostError.
 */
export async function setUp(
  context: HookContext<PodNetworkState>,
  targets: Targets,
  deps: SetUpDeps,
): Promise<NetworkPlan> {
  const { signal } = context;
  const { namespace, files } = deps;
  const network = await namespace.read(signal);
  const plan = planNetwork(inputOf(context, targets, network, deps));
  await saveOriginals(context, plan);
  for (const cache of plan.dhcp) files.writeDhcp(cache);
  keep(context, plan, 'started', deps);
  if (plan.commands.length > 0) await namespace.change(plan.commands, signal);
  namespace.set(plan.settings);
  if (plan.rules !== '') await namespace.load(plan.rules, signal);
  keep(context, plan, 'finished', deps);
  forget(context, targets, network, deps);
  return plan;
}

function inputOf(context: HookContext<PodNetworkState>, targets: Targets, network: PodNetwork, deps: SetUpDeps) {
  const { vmi, config } = context;
  const owner = isNonRoot(vmi) ? qemuId : 0;
  const originals = knownOriginals(context, targets, network, deps);
  return { vmi, config, ...targets, network, owner, originals, podIp: deps.podIp };
}

async function saveOriginals({ state, launcherPid }: HookContext<PodNetworkState>, plan: NetworkPlan): Promise<void> {
  if (Object.keys(plan.originals).length === 0) return;
  await state.save({ pid: launcherPid, originals: plan.originals });
}

/** Links that are no longer what they were when the pod was made: as an earlier try saved them, or what the other agent left of them. */
function knownOriginals(
  { vmi, state, launcherPid }: HookContext<PodNetworkState>,
  { wanted }: Targets,
  { links }: PodNetwork,
  { files }: SetUpDeps,
): Record<string, Original> {
  const saved = state.current?.pid === launcherPid ? state.current.originals : {};
  const podLinks = podLinkNames(
    vmi,
    links.map(({ name }) => name),
  );
  const known: Record<string, Original> = {};
  for (const { network } of wanted) {
    const before = saved[network.name];
    const names = linkNames(podLinks.get(network.name) ?? '', network);
    const renamed = links.find(({ name }) => name === names?.renamed);
    if (before && links.some(({ index }) => index === before.index)) known[network.name] = before;
    else if (names && renamed) {
      const dummy = links.find(({ name }) => name === names.pod);
      const told = files.readDhcp(names.pod);
      const { index, mtu } = renamed;
      const mac = dummy?.mac ?? told.mac ?? renamed.mac;
      known[network.name] = {
        index,
        mtu,
        mac,
        routes: null,
        addresses: dummy?.addresses ?? (told.address ? [told.address] : []),
      };
    }
  }
  return { ...saved, ...known };
}

/** Throws HostError: the first time nothing was done yet, and the last time all of it can be done again. */
function keep(
  { uid }: HookContext<PodNetworkState>,
  plan: NetworkPlan,
  state: NetworkState,
  { cache }: SetUpDeps,
): void {
  for (const { target, podIps } of plan.podInterfaces) {
    const { name } = target.network;
    try {
      const found = podIps.length > 0 ? { iface: target.iface, podIps } : (cache.read(uid, name) ?? { podIps });
      cache.write(uid, name, { ...found, state });
    } catch (cause) {
      const problem = `what was found of network ${name} cannot be kept (${errorMessage(cause)})`;
      throw new HostError('POD_NETWORK', `${problem}: check the private directory of this agent`, { cause });
    }
  }
}

/** The file of the network goes last: while it is there the rest is tried again. */
function forget(
  { uid, vmi }: HookContext<PodNetworkState>,
  { unplugged }: Targets,
  { links }: PodNetwork,
  { files, cache }: SetUpDeps,
): void {
  const podLinks = podLinkNames(
    vmi,
    links.map(({ name }) => name),
  );
  for (const { network } of unplugged) {
    const podLink = podLinks.get(network.name);
    if (podLink !== undefined) files.removeDhcp(podLink);
    cache.remove(uid, network.name);
  }
}
