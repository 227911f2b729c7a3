import { inspect } from 'node:util';

/**
 * A node:test reporter that counts leaf tests and keeps what failed, for the last lines of scripts/test.mjs:
 * `{ passed, failed, skipped, failures: [{ name, error }] }`. A log may be cut to its end, so that the end must tell what failed.
 */
export default async function* summary(source) {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  const failures = [];
  const path = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      path.length = data.nesting;
      path.push(data.name);
    }
    if (type === 'test:fail' && data.todo === undefined && data.details.error?.failureType !== 'subtestsFailed') {
      const name = [...path.slice(0, data.nesting), data.name].join(' › ');
      failures.push({ name, error: inspect(data.details.error?.cause ?? data.details.error) });
    }
    if (data?.details?.type === 'suite' && data.skip === undefined) continue;
    if (data?.skip !== undefined || data?.todo !== undefined) {
      if (type === 'test:pass') skipped++;
      continue;
    }
    if (type === 'test:pass') passed++;
    if (type === 'test:fail') failed++;
  }
  yield JSON.stringify({ passed, failed, skipped, failures });
}
