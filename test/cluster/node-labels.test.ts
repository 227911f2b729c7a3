import { suite } from 'node:test';
import { realLoopApi } from '../fixtures/agent-bench.ts';
import { nodeLabelCases } from '../fixtures/node-label-cases.ts';

/** With upstream's rights: the embedded API's cases. */

suite('labels of the node on a real kube-apiserver', () => nodeLabelCases(realLoopApi));
