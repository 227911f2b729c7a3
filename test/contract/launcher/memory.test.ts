import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { CommandServer } from '../../../src/launcher/cmd-server/server.ts';
import { podPaths } from '../../../src/launcher/daemon/index.ts';
import { parseLauncherFlags } from '../../../src/launcher/flags.ts';
import { LauncherParts } from '../../../src/launcher/launcher-parts.ts';
import { LauncherLife } from '../../../src/launcher/lifecycle/index.ts';
import { CmdCaller } from '../../fixtures/cmd-caller.ts';
import { launcherArgs, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../fixtures/memory-hypervisor.ts';
import { startNotifyAgent } from '../../fixtures/notify-agent.ts';
import { launcherCases, ownEndCases } from './cases.ts';
import type { LauncherSubject } from './subject.ts';

const os = "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>";
const xml = `<domain type='qemu'><name>default_small</name>${os}<vcpu>1</vcpu><devices></devices></domain>`;

/** src/launcher, all of it above libvirt. Its end, which `Launcher` brings about with the daemon, is played here. */
async function start(): Promise<LauncherSubject> {
  const dir = mkdtempSync(path.join(tmpdir(), 'cl-'));
  const parsed = parseLauncherFlags([...launcherArgs, '--run-as-nonroot']);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const paths = podPaths(flags, 'default_small', dir);
  await mkdir(path.dirname(paths.notifyPipe), { recursive: true });
  const agent = await startNotifyAgent(paths.notifyPipe);
  const hypervisor = new MemoryHypervisor();
  const parts = new LauncherParts(
    { flags, identity: { namespace: 'default', name: 'small', uid: launcherVmiUid }, paths, cpuSet: [0, 1] },
    {
      hypervisor,
      network: undefined,
      prepare: async () => xml,
      life: new LauncherLife({ log: silentLogger }),
      findSriovDevices: async () => ({}),
      findMedia: async () => new Map(),

      tracking: { imageOf: async () => undefined, forget: async () => undefined },
      signalProcess: () => undefined,
      onTargetPodCleanup: () => undefined,
      log: silentLogger,
      clock: systemClock,
    },
  );
  hypervisor.onEvent((event) => parts.handleEvent(event));
  const { initSocket, commandSocket } = paths;
  const server = new CommandServer({ initSocket, socket: commandSocket, checkTimeoutMs: 5_000 }, parts.service);
  await server.start();
  parts.start();
  await server.markReady();
  const stop = async () => {
    await parts.stop();
    await server.stop();
  };
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = () => resolve(stop());
  });
  parts.notifier.onDelivered(({ ObjectMeta }) => {
    // The notifier waits for itself otherwise.
    if (ObjectMeta.deletionTimestamp) setImmediate(end);
  });
  const cmd = new CmdCaller(commandSocket);
  return {
    cmd,
    commandSocket,
    agent,
    ended,
    powerOff: () => hypervisor.end('default_small', 1),
    close: async () => {
      cmd.close();
      end();
      await ended;
      await agent.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

launcherCases('src/launcher without libvirt', start);
ownEndCases('src/launcher without libvirt', start);
