import { realLoopApi } from '../fixtures/agent-bench.ts';
import { consoleServerCases } from '../fixtures/console-server-cases.ts';

consoleServerCases('a real kube-apiserver', realLoopApi);
