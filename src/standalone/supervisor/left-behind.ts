import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { readIfThere } from '../files.ts';
import { memberPaths, membersDir, type NodePaths } from '../paths.ts';
import { bridgeOf } from '../pod-network/index.ts';
import { mountsBelow, Sandboxes } from '../pod-runner/index.ts';
import { isAlive, parseIdentity } from '../process-identity.ts';

/** What a supervisor that was killed may have left. */
export interface LeftBehind {
  /** How many nodes it played. */
  readonly nodes: number;
  /** Names of those that live. */
  readonly programs: readonly string[];
  /** How many run. */
  readonly pods: number;
  /** In words. */
  readonly ofMachine: readonly string[];
}

/** Looks at records with pid, start time and boot only: a process that has got such a pid since is nobody's. */
export async function findLeftBehind(paths: NodePaths): Promise<LeftBehind> {
  const indices = (await readdir(membersDir(paths)).catch((): string[] => [])).map(Number).filter(Number.isInteger);
  const nodes = Math.max(1, ...indices);
  const members = Array.from({ length: nodes }, (_, at) => memberPaths(paths, at + 1));
  const pods = (await Promise.all(members.map(podsOf))).flat();
  const mounts = (await Promise.all(members.map(mountsOf))).flat();
  const ofMachine = [
    ...((await hasLink(bridgeOf(paths.stateDir))) ? ['its network'] : []),
    ...(mounts.length > 0 ? ['mounts'] : []),
  ];
  return { nodes, programs: await livingPrograms(paths), pods: pods.length, ofMachine };
}

async function livingPrograms({ runDir }: NodePaths): Promise<string[]> {
  const files = (await readdir(runDir).catch((): string[] => [])).filter((file) => file.endsWith('.pid')).sort();
  const alive = await Promise.all(
    files.map(async (file) => {
      const identity = parseIdentity((await readIfThere(path.join(runDir, file))) ?? '');
      return identity !== undefined && (await isAlive(identity));
    }),
  );
  return files.filter((_, at) => alive[at]).map((file) => path.basename(file, '.pid'));
}

async function podsOf({ podsDir, libvirtCacheDir }: NodePaths): Promise<string[]> {
  const sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot: undefined, programs: [] });
  const uids = await sandboxes.list();
  const states = await Promise.all(uids.map((uid) => sandboxes.inspect(uid)));
  return uids.filter((_, at) => states[at]?.kind === 'running' || states[at]?.kind === 'starting');
}

async function mountsOf({ podsDir }: NodePaths): Promise<string[]> {
  return mountsBelow(await realpath(podsDir).catch(() => podsDir));
}

async function hasLink(name: string): Promise<boolean> {
  return ((await readIfThere('/proc/self/net/dev')) ?? '').includes(`${name}:`);
}
