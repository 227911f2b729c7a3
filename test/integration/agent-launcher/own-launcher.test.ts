import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { LauncherCalls, SyncOptions } from '../../../src/agent/index.ts';
import { launcherPort } from '../../../src/agent/vmi/adapters/index.ts';
import { migrationOptionsOf } from '../../../src/agent/vmi/decide/index.ts';
import { errorCode, errorMessage, silentLogger, systemClock } from '../../../src/base/index.ts';
import { CommandServer } from '../../../src/launcher/cmd-server/server.ts';
import { podPaths } from '../../../src/launcher/daemon/pod-paths.ts';
import { parseLauncherFlags } from '../../../src/launcher/flags.ts';
import { LauncherParts } from '../../../src/launcher/launcher-parts.ts';
import { LauncherLife } from '../../../src/launcher/lifecycle/index.ts';
import { LauncherClients } from '../../../src/launcher-client/index.ts';
import { clusterConfig, vmiOf } from '../../fixtures/agent/builders.ts';
import { launcherArgs, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../fixtures/memory-hypervisor.ts';
import { socketFileOf } from '../../fixtures/scripted-launcher.ts';

const { signal } = new AbortController();
const metadata = { name: 'small', namespace: 'default', uid: launcherVmiUid };
const vmi = vmiOf('Running', { metadata, status: { migrationState: { migrationUid: 'm1', targetPod: 'pod-2' } } });
const options: SyncOptions = {
  memBalloonStatsPeriodSeconds: 10,
  preallocatedVolumes: [],
  clusterFlags: clusterConfig.clusterFlags,
  interfaceDomainAttachment: {},
  interfaceMigration: {},
  graceHostDeviceAliases: [],
};

let dir: string;
let server: CommandServer;
let parts: LauncherParts;
let clients: LauncherClients;
let calls: LauncherCalls;
const reportedPods: string[] = [];

before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'own-'));
  const parsed = parseLauncherFlags([...launcherArgs, '--run-as-nonroot']);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const paths = podPaths(flags, 'default_small', path.join(dir, 'pod'));
  const hypervisor = new MemoryHypervisor();
  parts = new LauncherParts(
    { flags, identity: metadata, paths, cpuSet: [0, 1] },
    {
      hypervisor,
      network: undefined,
      prepare: async () => '<domain><name>default_small</name></domain>',
      life: new LauncherLife({ log: silentLogger }),
      findSriovDevices: async () => ({}),
      findMedia: async () => new Map(),

      tracking: { imageOf: async () => undefined, forget: async () => undefined },
      signalProcess: () => undefined,
      onTargetPodCleanup: (pod) => void reportedPods.push(pod),
      log: silentLogger,
      clock: systemClock,
    },
  );
  const socket = socketFileOf(path.join(dir, 'pods'), 'pod-1');
  const initSocket = path.join(path.dirname(socket), 'launcher-init-sock');
  server = new CommandServer({ initSocket, socket, checkTimeoutMs: 5000 }, parts.service);
  await server.start();
  parts.start();
  await server.markReady();
  const podsDir = path.join(dir, 'pods');
  clients = new LauncherClients({ podsDir, nodeName: 'node1' });
  const target = { key: 'default/small', uid: launcherVmiUid, activePods: { 'pod-1': 'node1' } };
  calls = await launcherPort(clients).connect(target, signal);
});
after(async () => {
  await clients.stop();
  await parts.stop();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const refused: readonly (readonly [what: string, send: () => Promise<void>])[] = [
  ['Migrate', () => calls.migrateVirtualMachine(vmi, migrationOptionsOf(vmi, clusterConfig.migrations), signal)],
  ['FinalizeVirtualMachineMigration', () => calls.finalizeVirtualMachineMigration(vmi, {}, signal)],
];

for (const [what, send] of refused) {
  test(`our launcher without a domain refuses ${what} in words, which the agent tells from a launcher in trouble`, async () => {
    await assert.rejects(send, (error) => {
      assert.equal(errorCode(error), 'REFUSED');
      assert.equal(errorMessage(error), `server error. command ${what} failed: "Domain not found."`);
      return true;
    });
  });
}

test('our launcher makes ready for a guest as often as it is asked to, and has nothing to cancel then', async () => {
  await calls.syncMigrationTarget(vmi, options, signal);
  await calls.syncMigrationTarget(vmi, options, signal);
  await calls.cancelVirtualMachineMigration(vmi, signal);
});

test('our launcher takes the word that its pod was the target of a failed migration', async () => {
  await calls.signalTargetPodCleanup(vmi, signal);
  assert.deepEqual(reportedPods, ['pod-2']);
});
