import { annotations, type Container, type Pod } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import { prepareDevices } from './devices.ts';
import type { PodNetworks } from './ports.ts';
import { needsAddress, type Probe, probesOf } from './probe-spec.ts';
import type { SandboxPlan } from './sandbox-plan.ts';
import { prepareVolumes, type VolumeDeps } from './volumes.ts';

export interface PlanOptions {
  readonly podLogsDir: string;
  /** What runs instead of a command of the launcher image: `/usr/bin/virt-launcher-monitor` → node and its script. */
  readonly programs: Readonly<Record<string, readonly string[]>>;
  /** Added to every pod's environment; wins over the pod's own. */
  readonly env: Readonly<Record<string, string>>;
  readonly kvm: 'works' | 'fails';
}

/** As Kubernetes had it before it took everything printable. */
const envName = /^[A-Za-z_][A-Za-z0-9_.-]{0,252}$/;
const basePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Prepares the pod's volumes and says how its one container is run, and what runs beside it: its guest's log. `logFile` by the name of a
 * container. Throws NodeError as `prepareVolumes`.
 */
export async function buildPlan(
  pod: Pod,
  podDir: string,
  logFile: (container: string) => string,
  options: PlanOptions,
  deps: VolumeDeps & { readonly networks: Pick<PodNetworks, 'join'> },
): Promise<SandboxPlan> {
  const [container, ...others] = pod.spec.containers;
  if (!container) throw new NodeError('POD_INVALID', 'the pod has no container');
  const helpers = (pod.spec.initContainers ?? []).filter((init) => !isForKubelet(init) && !isGuestLog(init));
  const unknown = [...others, ...helpers].map(({ name }) => name);
  if (unknown.length > 0) {
    throw new NodeError(
      'UNSUPPORTED',
      `the standalone node runs the container ${container.name} only, not ${unknown.join(', ')}${adviceFor(unknown)}`,
    );
  }
  refuseMultus(pod);
  const argv = programOf(container, options.programs);
  const beside = (pod.spec.initContainers ?? []).filter(isGuestLog).map((each) => ({
    argv: programOf(each, options.programs),
    logFile: logFile(each.name),
  }));
  const probes = probesOf(container);
  const { uid = '', namespace = 'default', name } = pod.metadata;
  // Side by side: these wait for the disk, those for small programs. A pod whose volumes fail has its lease, as with a kubelet, until it goes.
  const [prepared, joined] = await Promise.allSettled([
    prepareFiles(pod, container, podDir, deps),
    deps.networks.join(uid, domainOf(pod) ?? name, namespace),
  ]);
  if (prepared.status === 'rejected') throw prepared.reason;
  if (joined.status === 'rejected') throw joined.reason;
  const { mounts, devices } = prepared.value;
  const network = joined.value;
  if (!network) refuseUnreachable(probes);
  return {
    uid,
    namespace,
    name,
    argv,
    env: {
      PATH: basePath,
      HOME: '/root',
      ...environmentOf(pod, container),
      ...options.env,
      ...(!network && userNetwork),
    },
    mounts,
    ...(devices.length > 0 && { devices }),
    ...(network && { network }),
    kvm: options.kvm,
    logFile: logFile(container.name),
    ...(beside.length > 0 && { beside }),
  };
}

async function prepareFiles(pod: Pod, container: Container, podDir: string, deps: VolumeDeps) {
  const mounts = await prepareVolumes(pod, container, podDir, deps);
  return { mounts, devices: await prepareDevices(pod, container, deps) };
}

/** At the address of the machine the machine's own ports would answer. Throws NodeError UNSUPPORTED. */
function refuseUnreachable(probes: readonly Probe[]): void {
  const found = probes.find(needsAddress);
  if (!found) return;
  const why = 'VMs have user networking here, and their pods no address';
  const advice =
    'apt-get install dnsmasq-base nftables iproute2 and start the node again, or ask by exec or guestAgentPing';
  throw new NodeError('UNSUPPORTED', `${found.name}Probe.${found.check.kind}: ${why}: ${advice}`);
}

/** Without a link of its own there is nothing that the agent could set up for the guest: it has QEMU's network stack. */
const userNetwork = { VIRT_LAUNCHER_NETWORK: 'user' } as const;

/** The VMI's name. */
const domainOf = ({ metadata }: Pod) => metadata.annotations?.['kubevirt.io/domain'];

/** A root directory of an image's own, with a program of another one in it, is what a container runtime makes. */
function adviceFor(containers: readonly string[]): string {
  if (containers.some((name) => name.startsWith('virtiofs-'))) return ': use a disk instead of the file system';
  if (!containers.includes('container-disk-binary')) return '';
  return ': remove ImageVolume from developerConfiguration.disabledFeatureGates of the KubeVirt object';
}

/** Shows what the guest writes to its serial console as its own log. */
export function isGuestLog({ command, restartPolicy }: Container): boolean {
  return command?.[0] === '/usr/bin/virt-tail' && restartPolicy === 'Always';
}

/** Runs a container disk image only so that a kubelet reports the image's digest. */
function isForKubelet(container: Container): boolean {
  return [...(container.command ?? []), ...(container.args ?? [])].includes('--no-op');
}

function programOf(container: Container, programs: PlanOptions['programs']): string[] {
  const [command = '', ...args] = withoutShell([...(container.command ?? []), ...(container.args ?? [])], programs);
  const program = Object.hasOwn(programs, command) ? programs[command] : undefined;
  if (program) return [...program, ...args];
  const known = Object.keys(programs).join(', ');
  throw new NodeError('UNSUPPORTED', `${JSON.stringify(command)} is no program of this node; it runs ${known}`);
}

/** As upstream starts the program of attachment pods: nothing in it is for the shell. */
function withoutShell(words: string[], programs: PlanOptions['programs']): string[] {
  const [shell = '', option, line = ''] = words;
  return shell === '/bin/sh' && option === '-c' && !Object.hasOwn(programs, shell) ? line.split(' ') : words;
}

function environmentOf(pod: Pod, container: Container): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { name, value, valueFrom } of container.env ?? []) {
    if (!envName.test(name)) throw new NodeError('POD_INVALID', `${JSON.stringify(name)} is no name of a variable`);
    const field = valueFrom?.fieldRef?.fieldPath;
    env[name] = field ? fieldOf(pod, field) : (value ?? '');
  }
  return env;
}

/** The downward API's fields that a pod may ask for here. */
function fieldOf(pod: Pod, fieldPath: string): string {
  const fields: Record<string, string | undefined> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'spec.nodeName': pod.spec.nodeName,
    'status.hostIP': pod.status?.hostIP,
    'status.podIP': pod.status?.podIP,
  };
  return fields[fieldPath] ?? '';
}

/** A pod would have its own network only, and its guest wait for links that nobody makes. */
function refuseMultus({ metadata }: Pod): void {
  const keys = [annotations.multusNetworks, annotations.multusDefaultNetwork];
  if (keys.every((key) => metadata.annotations?.[key] === undefined)) return;
  const message = 'spec.networks[].multus: the standalone node has no Multus: use the network of its pods (pod: {})';
  throw new NodeError('UNSUPPORTED', message);
}
