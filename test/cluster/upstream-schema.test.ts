import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { findCondition } from '../../src/api/index.ts';
import { AgentBench, type LoopApi, realLoopApi } from '../fixtures/agent-bench.ts';
import { eventually } from '../fixtures/eventually.ts';
import { useUpstreamSchema, vmiSchema } from '../fixtures/upstream-schema.ts';

/**
 * Upstream's CRDs have whole schemas: what they do not know is pruned without a word, what they do not like is refused. A field
 * that is pruned would be written again at every pass.
 */

const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const put = { kind: 'put', resource: 'virtualmachineinstances' } as const;
const skip = vmiSchema() === undefined ? "upstream's schemas come with `go`, once" : false;

suite("under upstream's schema of VMIs", { skip }, () => {
  let api: LoopApi;
  let bench: AgentBench;

  before(async () => {
    api = await realLoopApi();
    await useUpstreamSchema(api.admin);
    bench = await AgentBench.start(api, { proxied: true });
  });
  after(async () => {
    await bench?.dispose();
    await api?.stop();
  });

  /** What is left of a status after a write; the object's own name is made free again. */
  async function stored(status: unknown): Promise<unknown> {
    const metadata = { name: 'mirror' };
    const spec = { domain: { devices: {} } };
    const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata, spec, status };
    const created = await api.admin.post(vmis, vmi);
    assert.equal(created.status, 201, created.text);
    await api.admin.delete(`${vmis}/mirror`);
    return created.body.status;
  }

  test('every field of the whole status that the agent writes is kept as it was written', async () => {
    const golden = path.join(process.cwd(), 'test/unit/agent/vmi/status/whole-object.golden.json');
    const { vmi } = JSON.parse(readFileSync(golden, 'utf8'));
    const { futureStatus: _unknown, ...status } = vmi.status;
    assert.deepEqual(await stored(status), status);
  });

  test('every field of a migration that the agents write is kept as it was written', async () => {
    const status = {
      phase: 'Running',
      migrationTransport: 'Unix',
      evacuationNodeName: 'node1',
      launcherContainerImageVersion: 'registry/launcher:1',
      migratedVolumes: [{ volumeName: 'v', destinationPVCInfo: { claimName: 'c', volumeMode: 'Block' } }],
      currentCPUTopology: { cores: 2, sockets: 1, threads: 1 },
      memory: { guestAtBoot: '1Gi', guestCurrent: '1Gi', guestRequested: '2Gi', memoryOverhead: '200Mi' },
      migrationState: {
        migrationUid: 'm',
        sourceNode: 'node1',
        targetNode: 'node2',
        sourcePod: 'a',
        targetPod: 'b',
        targetNodeAddress: '10.0.0.2',
        targetDirectMigrationNodePorts: { 40000: 0, 40001: 49152, 40002: 49153 },
        targetNodeDomainDetected: true,
        targetNodeDomainReadyTimestamp: '2026-01-02T03:04:05Z',
        targetCPUSet: [1, 2],
        targetNodeTopology: '{}',
        targetMemoryOverhead: '200Mi',
        startTimestamp: '2026-01-02T03:04:05Z',
        endTimestamp: '2026-01-02T03:04:06Z',
        completed: true,
        failed: true,
        failureReason: 'words',
        abortRequested: true,
        abortStatus: 'Succeeded',
        mode: 'PreCopy',
        targetState: {
          domainDetected: true,
          domainReadyTimestamp: '2026-01-02T03:04:05Z',
          nodeAddress: '10.0.0.2',
          directMigrationNodePorts: { 40000: 0 },
        },
      },
      conditions: ['HotVCPUChange', 'HotMemoryChange', 'VolumesChange', 'MigrationRequired'].map((type) => ({
        type,
        status: 'False',
        reason: 'Because',
        message: 'words',
        lastProbeTime: null,
        lastTransitionTime: null,
      })),
    };
    assert.deepEqual(await stored(status), status);
  });

  test('a life of a VMI costs as few writes as without a schema, and a pass without news writes nothing', async () => {
    const { launcher } = await bench.play('life');
    const isPaused = async () => findCondition((await bench.read('life')).status?.conditions, 'Paused') !== undefined;
    const writes = () => bench.proxy.requests.filter(({ kind, name }) => kind === put.kind && name === 'life').length;
    const afterStart = writes();
    assert.ok(afterStart <= 2, `${afterStart} writes of a start`);
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused(), true));
    await launcher.act({ guest: 'resume' });
    await eventually(async () => assert.equal(await isPaused(), false));
    const syncs = async () => (await launcher.calls()).filter((rpc) => rpc === 'syncVirtualMachine').length;
    const [before, synced] = [writes(), await syncs()];
    assert.ok(before - afterStart <= 3, `${before - afterStart} writes of pause and resume`);
    // A changed annotation is news for the launcher, and none for the status.
    await bench.patch('life', { metadata: { annotations: { poke: 'it' } } });
    await eventually(async () => assert.ok((await syncs()) > synced));
    await bench.play('after-life');
    assert.equal(writes(), before);
    await launcher.act({ guest: 'shutdown' });
    await bench.untilPhase('life', 'Succeeded');
  });
});
