import { existsSync } from 'node:fs';
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import path from 'node:path';
import { sleep } from '../../base/index.ts';
import type { NodePaths } from '../paths.ts';
import { mountsBelow } from '../pod-runner/index.ts';

/** Process ids whose pid namespace is the one of `pid`. */
export async function podNamespaceOf(pid: number): Promise<string | undefined> {
  return readlink(`/proc/${pid}/ns/pid`).catch(() => undefined);
}

/**
 * What a finished VM must not leave on the node, one line each; empty when all is clean. `namespaces` are the pid namespaces
 * of the pods that ran, `cgroups` their directories, `links` their links on the machine.
 */
export async function findLeftovers(
  paths: NodePaths,
  namespaces: ReadonlySet<string>,
  cgroups: readonly string[] = [],
  links: readonly string[] = [],
): Promise<string[]> {
  const pods = await readdir(paths.podsDir).catch(() => []);
  const ghosts = await readdir(path.join(paths.privateDir, 'ghost-records')).catch(() => []);
  const logs = await readdir(paths.podLogsDir).catch(() => []);
  const podsDir = await realpath(paths.podsDir).catch(() => paths.podsDir);
  // The directory itself may be a mount while the node runs: see `shareMounts`.
  const mounts = (await mountsBelow(podsDir)).filter((point) => point !== podsDir);
  return [
    ...pods.map((uid) => `files of pod ${uid} in ${paths.podsDir}`),
    ...logs.map((uid) => `logs of pod ${uid} in ${paths.podLogsDir}`),
    ...ghosts.map((name) => `ghost record ${name} in ${paths.privateDir}`),
    ...cgroups.filter((dir) => existsSync(dir)).map((dir) => `cgroup ${dir}`),
    ...mounts.map((point) => `mount ${point}`),
    ...(await leftLinks(links)).map((name) => `network link ${name}`),
    ...(await leftProcesses(paths, namespaces)),
  ];
}

/** The kernel removes a network namespace some moments after its last process. */
async function leftLinks(links: readonly string[]): Promise<string[]> {
  for (let tries = 0; ; tries++) {
    const there = await readFile('/proc/self/net/dev', 'utf8').catch(() => '');
    const left = links.filter((name) => there.includes(`${name}:`));
    if (left.length === 0 || tries > 40) return left;
    await sleep(50);
  }
}

async function leftProcesses(paths: NodePaths, namespaces: ReadonlySet<string>): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const [namespace, cmdline] = await Promise.all([
        podNamespaceOf(Number(pid)),
        readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
      ]);
      const words = cmdline.split('\0');
      const isOurs =
        (namespace && namespaces.has(namespace)) || words.some((word) => word.startsWith(`${paths.podsDir}/`));
      return isOurs ? `process ${pid}: ${words.join(' ').slice(0, 120)}` : undefined;
    }),
  );
  return found.filter((line) => line !== undefined);
}
