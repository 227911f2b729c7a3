// How files of tests share this machine.
import { spawnSync } from 'node:child_process';

/** What runs a command on a machine of its own: network, processes, mounts, /run. */
export const machineOfOwn = ['scripts/test-machine.sh'];

/** Undefined where a file of tests can have a machine of its own. */
export function whyNoMachineOfOwn() {
  const [command, ...args] = [...machineOfOwn, 'true'];
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status === 0) return undefined;
  return error?.message ?? (stderr.trim() || `${command} ended with ${status}`);
}

/** Files that nothing may run beside, each with its reason. They come last in their suite. */
const alone = new Map([
  ['test/system/node/life.test.ts', 'it says within how many seconds a guest runs'],
  ['test/security/api-tokens.test.ts', 'it says how long an honest client waits beside an attack'],
  ['test/security/host-disk-race.test.ts', 'the two that race need a processor each'],
]);

export function isAlone(file) {
  return alone.has(file);
}

/** Files that take longest, which are begun first: one that is begun last keeps a run waiting, with nothing beside it. `npm test` tells the slowest at its end. */
const longest = [
  'test/fuzz/node-files.test.ts',
  'test/integration/agent/node-health.test.ts',
  'test/integration/migration-proxy/frozen.test.ts',
  'test/integration/consoles/open-close.test.ts',
  'test/integration/migration/hand-over.test.ts',
  'test/integration/faults/api.test.ts',
  'test/integration/controller/migration.test.ts',
  'test/integration/soak/soak.test.ts',
  'test/integration/migration-proxy/relay.test.ts',
  'test/system/node/backup-pull.test.ts',
  'test/system/node/storage.test.ts',
  'test/system/node/two-nodes.test.ts',
  'test/system/node/full-disk.test.ts',
  'test/system/migration/post-copy.test.ts',
  'test/system/migration/bad-input.test.ts',
  'test/system/node/kill.test.ts',
  'test/system/node/faults.test.ts',
  'test/system/node/ssh.test.ts',
  'test/system/migration/relay.test.ts',
  'test/security/hung-program.test.ts',
  'test/security/network.test.ts',
  'test/browser/streams.test.ts',
  'test/browser/machines.test.ts',
  'test/cluster/node-health.test.ts',
  'test/cluster/controller.test.ts',
  'test/cluster/agent.test.ts',
  'test/cluster/controller-program.test.ts',
  'test/cluster/migration.test.ts',
];

/** The longest first, the others as they are. */
export function longestFirst(files) {
  return [...longest.filter((file) => files.includes(file)), ...files.filter((file) => !longest.includes(file))];
}

/** All that have a word here, which must be there. */
export const namedFiles = [...longest, ...alone.keys()];
