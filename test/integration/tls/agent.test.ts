import { embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { consoleServerCases } from '../../fixtures/console-server-cases.ts';

consoleServerCases('the embedded API', embeddedLoopApi);
