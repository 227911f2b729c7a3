import type { Registry } from 'prom-client';
import { errorMessage, type Logger } from '../base/index.ts';

/**
 * Reads the text of all metrics of a registry; each family once. One that cannot be read is left out, and costs the others nothing;
 * the first time it is an error in the log. What is returned never rejects.
 */
export function registryText(registry: Registry, log: Logger): () => Promise<string> {
  /** Families that could not be read when they were last asked for. */
  const broken = new Set<string>();
  const textOf = async (name: string) => {
    try {
      const text = await registry.getSingleMetricAsString(name);
      broken.delete(name);
      return `${text}\n`;
    } catch (error) {
      const level = broken.has(name) ? 'debug' : 'error';
      broken.add(name);
      log[level]({ metric: name, reason: errorMessage(error) }, 'a metric is left out');
      return '';
    }
  };
  return async () => (await Promise.all(registry.getMetricsAsArray().map(({ name }) => textOf(name)))).join('');
}
