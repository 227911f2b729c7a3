import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resources, type VirtualMachineInstance } from '../src/api/index.ts';
import { ensureKubevirtCertificates } from '../src/certificates/index.ts';
import { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import { installForOthers } from './foreign-crds.ts';
import type { WebsocketPlace } from './raw-websocket.ts';
import { createVmis, newVmi, podUidOf, schedule } from './vmis.ts';
import { ended, waitFor } from './waiting.ts';

const nodeName = 'bench';
const namespace = 'default';
const installNamespace = 'kubevirt';

export interface ConsoleStageOptions {
  readonly program: AgentProgram;
  readonly api: ApiKind | undefined;
  readonly vms: number;
  readonly logFile: string | undefined;
}

/** An agent that serves the consoles of VMIs that run, and a client that it trusts. */
export interface ConsoleStage {
  readonly agent: AgentUnderTest;
  readonly place: WebsocketPlace;
  /** Path of a VMI's console, `index` from 0. */
  consolePath(index: number): string;
}

/** Everything is gone when `act` has ended. */
export async function onConsoleStage<T>(
  options: ConsoleStageOptions,
  act: (stage: ConsoleStage) => Promise<T>,
): Promise<T> {
  // Short: socket paths end at 107 bytes.
  const dir = mkdtempSync(path.join(tmpdir(), 'c-'));
  const undo: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })];
  try {
    const api = await startApi(options.api, dir, nodeName);
    undo.push(() => api.stop());
    if (options.program.name !== 'ours') await installForOthers(api);
    const certificates = await ensureKubevirtCertificates(path.join(dir, 'ca'));
    await publishAuthority(api, certificates.caBundle);
    const agent = new AgentUnderTest(options.program, {
      dir: path.join(dir, 'node'),
      nodeName,
      kubeconfig: api.handlerKubeconfig,
      admin: api.admin,
      server: certificates.server,
    });
    undo.push(() => agent.dispose());
    if (options.logFile) undo.push(() => agent.saveLog(options.logFile ?? ''));
    const fleet = await LauncherFleet.start(agent.podsDir);
    undo.push(() => fleet.stop());
    await agent.start();
    const sockets = await runVmis(api, fleet, options.vms);
    const guests = await startGuests(sockets);
    undo.push(() => {
      guests.stdin?.end();
      return ended(guests);
    });
    const tls = {
      ca: certificates.caBundle,
      cert: readFileSync(certificates.client.certFile),
      key: readFileSync(certificates.client.keyFile),
      checkServerIdentity: () => undefined,
    };
    const result = await act({
      agent,
      place: { host: '127.0.0.1', port: agent.consolePort, tls },
      consolePath: (index) => `/v1/namespaces/${namespace}/virtualmachineinstances/${nameOf(index)}/console`,
    });
    await agent.stop();
    return result;
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

const nameOf = (index: number) => `vm-${index}`;

async function publishAuthority({ admin }: ApiUnderLoad, caBundle: string): Promise<void> {
  const metadata = { name: 'kubevirt-ca', namespace: installNamespace };
  const there = await admin.list(resources.namespaces);
  if (!there.items.some((found) => found.metadata.name === installNamespace))
    await admin.create(resources.namespaces, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: installNamespace },
    });
  await admin.create(resources.configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata,
    data: { 'ca-bundle': caBundle },
  } as never);
}

/** Gives the path of each VMI's serial socket, as this process reaches it. */
async function runVmis({ admin }: ApiUnderLoad, fleet: LauncherFleet, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => nameOf(index));
  await fleet.add(names.map((name) => ({ podUid: podUidOf(name) })));
  await createVmis(
    admin,
    names.map((name) => newVmi(namespace, name)),
  );
  for (const name of names) await schedule(admin, namespace, name, nodeName);
  const running = await waitFor(`${count} running VMIs`, 120_000, async () => {
    const { items } = await admin.list<VirtualMachineInstance>(resources.virtualMachineInstances);
    const found = items.filter(({ status }) => status?.phase === 'Running');
    return found.length === count ? found : undefined;
  });
  const pids = new Map((await fleet.report()).map(({ podUid, pid }) => [podUid, pid]));
  return running.map(({ metadata }) => {
    const privateDir = `/proc/${pids.get(podUidOf(metadata.name ?? ''))}/root/run/kubevirt-private/${metadata.uid}`;
    mkdirSync(privateDir, { recursive: true });
    return `${privateDir}/virt-serial0`;
  });
}

async function startGuests(sockets: readonly string[]): Promise<ChildProcess> {
  const guests = spawn('perl', [path.resolve('bench/console-guest.pl'), ...sockets], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await Promise.race([
    once(guests.stdout, 'data'),
    once(guests, 'exit').then(([code]) => {
      throw new Error(`the guests ended with ${code}`);
    }),
  ]);
  return guests;
}
