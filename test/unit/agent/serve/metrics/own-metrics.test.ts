import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { AgentFigures } from '../../../../../src/agent/serve/metrics/figures.ts';
import { OwnMetrics } from '../../../../../src/agent/serve/metrics/own-metrics.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { QueueMetrics } from '../../../../../src/serving/index.ts';
import { quietFigures } from '../../../../fixtures/agent-figures.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

function world(more: Partial<AgentFigures>) {
  const reported: unknown[] = [];
  const log = { ...silentLogger, error: (fields: { metric?: string }) => void reported.push(fields.metric) };
  const clock = new FakeClock();
  const figures = quietFigures({
    queue: { counts: { running: 0, queued: 3, waiting: 0, failing: 0 }, unfinished: { totalMs: 0, longestMs: 0 } },
    ...more,
  });
  const registry = new Registry();
  const queues = new QueueMetrics(registry);
  const own = new OwnMetrics(
    { nodeName: 'node1', kubeVersion: 'v1.9.0' },
    { registry, queues, figures, deprecatedMachines: () => [], clock, log: log as typeof silentLogger },
  );
  return { own, clock, reported };
}

test('a metric that cannot be read is left out, and is there again when it can', async () => {
  let isBroken = true;
  const unknownDomains = () => {
    if (isBroken) throw new Error('the cache is not there');
    return 2;
  };
  const { own, reported } = world({ unknownDomains });
  for (const _scrape of [1, 2]) {
    const text = await own.text();
    assert.doesNotMatch(text, /unknown_domains/);
    assert.match(text, /\nkubevirt_virt_handler_ready_status 1\n/);
    assert.match(text, /\nkubevirt_workqueue_depth\{name="virt-handler-vm"\} 3\n/);
    assert.match(text, /\nkubevirt_virt_handler_sampled_vms 0\n/);
  }
  assert.deepEqual(reported, ['kubevirt_virt_handler_unknown_domains'], 'told once');
  isBroken = false;
  assert.match(await own.text(), /\nkubevirt_virt_handler_unknown_domains 2\n/);
});

test('a heartbeat that was never taken grows old from the start on', async () => {
  let lastSuccessMs: number | undefined;
  const { own, clock } = world({ lastSuccesses: () => [{ what: 'heartbeat', lastSuccessMs }] });
  clock.advance(200_000);
  assert.match(await own.text(), /_last_success_age_seconds\{what="heartbeat"\} 200\n/);
  lastSuccessMs = clock.monotonicMs();
  clock.advance(1_500);
  assert.match(await own.text(), /_last_success_age_seconds\{what="heartbeat"\} 1\.5\n/);
});

test('upstream’s gauge tells that the port listens; ours tell whether the agent serves, and why not', async () => {
  let notReady: AgentFigures['notReady'] = () => [{ why: 'AuthoritiesMissing', message: 'none yet' }];
  const { own } = world({ notReady: () => notReady() });
  const without = await own.text();
  assert.match(without, /\nkubevirt_virt_handler_ready_status 1\n/);
  assert.match(without, /\nkubevirt_virt_handler_ready 0\n/);
  assert.match(without, /\nkubevirt_virt_handler_not_ready\{reason="AuthoritiesMissing"\} 1\n/);
  notReady = () => [];
  const ready = await own.text();
  assert.match(ready, /\nkubevirt_virt_handler_ready 1\n/);
  assert.doesNotMatch(ready, /\nkubevirt_virt_handler_not_ready\{/);
});
