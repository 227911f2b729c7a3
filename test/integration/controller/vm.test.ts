import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { vmCases } from '../../fixtures/controller/vm-cases.ts';

vmCases(embeddedApi);
