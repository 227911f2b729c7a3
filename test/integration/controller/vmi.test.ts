import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { vmiCases } from '../../fixtures/controller/vmi-cases.ts';

vmiCases(embeddedApi);
