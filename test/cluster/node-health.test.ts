import { suite } from 'node:test';
import { realLoopApi } from '../fixtures/agent-bench.ts';
import { nodeHealthCases } from '../fixtures/node-health-cases.ts';

suite('the node of virt-handler on a real kube-apiserver, with upstream’s rights', () => nodeHealthCases(realLoopApi));
