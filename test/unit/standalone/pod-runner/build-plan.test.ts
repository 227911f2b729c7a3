import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { buildPlan } from '../../../../src/standalone/pod-runner/build-plan.ts';

const options = { podLogsDir: '/logs', programs: {}, env: {}, kvm: 'works' } as const;
const podOf = (...names: string[]) =>
  ({ metadata: { name: 'p' }, spec: { containers: names.map((name) => ({ name })) } }) as unknown as Pod;

test('a pod with side containers is refused before anything of it is prepared, with what to use instead', async () => {
  const plan = buildPlan(podOf('compute', 'virtiofs-share'), '/pods/p', '/log', options, {} as never);
  await assert.rejects(plan, {
    code: 'UNSUPPORTED',
    message:
      'the standalone node runs the container compute only, not virtiofs-share: use a disk instead of the file system',
  });
});
