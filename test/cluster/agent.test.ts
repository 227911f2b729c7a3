import { suite } from 'node:test';
import { realLoopApi } from '../fixtures/agent-bench.ts';
import { apiFaultCases } from '../fixtures/api-fault-cases.ts';
import { loopCases } from '../fixtures/loop-cases.ts';

/** The agent's program against a real kube-apiserver with this repository's CRDs and upstream's rights: the embedded API's cases. */

suite('the program virt-handler on a real kube-apiserver', () => loopCases(realLoopApi));
suite('a real kube-apiserver that fails', () => apiFaultCases(realLoopApi));
