import type { Interface, VirtualMachineInstance } from '../../../../api/index.ts';
import { errorMessage, isRecord, listOf, memberAt } from '../../../../base/index.ts';
import { HostError } from '../errors.ts';
import type { HookContext, HookResult, HookView, HostHook, HostSeen } from '../work/index.ts';
import { bindingOf } from './binding-links.ts';
import { LauncherFiles } from './launcher-files.ts';
import { PodInterfaceCache } from './pod-interface-cache.ts';
import { type OpenPodNamespace, podNamespaces } from './pod-namespace.ts';
import { type PodNetworkState, pendingTargets, type SetUpDeps, setUp } from './set-up.ts';
import { type Targets, targetsOf } from './targets.ts';

export interface PodNetworkOptions {
  /** Upstream's caches are below it. */
  readonly privateDir: string;
  /** Of the agent's pod. */
  readonly podIp: string;
  readonly procDir?: string;
}

/** Interfaces whose tap device is in the pod. */
export type PodNetworkFacts = { readonly taps: readonly string[] };

type Context = HookContext<PodNetworkState>;
type Result = HookResult<PodNetworkFacts>;

/** With the one read that comes before it, some tens of milliseconds; a node that is short of memory needs longer. */
const deadlineMs = 30_000;

/**
 * The privileged half of a pod's network, what upstream calls phase 1: links, addresses, settings and address translation in the launcher's network
 * namespace, and the files that its unprivileged half reads (pkg/network/setup). The links go with the pod; the files are ours to remove.
 */
export function podNetwork(
  options: PodNetworkOptions,
  open: OpenPodNamespace = podNamespaces(options.procDir),
): HostHook<'pod-network', PodNetworkFacts, PodNetworkState> {
  const cache = new PodInterfaceCache(options.privateDir);
  const known = new KnownIps(cache);
  const inPod = (context: Context, targets: Targets) => workInPod(context, targets, { options, open, cache, known });
  return {
    name: 'pod-network',
    deadlineMs,
    leaves: ({ spec }) => (spec.domain.devices?.interfaces ?? []).some(losesItsLink),
    readFacts: (kept) => ({ taps: listOf(memberAt(kept, 'taps')).filter((name) => typeof name === 'string') }),
    readState,
    prepare: (context) => inPod(context, targetsOf(context.vmi, context.purpose === 'incoming' ? 'incoming' : 'start')),
    adjust: (context) => adjust(context, inPod),
    mayObserve: ({ vmi }) => namesOf(vmi).length > 0,
    observe: async (view) => known.seen(view),
    release: async ({ uid }) => {
      known.forget(uid);
      cache.removeAll(uid);
    },
    // Of a pod whose links go with it no checkpoint is kept, and its ghost record may have been torn.
    leftUids: async () => cache.uids(),
    syncOptions: ({ taps }) => ({ interfaceDomainAttachment: Object.fromEntries(taps.map((name) => [name, 'tap'])) }),
  };
}

/** Only of a pod's link that becomes a port of a bridge nothing else remembers what it was; a plug-in's may. Files are found by UID. */
const losesItsLink = ({ bridge, binding }: Interface) => Boolean(bridge || binding);

/** A guest that runs is not held up by a link that cannot be plugged: it is told, and tried again with the next change. */
async function adjust(
  context: Context,
  inPod: (context: Context, targets: Targets) => Promise<Result>,
): Promise<Result> {
  try {
    return await inPod(context, targetsOf(context.vmi, 'running', context.domain));
  } catch (error) {
    if (context.signal.aborted) throw error;
    const event = { type: 'Warning', reason: 'NicHotplug', message: errorMessage(error) } as const;
    return { kind: 'done', facts: { taps: tapsOf(context) }, events: [event] };
  }
}

interface WorkDeps extends Pick<SetUpDeps, 'cache'> {
  readonly options: PodNetworkOptions;
  readonly open: OpenPodNamespace;
  readonly known: KnownIps;
}

async function workInPod(
  context: Context,
  targets: Targets,
  { options, open, cache, known }: WorkDeps,
): Promise<Result> {
  const isNothing = targets.wanted.length + targets.unplugged.length === 0;
  if (isNothing) return { kind: 'done', facts: { taps: tapsOf(context) } };
  const { launcherPid: pid, process, signal } = context;
  const namespace = await open({ pid, ...(process?.pid === pid && { startTime: process.startTime }) });
  try {
    const files = new LauncherFiles(pid, options.procDir);
    if (namespace.isOfMachine) return withoutPod(files);
    const deps = { namespace, files, cache, podIp: options.podIp };
    const pending = pendingTargets(context, targets, deps);
    if (pending.wanted.length + pending.unplugged.length === 0)
      return { kind: 'done', facts: { taps: tapsOf(context) } };
    signal.throwIfAborted();
    await setUp(context, pending, deps);
    known.forget(context.uid);
    return { kind: 'done', facts: { taps: tapsOf(context) }, summary: summaryOf(pending) };
  } finally {
    namespace.close();
  }
}

/** The standalone node's launchers share the machine's network, and their guests have QEMU's: there is nothing to set up. */
function withoutPod(files: LauncherFiles): Result {
  if (files.hasUserNetwork)
    return { kind: 'done', facts: { taps: [] }, summary: 'nothing: the guest has user networking' };
  const problem = "the launcher is in the machine's own network namespace, where this agent changes nothing";
  throw new HostError(
    'CRITICAL_NETWORK',
    `${problem}: run it in a pod without hostNetwork, or with VIRT_LAUNCHER_NETWORK=user`,
  );
}

function summaryOf({ wanted, unplugged }: Targets): string {
  const names = (targets: Targets['wanted']) => targets.map(({ network }) => network.name).join(', ');
  return [wanted.length > 0 && names(wanted), unplugged.length > 0 && `without ${names(unplugged)}`]
    .filter(Boolean)
    .join(', ');
}

/** Interfaces that QEMU gets a tap device for, once all is set up. */
function tapsOf({ vmi, config }: Pick<Context, 'vmi' | 'config'>): string[] {
  const interfaces = vmi.spec.domain.devices?.interfaces ?? [];
  return interfaces
    .filter((iface) => {
      if (iface.state === 'absent') return false;
      if (iface.masquerade || iface.bridge) return true;
      const binding = iface.binding ? bindingOf(iface, config.networkBindings) : undefined;
      return binding?.kind === 'plugin' && binding.hasManagedTap;
    })
    .map(({ name }) => name);
}

function readState(kept: unknown): PodNetworkState | undefined {
  const [pid, originals] = [memberAt(kept, 'pid'), memberAt(kept, 'originals')];
  if (typeof pid !== 'number' || !isRecord(originals)) return undefined;
  const isOriginal = (value: unknown) =>
    typeof memberAt(value, 'index') === 'number' &&
    typeof memberAt(value, 'mac') === 'string' &&
    typeof memberAt(value, 'mtu') === 'number' &&
    Array.isArray(memberAt(value, 'addresses'));
  return Object.values(originals).every(isOriginal) ? ({ pid, originals } as PodNetworkState) : undefined;
}

/** Addresses in the pod, for the status. They do not change while it runs, but with what is set up; a file that is not there yet is read again. */
class KnownIps {
  readonly #cache: PodInterfaceCache;
  /** UID → network → addresses. */
  readonly #ips = new Map<string, Map<string, readonly string[]>>();

  constructor(cache: PodInterfaceCache) {
    this.#cache = cache;
  }

  seen({ uid, vmi }: Pick<HookView<PodNetworkFacts>, 'uid' | 'vmi'>): HostSeen {
    const known = this.#ips.get(uid) ?? new Map<string, readonly string[]>();
    for (const name of namesOf(vmi)) {
      if (known.has(name)) continue;
      const ips = this.#cache.read(uid, name)?.podIps ?? [];
      if (ips.length > 0) known.set(name, ips);
    }
    if (known.size === 0) return {};
    this.#ips.set(uid, known);
    const names = namesOf(vmi);
    return { podIps: Object.fromEntries([...known].filter(([name]) => names.includes(name))) };
  }

  forget(uid: string): void {
    this.#ips.delete(uid);
  }
}

function namesOf({ spec }: VirtualMachineInstance): string[] {
  const interfaces = spec.domain.devices?.interfaces ?? [];
  return interfaces.filter(({ state }) => state !== 'absent').map(({ name }) => name);
}
