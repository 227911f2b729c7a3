import { suite } from 'node:test';
import { embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { apiFaultCases } from '../../fixtures/api-fault-cases.ts';

suite('an API server that fails', () => apiFaultCases(embeddedLoopApi));
