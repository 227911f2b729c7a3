import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { Meters } from '../../../src/agent/serve/metrics/index.ts';
import { OwnMetrics } from '../../../src/agent/serve/metrics/own-metrics.ts';
import * as vmFamilies from '../../../src/agent/serve/metrics/vm-families.ts';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { head, Scrapes } from '../../../src/serving/index.ts';
import { quietFigures } from '../../fixtures/agent-figures.ts';
import { rows } from './guide-tables.ts';

/** The guide's tables of metrics against an answer to a scrape: names, types, and labels of the agent's own. */

const meters = new Meters();
const own = new OwnMetrics(
  { nodeName: 'node1', kubeVersion: 'v1.9.0' },
  {
    registry: meters.registry,
    queues: meters.queues,
    figures: quietFigures(),
    deprecatedMachines: () => ['pc-old'],
    clock: systemClock,
    log: silentLogger,
  },
);
const vmHeads = () => [
  ...vmFamilies.sampledFamilies,
  vmFamilies.syncFamily,
  vmFamilies.panicFamily,
  vmFamilies.sampleAgeFamily,
  vmFamilies.sampleErrorsFamily,
];
const scrapes = new Scrapes(
  { maxRequests: 1, timeoutMs: 10_000, giveWayMs: 5_000 },
  {
    want: async () => undefined,
    own: () => own.text(),
    vms: () => vmHeads().map((family) => Buffer.from(head(family))),
    clock: systemClock,
    log: silentLogger,
  },
);
const server = createServer((request, response) => void scrapes.answer(request, response));
let text = '';

before(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
});
after(() => server.close());

const table = rows('metrics.md', 'Metric');

test('the guide has a row for each metric that a scrape tells, with its type, and no others', () => {
  const reported = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  assert.ok(reported.length > 80, `${reported.length} families`);
  assert.deepEqual(table.map(([name, type]) => `${name} ${type}`).sort(), reported.sort());
});

test('each metric of the agent itself has its labels in its row', async () => {
  const documented = new Map(table.map(([name = '', , labels = '']) => [name, labels === '–' ? '' : labels]));
  const own = (await meters.registry.getMetricsAsArray()).map((metric) => {
    const { labelNames = [] } = metric as unknown as { labelNames?: string[] };
    return [metric.name, labelNames.join(', ')] as const;
  });
  assert.deepEqual(
    own.filter(([name, labels]) => documented.get(name) !== labels),
    [],
  );
});
