import { suite } from 'node:test';
import { embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { nodeHealthCases } from '../../fixtures/node-health-cases.ts';

suite('the node of virt-handler on the embedded API', () => nodeHealthCases(embeddedLoopApi));
