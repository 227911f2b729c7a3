import { access, rm } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import {
  formatIdentity,
  identifyProcess,
  isAlive,
  type ProcessIdentity,
  parseIdentity,
  signalProcess,
} from '../process-identity.ts';
import { untilGone } from './program.ts';

/** The longest grace period of a VM and then some. */
const stopTimeoutMs = 300_000;

function lockFile(paths: NodePaths): string {
  return path.join(paths.runDir, 'virt-node.pid');
}

/** The supervisor that runs on this state directory, if one does. Throws NodeError NO_PERMISSION to who may not know. */
export async function runningSupervisor(paths: NodePaths): Promise<ProcessIdentity | undefined> {
  await access(paths.runDir).catch((cause: unknown) => {
    if (errorCode(cause) !== 'EACCES') return;
    throw new NodeError('NO_PERMISSION', `${paths.stateDir} is for its owner (root) only: use sudo`, { cause });
  });
  const identity = parseIdentity((await readIfThere(lockFile(paths))) ?? '');
  return identity && (await isAlive(identity)) ? identity : undefined;
}

/**
 * Makes this process the one supervisor of the state directory. Throws NodeError ALREADY_RUNNING. A lock whose process is
 * gone (kill -9, power cut) does not count. The returned function gives it back.
 */
export async function lockNode(paths: NodePaths, pid: number): Promise<() => Promise<void>> {
  const other = await runningSupervisor(paths);
  if (other && other.pid !== pid) {
    throw new NodeError(
      'ALREADY_RUNNING',
      `a node runs already on ${paths.stateDir} (pid ${other.pid}): use it, or end it with \`virt-node stop\``,
    );
  }
  const identity = await identifyProcess(pid);
  if (!identity) throw new NodeError('NO_PERMISSION', '/proc cannot be read');
  // Of one that was killed while it was asked to stop; with the lock in its place a request is for this one.
  await takeDrainRequest(paths);
  await writeFileAtomic(lockFile(paths), formatIdentity(identity));
  return () => rm(lockFile(paths), { force: true });
}

/** Asks the supervisor, before it is asked to stop, to end the virtual machines too. */
export async function requestDrain(paths: NodePaths): Promise<void> {
  await writeFileAtomic(path.join(paths.runDir, 'drain'), '');
}

/** True once when a drain was asked for. */
export async function takeDrainRequest(paths: NodePaths): Promise<boolean> {
  const file = path.join(paths.runDir, 'drain');
  const asked = (await readIfThere(file)) !== undefined;
  await rm(file, { force: true });
  return asked;
}

/** Tells the supervisor to end, with or without its virtual machines, and waits for it. Gives a sentence for people. */
export async function endSupervisor(paths: NodePaths, pods: 'keep' | 'end'): Promise<string> {
  const supervisor = await runningSupervisor(paths);
  if (!supervisor) throw new NodeError('NOT_RUNNING', `no node runs on ${paths.stateDir}`);
  if (pods === 'end') await requestDrain(paths);
  if (!(await signalProcess(supervisor, 'SIGTERM'))) {
    throw new NodeError('NO_PERMISSION', `the node (pid ${supervisor.pid}) belongs to somebody else: use sudo`);
  }
  if (!(await untilGone(supervisor, stopTimeoutMs))) {
    throw new NodeError('TIMEOUT', `the node (pid ${supervisor.pid}) did not end in ${stopTimeoutMs / 1000} s`);
  }
  return pods === 'end'
    ? 'the node and its virtual machines have ended'
    : 'the node has ended, virtual machines run on';
}
