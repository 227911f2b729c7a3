import path from 'node:path';
import { resources } from '../api/index.ts';
import type { Component, Logger } from '../base/index.ts';
import type { KubeClient } from '../kube/index.ts';
import { LiveSettings } from './live-settings.ts';
import { MediatedDevices, NodeDevices, type NodeDevicesOptions } from './node/devices/index.ts';
import {
  allProblems,
  type Finding,
  Heartbeat,
  hasCpuManager,
  type NodeReport,
  PolledProblems,
} from './node/heartbeat/index.ts';
import { KsmFiles, KsmService } from './node/ksm/index.ts';
import { makeNodeLabels, type NodeLabels } from './node/labels/index.ts';
import type { Node, ProblemSource } from './node/ports.ts';
import { SeccompProfile } from './node/seccomp/index.ts';
import { informersOf, type Parts } from './node-parts.ts';
import type { AgentOptions } from './options.ts';

/** This machine as the agent sees it. */
export interface NodeServicesHost {
  /** The host's root directory: `/proc/1/root` in a pod with the host's process namespace. */
  readonly hostRoot: string;
  /** Where libvirt's capabilities are left by an init container. */
  readonly labellerDir: string;
  /** Kubernetes' word for the architecture. */
  readonly architecture?: string | undefined;
  readonly setVerbosity: (verbosity: number) => void;
}

/** What the agent does for its node, beside its VMs. */
export interface NodeServices {
  readonly heartbeat: Heartbeat;
  /** Started before anything waits for the API server. */
  readonly devices: NodeDevices;
  /** Undefined: `--enable-node-labeller=false`. */
  readonly labels: NodeLabels | undefined;
  readonly problems: ProblemSource;
  /** Machine types that libvirt calls deprecated; none while nothing is known. */
  deprecatedMachines(): readonly string[];
  /** The others, in the order in which they start. */
  readonly components: readonly Component[];
}

const heartbeatPeriodMs = 60_000;
const markTimeoutMs = 4_000;
const lookEveryMs = 5_000;

/** Nothing is started yet. */
export function makeNodeServices(
  options: AgentOptions,
  parts: Parts,
  host: NodeServicesHost,
  log: Logger,
): NodeServices {
  const { nodeName, kubeletRoot } = options;
  const { settings, ownNode, client, eventClient, world } = parts;
  const { clock } = world;
  const labelling = options.nodeLabels ? makeLabels(options, parts, host, log) : undefined;
  const devices = new NodeDevices(deviceOptions(options, host), { settings, clock, log });
  const looks = new PolledProblems(
    { name: 'watches and sockets', everyMs: lookEveryMs },
    { clock, log, look: () => [...watchFindings(parts), ...socketFindings(parts)] },
  );
  const problems = allProblems([looks, devices, ...(labelling ? [labelling.files] : [])], { clock, log });
  const ksm = new KsmService(
    { nodeName },
    { settings, node: ownNode, files: ksmFiles(host), patchNode: nodePatcher(client), clock, log },
  );
  const heartbeat = makeHeartbeat(options, parts, { host, problems, log });
  const components = [
    new LiveSettings(options, { settings, setVerbosity: host.setVerbosity, clients: [client, eventClient], log }),
    ownNode,
    ...(labelling?.components ?? []),
    new SeccompProfile({ kubeletRoot }, { settings, clock, log }),
    makeMediatedDevices(options, parts, host, log),
    ksm,
    looks,
  ];
  const deprecatedMachines = () => {
    const machine = labelling?.files.facts().machine;
    return machine?.kind === 'known' ? machine.value.deprecatedMachineTypes : [];
  };
  return { heartbeat, devices, labels: labelling?.labels, problems, deprecatedMachines, components };
}

function makeLabels(options: AgentOptions, parts: Parts, { labellerDir, architecture }: NodeServicesHost, log: Logger) {
  const { settings, ownNode: node, client, recorder, world } = parts;
  return makeNodeLabels(
    {
      nodeName: options.nodeName,
      dir: labellerDir,
      arch: architecture ?? process.arch,
      sysctlDir: '/proc/sys',
      // In a pod the directory is a volume; on a developer's machine they need not be there.
      optional: true,
    },
    { client, recorder, node, settings, clock: world.clock, log },
  );
}

function makeHeartbeat(
  { nodeName, kubeletRoot }: AgentOptions,
  { beatClient, ownNode, recorder, settings, world }: Parts,
  { host, problems, log }: { readonly host: NodeServicesHost; readonly problems: ProblemSource; readonly log: Logger },
): Heartbeat {
  const states = [
    path.join(kubeletRoot, 'cpu_manager_state'),
    path.join(host.hostRoot, 'var/lib/origin/openshift.local.volumes/cpu_manager_state'),
  ];
  const anyNode: Node = { apiVersion: 'v1', kind: 'Node', metadata: { name: nodeName } };
  return new Heartbeat(
    { nodeName, periodMs: heartbeatPeriodMs, markTimeoutMs },
    {
      patchNode: (name, patch, signal) =>
        beatClient.patch<Node>(resources.nodes, { name }, patch, 'strategic', { signal }),
      problems,
      node: ownNode,
      hasCpuManager: async () => {
        if (!settings.isKnown) return undefined;
        return settings.current.node.gates.CPUManager && (await hasCpuManager(states, log));
      },
      report: (report) => recorder.record(ownNode.current ?? anyNode, ...eventOf(report)),
      clock: world.clock,
      log,
      random: world.random,
    },
  );
}

function eventOf(report: NodeReport): ['Normal' | 'Warning', string, string] {
  if (report.schedulable) return ['Normal', 'NodeTakesVMIs', 'the node takes virtual machines'];
  const type = report.reason === 'AgentLeaving' ? 'Normal' : 'Warning';
  return [type, report.reason, `the node takes no new virtual machines: ${report.message}`];
}

function makeMediatedDevices(
  options: AgentOptions,
  parts: Parts,
  host: NodeServicesHost,
  log: Logger,
): MediatedDevices {
  const { nodeName, podsDir } = options;
  const { settings, ownNode: node, recorder, world } = parts;
  const { pluginsDir, roots } = deviceOptions(options, host);
  return new MediatedDevices(
    // Processes of all pods: the agent's pod has the host's.
    { nodeName, sysDir: roots.sysDir, pluginsDir, podsDir, procDir: '/proc' },
    {
      ...{ settings, node, clock: world.clock, log },
      recordEvent: (type, reason, message) => {
        if (node.current) recorder.record(node.current, type, reason, message);
      },
    },
  );
}

function nodePatcher(client: KubeClient) {
  return (name: string, patch: object, signal: AbortSignal): Promise<Node> =>
    client.patch<Node>(resources.nodes, { name }, patch, 'merge', { signal });
}

function ksmFiles({ hostRoot }: NodeServicesHost): KsmFiles {
  return new KsmFiles({ ksmDir: path.join(hostRoot, 'sys/kernel/mm/ksm'), meminfo: '/proc/meminfo' });
}

/** Consoles only suffer from a bundle of authorities that cannot be watched. */
function watchFindings(parts: Parts): Finding[] {
  const broken = informersOf(parts).filter(
    ({ name, connected, failures }) => name !== resources.configMaps.resource && !connected && failures > 0,
  );
  if (broken.length === 0) return [];
  const words = broken.map(({ name, lastError }) => `${name} (${lastError ?? 'no answer'})`);
  const message = `the agent cannot follow ${[...new Set(words)].join(', ')} on the API server`;
  return [{ source: 'api', reason: 'ApiWatchBroken', message }];
}

function socketFindings({ domains, consoles, migration }: Parts): Finding[] {
  const findings: Finding[] = [];
  const source = 'sockets';
  const { notifyProblem } = domains;
  if (notifyProblem !== undefined) {
    const message = `launchers cannot reach domain-notify.sock: ${notifyProblem}`;
    findings.push({ source, reason: 'NotifySocketNotServed', message });
  }
  const { listens, problem = 'the port is not open yet' } = consoles.serving();
  if (listens === undefined) {
    findings.push({ source, reason: 'ConsolesNotServed', message: `consoles and lifecycle calls: ${problem}` });
  }
  // Each migration to this node would fail: its targets belong on others.
  const message = migration.relayProblem?.();
  if (message !== undefined) findings.push({ source, reason: 'MigrationRelayNotServed', message });
  return findings;
}

/** Launchers run as `qemu`: `NonRootUID` in pkg/util/util.go. */
const launcherUser = { uid: 107, gid: 107 };

function deviceOptions(options: AgentOptions, { hostRoot }: NodeServicesHost): NodeDevicesOptions {
  const { kubeletRoot, maxDevices, shareDir } = options;
  return {
    pluginsDir: path.join(kubeletRoot, 'device-plugins'),
    roots: { hostRoot, devDir: path.join(hostRoot, 'dev'), sysDir: path.join(hostRoot, 'sys') },
    maxDevices,
    shareDir,
    owner: launcherUser,
  };
}
