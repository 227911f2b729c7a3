import { suite } from 'node:test';
import { realLoopApi } from '../fixtures/agent-bench.ts';
import { migrationCases } from '../fixtures/migration-cases.ts';
import { useUpstreamSchema, vmiSchema } from '../fixtures/upstream-schema.ts';

/** Under upstream's own schema where it can be had. */
async function realApi() {
  const api = await realLoopApi();
  if (vmiSchema() !== undefined) await useUpstreamSchema(api.admin);
  return api;
}

suite('a live migration on a real kube-apiserver', () => migrationCases(realApi));
