import { access } from 'node:fs/promises';
import path from 'node:path';
import {
  type ControllerKind,
  type ControllerReport,
  controllerExplainApiVersion,
  domainName,
  type ExplainReport,
  labels,
  type Pod,
  resources,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { jsonRecord } from '../../base/index.ts';
import { type LogTime, lastBytes, openNoFollow, openPlainFile, readLogTimes, timeAt } from '../../host/index.ts';
import { getIfThere, type KubeClient } from '../../kube/index.ts';
import { getExplanation, knownAgents } from '../agent-api/index.ts';
import { memberPaths, type NodePaths } from '../paths.ts';
import { readSandboxTimes } from '../pod-runner/index.ts';
import type { TimelineFacts } from './rows.ts';

/** The beginning of a log tells how its program started; more than this is none. */
const maxLogBytes = 4 * 2 ** 20;
/** As in the pod that virt-controller makes (upstream's pkg/virt-controller/services/template.go). */
const guestLogName = 'guest-console-log';

/** Undefined: no such VM runs. Rejects with KubeError when the API does not answer. */
export async function readTimelineFacts(
  client: KubeClient,
  paths: NodePaths,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<TimelineFacts | undefined> {
  const vmi = await getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, { namespace, name });
  if (!vmi) return undefined;
  const names = [namespace, name].map(encodeURIComponent).join('/');
  const ofController = (kind: ControllerKind) =>
    explained<ControllerReport>(paths.controllerSocket, `/explain/${kind}/${names}`, {
      apiVersion: controllerExplainApiVersion,
      server: 'virt-controller',
    });
  const [ofVm, ofVmi, ofAgents, pod] = await Promise.all([
    ofController('vm'),
    ofController('vmi'),
    explainedByAgents(paths, `/why/${names}`),
    firstPod(client, vmi),
  ]);
  const uid = pod?.metadata.uid;
  const podDir = uid === undefined ? undefined : await findPodDir(paths, uid);
  return {
    vmi,
    controller: ofVmi?.decisions ?? [],
    machine: ofVm?.decisions ?? [],
    agent: ofAgents.find(({ node }) => node === vmi.status?.nodeName)?.decisions ?? [],
    sandbox: podDir === undefined ? undefined : await readSandboxTimes(podDir),
    launcher:
      uid === undefined ? new Map() : launcherTimes((await readLog(logOf(paths, uid, 'compute'))).bytes.toString()),
    qemuMs: podDir === undefined ? undefined : qemuStart(readQemuLog(podDir, domainName(namespace, name))),
    guest: uid === undefined ? {} : await readGuestTimes(logOf(paths, uid, guestLogName)),
  };
}

/** The pod that the guest began in; none once it has moved. */
async function firstPod(client: KubeClient, { metadata }: VirtualMachineInstance): Promise<Pod | undefined> {
  const labelSelector = `${labels.createdBy}=${metadata.uid}`;
  const { items } = await client.list<Pod>(resources.pods, { namespace: metadata.namespace ?? '', labelSelector });
  return items.find((pod) => pod.metadata.labels?.[labels.migrationJobUid] === undefined);
}

/** On one of the nodes of this machine. */
async function findPodDir(paths: NodePaths, uid: string): Promise<string | undefined> {
  const agents = await knownAgents(paths);
  for (const [at] of agents.entries()) {
    const dir = path.join(memberPaths(paths, at + 1).podsDir, path.basename(uid));
    const isThere = await access(dir).then(
      () => true,
      () => false,
    );
    if (isThere) return dir;
  }
  return undefined;
}

async function explainedByAgents(paths: NodePaths, target: string): Promise<ExplainReport[]> {
  const agents = await knownAgents(paths);
  const reports = await Promise.all(agents.map(({ socket }) => explained<ExplainReport>(socket, target)));
  return reports.filter((report) => report !== undefined);
}

/** Undefined: it does not answer, or knows nothing of it; the rest is told without. */
async function explained<Report>(...question: Parameters<typeof getExplanation>): Promise<Report | undefined> {
  const { document } = await getExplanation(...question).catch(() => ({ document: {} as { decisions?: unknown } }));
  return Array.isArray(document.decisions) ? (document as unknown as Report) : undefined;
}

function logOf({ podLogsDir }: NodePaths, uid: string, container: string): string {
  return path.join(podLogsDir, path.basename(uid), `${container}.log`);
}

/** The pod may put links there. Empty where there is none. */
function readQemuLog(podDir: string, domain: string): string {
  try {
    const dir = openNoFollow(path.join(podDir, 'sandbox', 'log-libvirt'), 'qemu');
    try {
      return dir.readText(`${domain}.log`, maxLogBytes);
    } finally {
      dir.close();
    }
  } catch {
    return '';
  }
}

interface WholeLog {
  readonly bytes: Buffer;
  /** The last of them were written then. */
  readonly endMs: number;
}

/** Empty where there is none, and of one whose beginning was taken away. */
async function readLog(file: string): Promise<WholeLog> {
  const nothing = { bytes: Buffer.alloc(0), endMs: 0 };
  const isWhole = await access(`${file}.1`).then(
    () => false,
    () => true,
  );
  const handle = isWhole ? await openPlainFile(file).catch(() => undefined) : undefined;
  if (!handle) return nothing;
  try {
    const { mtimeMs } = await handle.stat();
    const { size, bytes } = await lastBytes(handle, maxLogBytes);
    return size > maxLogBytes ? nothing : { bytes, endMs: mtimeMs };
  } catch {
    return nothing;
  } finally {
    await handle.close();
  }
}

/** When each thing was said first. */
export function launcherTimes(log: string): Map<string, number> {
  const times = new Map<string, number>();
  for (const line of log.split('\n')) {
    const { msg, timestamp } = jsonRecord(line) ?? {};
    const atMs = Date.parse(String(timestamp));
    if (typeof msg === 'string' && !Number.isNaN(atMs) && !times.has(msg)) times.set(msg, atMs);
  }
  return times;
}

/** libvirt's first line about a QEMU that it starts: `2026-11-26 07:05:36.147+0000: starting up libvirt version: …`. */
export function qemuStart(log: string): number | undefined {
  const line = log.split('\n').find((each) => each.includes('+0000: starting up '));
  const [day = '', time = ''] = line?.split('+', 1)[0]?.split(' ') ?? [];
  const atMs = Date.parse(`${day}T${time}Z`);
  return Number.isNaN(atMs) ? undefined : atMs;
}

async function readGuestTimes(file: string): Promise<TimelineFacts['guest']> {
  const times = await readLogTimes(file);
  return guestTimes(await readLog(file), times);
}

/** Where the first prompt in what a guest has written ends; undefined: there is none. */
function firstPromptEnd(text: string): number | undefined {
  const found = /login: ?/.exec(text);
  return found ? found.index + found[0].length : undefined;
}

/** `times` say how long the log was when. A guest writes any bytes: each is a character here, so that lengths mean the same. */
export function guestTimes({ bytes, endMs }: WholeLog, times: readonly LogTime[]): TimelineFacts['guest'] {
  const prompt = firstPromptEnd(bytes.toString('latin1'));
  return {
    ...(bytes.length > 0 && { firstMs: timeAt(times, 1, endMs) }),
    ...(prompt !== undefined && { promptMs: timeAt(times, prompt, endMs) }),
  };
}
