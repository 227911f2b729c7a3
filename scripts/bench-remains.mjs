// What a bench that was ended leaves, because it outlives its parents on purpose: standalone nodes, and the HAProxy processes of agents.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';

const nodePrefix = 'virt-node-bench-';
const virtNode = 'dist/bin/virt-node.js';

/**
 * Ends what still runs for a bench whose processes are gone. `directory`: its own, in which everything of it lies.
 * @param {string} directory
 */
export function endRemains(directory) {
  for (const name of readdirSync(directory).filter((each) => each.startsWith(nodePrefix))) {
    const node = path.join(directory, name);
    // One that was stopped says so.
    if (existsSync(virtNode)) spawnSync(process.execPath, [virtNode, 'stop', '--state-dir', node], { stdio: 'ignore' });
  }
  for (const pid of proxiesOf(directory)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }
}

/**
 * HAProxy processes that run below this directory; their only files are there.
 * @param {string} directory
 * @returns {number[]}
 */
export function proxiesOf(directory) {
  const isBelow = (/** @type {string} */ place) => place.startsWith(`${directory}/`);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        if (readFileSync(`/proc/${pid}/comm`, 'utf8') !== 'haproxy\n') return false;
        return [`/proc/${pid}/root`, `/proc/${pid}/cwd`].some((link) => isBelow(readlinkSync(link)));
      } catch {
        return false;
      }
    })
    .map(Number);
}
