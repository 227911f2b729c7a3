import { suite } from 'node:test';
import { embeddedLoopApi } from '../../../fixtures/agent-bench.ts';
import { nodeLabelCases } from '../../../fixtures/node-label-cases.ts';

suite('labels of the node on the embedded API', () => nodeLabelCases(embeddedLoopApi));
