import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { migrationControllerCases } from '../../fixtures/controller/migration-cases.ts';

migrationControllerCases(embeddedApi);
