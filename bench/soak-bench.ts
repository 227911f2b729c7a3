import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import { type CuttableLink, cuttableLink } from './cuttable-link.ts';
import { collectingNode, runSoak, type SoakOptions, type SoakParts, type SoakResult } from './soak.ts';

const nodeName = 'bench';

export interface StageOptions {
  readonly api: ApiKind | undefined;
  /** Bundle of our virt-handler. */
  readonly program: string;
  readonly logFile: string | undefined;
}

/** Our agent, its launchers, and an API server behind a link that can be cut. */
export async function withParts<T>(options: StageOptions, act: (parts: SoakParts) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(path.join(tmpdir(), 'soak-'));
  let api: ApiUnderLoad | undefined;
  let link: CuttableLink | undefined;
  let agent: AgentUnderTest | undefined;
  let fleet: LauncherFleet | undefined;
  try {
    api = await startApi(options.api, dir, nodeName);
    link = await cuttableLink(api.handlerKubeconfig, path.join(dir, 'kubeconfig'));
    const program = { name: 'ours', command: `${collectingNode} ${options.program}` };
    agent = new AgentUnderTest(program, {
      dir: path.join(dir, 'node'),
      nodeName,
      kubeconfig: link.kubeconfig,
      admin: api.admin,
    });
    fleet = await LauncherFleet.start(agent.podsDir);
    await agent.start();
    return await act({ api, agent, fleet, link });
  } finally {
    if (agent && options.logFile) agent.saveLog(options.logFile);
    await agent?.dispose();
    await fleet?.stop();
    await link?.stop();
    await api?.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

export async function soakBench(
  stage: StageOptions,
  options: Omit<SoakOptions, 'nodeName' | 'namespace'>,
): Promise<SoakResult> {
  return withParts(stage, (parts) => runSoak({ ...options, nodeName, namespace: 'default' }, parts));
}
