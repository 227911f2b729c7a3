import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LauncherCalls } from '../../../../../src/agent/index.ts';
import { hotPlug } from '../../../../../src/agent/vmi/execute/migration-hot-plug.ts';
import { observationOf, vmiOf } from '../../../../fixtures/agent/builders.ts';

interface Given {
  readonly conditions?: readonly string[];
  readonly labels?: Record<string, string>;
  readonly domain?: object;
  readonly overhead?: string;
}

async function plug({ conditions = ['HotVCPUChange', 'HotMemoryChange'], labels = {}, domain = {}, overhead }: Given) {
  const vmi = vmiOf('Running');
  vmi.metadata.labels = { ...vmi.metadata.labels, ...labels };
  vmi.spec.domain = { ...vmi.spec.domain, ...domain };
  const list = conditions.map((type) => ({ type, status: 'True' as const }));
  vmi.status = { ...vmi.status, conditions: list, ...(overhead && { memory: { memoryOverhead: overhead } }) };
  const asked: string[] = [];
  const calls = {
    syncVirtualMachineCpus: async () => void asked.push('cpus'),
    syncVirtualMachineMemory: async () => void asked.push('memory'),
  } as unknown as LauncherCalls;
  const { events, ...result } = await hotPlug(vmi, calls, observationOf().syncOptions, AbortSignal.timeout(1_000));
  return { asked, ...result, texts: events.map(({ message }) => message) };
}

const memoryLabel = 'kubevirt.io/vmi-pod-memory-resource-requests';
const cpuLabel = 'kubevirt.io/vmi-pod-cpu-resource-limits';
const dedicated = { cpu: { sockets: 4, cores: 1, threads: 1, dedicatedCpuPlacement: true } };

test('without a condition that waits for it nothing is plugged in', async () => {
  assert.deepEqual(await plug({ conditions: [] }), { asked: [], texts: [] });
});

test('memory is plugged in when guest and overhead fit into the pod', async () => {
  const fits = { labels: { [memoryLabel]: '2300Mi' }, domain: { memory: { guest: '2Gi' } }, overhead: '252Mi' };
  const { asked, memory } = await plug({ ...fits, conditions: ['HotMemoryChange'] });
  assert.deepEqual([asked, memory], [['memory'], 'done']);
  const tight = await plug({ ...fits, conditions: ['HotMemoryChange'], overhead: '253Mi' });
  assert.deepEqual([tight.asked, tight.memory], [[], 'refused']);
});

test('a label that is missing or no quantity refuses memory in words', async () => {
  for (const labels of [{}, { [memoryLabel]: 'plenty' }]) {
    const { asked, memory, texts } = await plug({
      conditions: ['HotMemoryChange'],
      labels,
      domain: { memory: { guest: '2Gi' } },
    });
    assert.deepEqual([asked, memory], [[], 'refused']);
    assert.match(texts[0] ?? '', /failed to update guest memory: label .* is missing or no quantity/);
  }
});

test('shared CPUs are plugged in whatever the pod’s limit, dedicated ones only within it', async () => {
  const conditions = ['HotVCPUChange'];
  assert.equal((await plug({ conditions, domain: { cpu: { sockets: 64 } } })).cpus, 'done');
  assert.equal((await plug({ conditions, domain: dedicated, labels: { [cpuLabel]: '4' } })).cpus, 'done');
  const tooMany = await plug({ conditions, domain: dedicated, labels: { [cpuLabel]: '3' } });
  assert.equal(tooMany.cpus, 'refused');
  assert.match(tooMany.texts[0] ?? '', /4 dedicated CPUs are wanted and the pod has 3/);
});
