import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resources } from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import { type AgentProgram, AgentUnderTest } from '../agent-under-test.ts';
import { type ApiUnderLoad, startApi } from '../api-under-load.ts';
import { installForOthers } from '../foreign-crds.ts';
import { forEach } from '../vmis.ts';
import { compare, type ScenarioResult } from './compare.ts';
import { endScenarios } from './end-scenarios.ts';
import { restartScenarios } from './restart-scenarios.ts';
import { runningScenarios } from './running-scenarios.ts';
import type { Scenario } from './scenario.ts';
import { Stage, type StageDeps } from './stage.ts';
import { startScenarios } from './start-scenarios.ts';
import type { Look } from './view.ts';

export interface ParityOptions {
  /** Ours first. */
  readonly programs: readonly [AgentProgram, AgentProgram];
  /** Only scenarios whose name contains one of these; all when empty. */
  readonly only: readonly string[];
  readonly parallel: number;
  readonly logsDir: string | undefined;
  readonly say: (text: string) => void;
}

const nodeName = 'bench';
/** Another bench may be at work. */
const firstPort = 28285;
const type = resources.virtualMachineInstances;

/** Plays all scenarios to one agent after the other, on one API server, and compares what could be seen. */
export async function parityBench(options: ParityOptions): Promise<readonly ScenarioResult[]> {
  const dir = mkdtempSync(path.join(tmpdir(), 'parity-'));
  const api = await startApi('cluster', dir, nodeName);
  try {
    await installForOthers(api);
    await api.admin.create(resources.kubevirts, kubevirt);
    const played: Map<string, readonly Look[]>[] = [];
    for (const program of options.programs) played.push(await playTo(program, api, dir, options));
    const [ours, other] = played;
    return [...(ours?.keys() ?? [])].map((name) => compare(name, ours?.get(name) ?? [], other?.get(name) ?? []));
  } finally {
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

const kubevirt = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'KubeVirt',
  metadata: { name: 'kubevirt', namespace: 'kubevirt' },
  spec: {
    configuration: {
      developerConfiguration: { featureGates: ['HostDisk', 'PersistentReservation'] },
      smbios: { manufacturer: 'Parity', product: 'None', family: 'KubeVirt', version: '1', sku: 'sku' },
      memBalloonStatsPeriod: 7,
      permittedHostDevices: {
        pciHostDevices: [
          { pciVendorSelector: '10DE:1EB8', resourceName: 'vendor.com/nic', externalResourceProvider: true },
        ],
      },
    },
  },
  status: { phase: 'Deployed' },
};

async function playTo(
  program: AgentProgram,
  api: ApiUnderLoad,
  baseDir: string,
  options: ParityOptions,
): Promise<Map<string, readonly Look[]>> {
  const namespace = `parity-${program.name}`;
  await api.admin.create(resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const dir = path.join(baseDir, program.name);
  const agent = new AgentUnderTest(program, {
    dir,
    nodeName,
    kubeconfig: api.handlerKubeconfig,
    admin: api.admin,
    firstPort,
  });
  const workDir = path.join(dir, 'w');
  mkdirSync(workDir);
  const looks = new Map<string, readonly Look[]>();
  const wanted = (all: readonly Scenario[]) =>
    all.filter(({ name }) => options.only.length === 0 || options.only.some((part) => name.includes(part)));
  const play = async ({ name, play: act }: Scenario, restartAgent: StageDeps['restartAgent']) => {
    const places = { podsDir: agent.podsDir, privateDir: agent.privateDir, workDir };
    const stage = new Stage({ scenario: name, namespace, nodeName, ...places }, { admin: api.admin, restartAgent });
    await act(stage).catch((error: unknown) => options.say(`${program.name} ${name}: ${error}`));
    looks.set(name, stage.looks);
    await stage.end();
  };
  try {
    await agent.start();
    const noRestart = () => Promise.reject(new Error('no scenario that restarts the agent'));
    await forEach(wanted([...startScenarios, ...runningScenarios, ...endScenarios]), options.parallel, (each) =>
      play(each, noRestart),
    );
    const together = wanted(restartScenarios);
    const restart = meeting<() => Promise<void>>(together.length, async (whileDown) => {
      await agent.stop();
      await Promise.all(whileDown.map((act) => act()));
      await agent.start();
    });
    await Promise.all(together.map((each) => play(each, restart)));
    await agent.stop();
  } catch (error) {
    options.say(agent.logTail());
    throw error;
  } finally {
    if (options.logsDir) {
      agent.saveLog(path.join(options.logsDir, `${namespace}.log`));
      writeFileSync(path.join(options.logsDir, `${namespace}.json`), JSON.stringify([...looks], null, 1));
    }
    await cleanUp(api, namespace);
    await agent.dispose();
  }
  options.say(`${program.name}: ${looks.size} scenarios played`);
  return looks;
}

/** Of `count` that come each brings something; when the last one is there, `act` gets it all, and all go on. */
function meeting<T>(count: number, act: (brought: readonly T[]) => Promise<void>): (bring: T) => Promise<void> {
  const brought: T[] = [];
  let done: () => void = () => undefined;
  let fail: (error: unknown) => void = () => undefined;
  const met = new Promise<void>((resolve, reject) => {
    [done, fail] = [resolve, reject];
  });
  return (bring) => {
    brought.push(bring);
    if (brought.length === count) act(brought).then(done, fail);
    return met;
  };
}

async function cleanUp({ admin }: ApiUnderLoad, namespace: string): Promise<void> {
  const { items } = await admin.list(type, { namespace });
  for (const { metadata } of items) {
    const ref = { namespace, name: metadata.name ?? '' };
    await admin.patch(type, ref, { metadata: { finalizers: null } }, 'merge').catch(() => undefined);
    await admin.delete(type, ref).catch(() => undefined);
  }
  await sleep(500);
}
