import { suite } from 'node:test';
import { embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { migrationCases } from '../../fixtures/migration-cases.ts';

suite('a live migration on the embedded API', () => migrationCases(embeddedLoopApi));
