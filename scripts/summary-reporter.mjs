// A node:test reporter that counts leaf tests, for the last line of scripts/test.mjs.
export default async function* summary(source) {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of source) {
    if (data?.details?.type === 'suite') continue;
    if (data?.skip !== undefined || data?.todo !== undefined) continue;
    if (type === 'test:pass') passed++;
    if (type === 'test:fail') failed++;
  }
  yield JSON.stringify({ passed, failed });
}
