import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Metric } from 'prom-client';
import { controllerFlags } from '../../../src/controller/flags.ts';
import {
  addObjectMetrics,
  addSnapshotMetrics,
  addStatusMetrics,
  ControllerMeters,
} from '../../../src/controller/metrics/index.ts';
import { addProcessMetrics } from '../../../src/serving/index.ts';
import { rows } from './guide-tables.ts';

/** The guide's tables of virt-controller's flags and metrics against the program's own. */

const { registry } = new ControllerMeters();
// What is read at a scrape is not asked for here.
addStatusMetrics(registry, {} as never);
addObjectMetrics(registry, {} as never);
addSnapshotMetrics(registry, {} as never);
addProcessMetrics(registry, 'virt_controller');

test('the guide has a row for each metric of virt-controller with its type and labels, and no others', () => {
  const metrics = registry.getMetricsAsArray() as unknown as (Metric & { name: string; labelNames: string[] })[];
  const reported = metrics.map((metric) => {
    const { name, labelNames } = metric;
    return `${name} ${metric.constructor.name.toLowerCase()} ${labelNames.join(', ') || '–'}`;
  });
  const documented = rows('controller.md', 'Metric').map(([name, type, labels]) => `${name} ${type} ${labels}`);
  assert.deepEqual(documented.sort(), reported.sort());
});

test('the guide has a row for each flag of virt-controller with its default, and no others', () => {
  const reported = Object.entries(controllerFlags).map(([name, { kind, fallback }]) => {
    const shown = kind === 'duration' ? `${Number(fallback) / 1000}s` : String(fallback) || '–';
    return `${name === 'v' ? '-v' : `--${name}`} ${shown}`;
  });
  const documented = rows('controller.md', 'Flag').map(([flag, fallback]) => `${flag} ${fallback}`);
  assert.deepEqual(documented.sort(), reported.sort());
});
