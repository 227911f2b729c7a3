import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { AgentUnderTest } from '../../../bench/agent-under-test.ts';
import type { ApiUnderLoad } from '../../../bench/api-under-load.ts';
import { type CuttableLink, cuttableLink } from '../../../bench/cuttable-link.ts';
import { collectingNode, runSoak, type SoakResult } from '../../../bench/soak.ts';
import { checkSoak } from '../../../bench/soak-check.ts';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { writeKubeconfig } from '../../../src/apiserver/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { controllerToken, type EmbeddedApi, startEmbeddedApi, userToken } from '../../fixtures/embedded-api.ts';
import { LauncherFleet } from '../../fixtures/scripted-launcher-fleet.ts';

/** The long one is `npm run bench -- soak`; here it is counts only, for a machine may be busy. */

const needsRoot = process.getuid?.() === 0 ? false : 'launchers with a /run of their own need root';
const handler = { token: userToken, user: 'system:serviceaccount:kubevirt:kubevirt-handler' };
const controller = { token: controllerToken, user: 'system:serviceaccount:kubevirt:kubevirt-controller' };

describe('churn through one agent', { skip: needsRoot }, () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'soak-'));
  const programDir = mkdtempSync(path.resolve('.build/soak-'));
  let api: EmbeddedApi;
  let admin: KubeClient;
  let link: CuttableLink;
  let agent: AgentUnderTest;
  let fleet: LauncherFleet;
  let result: SoakResult;

  before(async () => {
    const program = path.join(programDir, 'virt-handler.mjs');
    [api] = await Promise.all([
      startEmbeddedApi({ tokens: [handler, controller] }),
      bundleProgram('virt-handler', program),
    ]);
    const adminKubeconfig = path.join(dir, 'controller.kubeconfig');
    const server = `https://127.0.0.1:${api.port}`;
    const { ca } = await loadKubeAccess({ kubeconfig: api.kubeconfig });
    await writeKubeconfig(adminKubeconfig, { server, ca: String(ca), user: 'controller', token: controllerToken });
    const access = await loadKubeAccess({ kubeconfig: adminKubeconfig });
    admin = new KubeClient({ userAgent: 'soak', rateLimit: { qps: 1e4, burst: 1e4 } }, { access });
    await api.client.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    link = await cuttableLink(api.kubeconfig, path.join(dir, 'kubeconfig'));
    const place = { dir: path.join(dir, 'node'), nodeName: 'node1', kubeconfig: link.kubeconfig, admin };
    agent = new AgentUnderTest({ name: 'ours', command: `${collectingNode} ${program}` }, place);
    fleet = await LauncherFleet.start(agent.podsDir);
    await agent.start();
    const load: ApiUnderLoad = {
      kind: 'embedded',
      etcdUrl: undefined,
      admin,
      handlerKubeconfig: link.kubeconfig,
      requests: () => undefined,
      requestsByAccount: () => undefined,
      controllerKubeconfig: () => api.kubeconfig,
      installController: () => undefined,
      stop: async () => undefined,
    };
    const options = { nodeName: 'node1', namespace: 'default', cycles: 4, vmsPerCycle: 10, seed: 7, sampleEvery: 1 };
    result = await runSoak({ ...options, say: () => undefined }, { api: load, agent, fleet, link });
  });

  after(async () => {
    await agent?.dispose();
    await fleet?.stop();
    await link?.stop();
    admin?.close();
    await api?.stop();
    for (const directory of [dir, programDir]) rmSync(directory, { recursive: true, force: true });
  });

  test('every VMI gets where it belongs while launchers die and watches are cut', () => {
    assert.deepEqual(result.astray, [], agent.logTail());
  });

  test('nothing is remembered of VMIs that are gone: no key, no timer of one, no ghost record', () => {
    const left = result.samples.map(({ leftovers, ghostRecords }) => ({ leftovers, ghostRecords }));
    assert.deepEqual(
      left,
      result.samples.map(() => ({ leftovers: 0, ghostRecords: 0 })),
    );
  });

  test('open files, sockets and timers do not grow with the VMIs that came and went', () => {
    const { openFilesGrown, resourcesGrown } = checkSoak(result);
    assert.ok(openFilesGrown <= 2, `${openFilesGrown} files more: ${JSON.stringify(result.samples)}`);
    assert.ok(resourcesGrown <= 2, `${resourcesGrown} resources more: ${JSON.stringify(result.samples)}`);
  });
});
