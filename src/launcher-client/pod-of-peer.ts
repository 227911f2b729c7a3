import {
  type AgeFacts,
  cgroupsOf,
  clockStepMs,
  isProcessAlive,
  isYoungerThan,
  type Peer,
  type ReportedPeer,
  startedMs,
} from '../host/index.ts';
import { LauncherClientError } from './errors.ts';
import { podOfSocket } from './sockets.ts';

export interface ListeningSocket {
  readonly socketFile: string;
  /** When the socket was made, in milliseconds since 1970; 0: its file system does not know. */
  readonly bornMs?: number | undefined;
}

/** Of the machine. */
export interface ProcessFacts extends AgeFacts {
  readonly cgroupsOf: (pid: number | 'self') => string | undefined;
  readonly isProcessAlive: (process: Peer) => boolean;
}

const thisMachine: ProcessFacts = { cgroupsOf, clockStepMs, isProcessAlive, startedMs };

/**
 * Gives back the process that listens on a pod's socket when it can be that pod's: the kubelet, and our pod runner, put each pod
 * into cgroups that carry its UID. One without such a cgroup is believed where the kernel itself reported who it is; else it must
 * be no younger than its socket, as a process that took over the pid of one that ended would be. A clock that was set forward before this
 * program began makes it look younger: such a launcher is refused until it is started again. Throws LauncherClientError NO_PEER.
 */
export function checkedPeer(peer: ReportedPeer, { socketFile, bornMs }: ListeningSocket, facts = thisMachine): Peer {
  const pod = podOfSocket(socketFile);
  const found = podsIn(facts.cgroupsOf(peer.pid) ?? '', facts.cgroupsOf('self') ?? '');
  const other = found.find((each) => each !== pod);
  if (pod !== undefined && other !== undefined) {
    throw foreign(socketFile, `process ${peer.pid} listens, which belongs to pod ${other}`);
  }
  if (peer.isProven) return peer;
  const isOfPod = pod !== undefined && found.length > 0;
  if (!isOfPod && bornMs !== undefined && isYoungerThan(peer, bornMs, facts)) {
    throw foreign(socketFile, `process ${peer.pid} began after the socket was made`);
  }
  // What was read of it may be of the next one with its pid.
  if (!facts.isProcessAlive(peer)) throw foreign(socketFile, `process ${peer.pid} ended`);
  return peer;
}

function foreign(socketFile: string, reason: string): LauncherClientError {
  return new LauncherClientError('NO_PEER', `${socketFile}: ${reason}: it is not taken for the launcher`);
}

const uid = '([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})';
const podElement = new RegExp(`^(?:.*-)?pod${uid}(?:\\.slice)?$`);
/** Right below the standalone node's own cgroup; elsewhere it may be of anything, such as a machine or a job. */
const runnerElement = 'virt-node';
const bareElement = new RegExp(`^${uid}$`);

/**
 * UIDs of the pods that a process is in, by its cgroups. The outermost one of each hierarchy counts, for below it the pod may
 * call cgroups what it likes; those that we are in ourselves are of a pod around all of this.
 */
function podsIn(cgroups: string, own: string): string[] {
  const around = new Set(own.split('\n').flatMap(podsOfLine));
  const found = cgroups.split('\n').flatMap((line) => podsOfLine(line).find((pod) => !around.has(pod)) ?? []);
  return [...new Set(found)];
}

/** `kubepods-burstable-pod<uid with _>.slice` under systemd, `pod<uid>` otherwise, and the UID alone under our pod runner. */
function podsOfLine(line: string): string[] {
  if (line.length > maxLineLength) return [];
  const elements = line.split('/').slice(1);
  return elements.flatMap((element, index) => {
    const bare = elements[index - 1] === runnerElement ? bareElement.exec(element) : undefined;
    return (bare ?? podElement.exec(element))?.[1]?.replaceAll('_', '-') ?? [];
  });
}

/** Of a path that the kernel makes. */
const maxLineLength = 8_192;
