import assert from 'node:assert/strict';
import {
  type AgentPorts,
  type HostHook,
  VmiDispatcher,
  type VmiEvent,
  type VmiStore,
} from '../../../../src/agent/index.ts';
import { ExplainService } from '../../../../src/agent/serve/explain/index.ts';
import { HostWork, type HostWorkFacts } from '../../../../src/agent/vmi/host/index.ts';
import type { ExplainReport, MigrationState, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import type { FakeApi } from '../../../fixtures/agent/fake-api.ts';
import { type FakeLauncher, FakeLaunchers } from '../../../fixtures/agent/fake-launchers.ts';
import { FakeProxies } from '../../../fixtures/agent/fake-migration-proxies.ts';
import { fakeWorld } from '../../../fixtures/agent/fake-world.ts';
import { memoryFiles } from '../../../fixtures/agent/host-hooks.ts';
import { type FakeClock, settle } from '../../../fixtures/fake-clock.ts';

/** One node of two: its own launchers, migrationProxies and agent; API server and clock are the other's, too. */
export interface TwoNodesNode {
  readonly name: string;
  readonly launchers: FakeLaunchers;
  readonly migrationProxies: FakeProxies;
  readonly events: VmiEvent[];
  rules(): string[];
  /** What its agent's "explain" tells of the VMI. */
  explained(): Promise<ExplainReport>;
  /** The agent is killed and started again: its streams break, its launchers go on. */
  restart(): Promise<void>;
}

export interface TwoNodes {
  readonly clock: FakeClock;
  readonly api: FakeApi;
  readonly first: TwoNodesNode;
  readonly second: TwoNodesNode;
  vmi(): VirtualMachineInstance;
  state(): MigrationState;
}

interface TestContext {
  after(fn: () => Promise<void>): void;
}

/** Two real loops on one fake API server, and a VMI that runs on the first node. */
/** `hooks`: of the second node. */
export async function startTwoNodes(
  t: TestContext,
  hooks: readonly HostHook[] = [],
): Promise<TwoNodes & { readonly source: FakeLauncher }> {
  const { api, clock, ports } = fakeWorld();
  const first = await startNode(t, 'node1', ports, api);
  const second = await startNode(t, 'node2', { ...ports, clock }, api, hooks);
  const source = first.launchers.run(key, uid);
  api.apply(vmiOf('Scheduled', { status: { activePods: { 'pod-1': 'node1' } } }));
  await settle();
  const vmi = () => api.stored(key) ?? vmiOf();
  return { clock, api, first, second, source, vmi, state: () => vmi().status?.migrationState ?? {} };
}

/** The migration controller hands the VMI over; a launcher waits on the other node. */
export async function handOff(nodes: TwoNodes, from: TwoNodesNode, to: TwoNodesNode, migrationUid: string) {
  const target = to.launchers.run(key, uid);
  nodes.api.change(key, (vmi) => {
    vmi.metadata.labels = { ...vmi.metadata.labels, 'kubevirt.io/migrationTargetNodeName': to.name };
    vmi.status = {
      ...vmi.status,
      activePods: { 'pod-1': 'node1', 'pod-2': 'node2' },
      migrationState: { migrationUid, sourceNode: from.name, targetNode: to.name, targetPod: `pod-of-${to.name}` },
    };
  });
  await settle();
  return target;
}

async function startNode(
  t: TestContext,
  name: string,
  shared: AgentPorts,
  api: FakeApi,
  hooks: readonly HostHook[] = [],
): Promise<TwoNodesNode> {
  const { clock } = shared;
  const launchers = new FakeLaunchers(clock as FakeClock);
  const migrationProxies = new FakeProxies();
  const events: VmiEvent[] = [];
  const ports: AgentPorts = {
    ...shared,
    vmis: storeOf(api, name),
    events: { record: (_vmi, event) => void events.push(event), flush: async () => undefined },
    domains: launchers,
    ghosts: launchers,
    launchers,
    host: { ...shared.host, nodeName: name },
    hostWork: new HostWork<HostWorkFacts>({ hooks, files: memoryFiles(), clock, log: silentLogger }),
    migrationProxies,
  };
  const options = { concurrency: 8, backoff: { baseMs: 20, maxMs: 60_000 } };
  const create = () => new VmiDispatcher(options, { ports, log: silentLogger });
  let dispatcher = create();
  t.after(() => dispatcher.stop());
  await dispatcher.start();
  return {
    name,
    launchers,
    migrationProxies,
    events,
    rules: () => dispatcher.reconciler.decisions.of(key).map(({ rule }) => rule),
    explained: async () => {
      const state = async () => assert.fail('not asked for');
      const { body } = await new ExplainService(
        { nodeName: name },
        { source: dispatcher.reconciler, state, clock },
      ).answer('GET', `/why/${key}`);
      assert.equal(body.kind, 'Why');
      return body as ExplainReport;
    },
    restart: async () => {
      await dispatcher.stop();
      launchers.restartAgent();
      await migrationProxies.closeSource(uid);
      await migrationProxies.closeTarget(uid);
      dispatcher = create();
      await dispatcher.start();
      await settle();
    },
  };
}

/** The watch of one node: VMIs that carry its name in one of the two labels. */
function storeOf(api: FakeApi, node: string): VmiStore {
  return {
    synced: true,
    get: (vmiKey) => {
      const vmi = api.stored(vmiKey);
      const { 'kubevirt.io/nodeName': owner, 'kubevirt.io/migrationTargetNodeName': target } =
        vmi?.metadata.labels ?? {};
      return owner === node || target === node ? vmi : undefined;
    },
    keys: () => (api.stored(key) ? [key] : []),
    onChange: (listener) => api.onChange(listener),
  };
}
