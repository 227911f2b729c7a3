import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { foreignPodCases } from '../../fixtures/controller/foreign-pod-cases.ts';

foreignPodCases(embeddedApi);
