import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { poolCases } from '../../fixtures/controller/pool-cases.ts';

/** Pools on the embedded API, which has the kind from the start. */
poolCases(async () => ({ ...(await embeddedApi()), define: async () => undefined }));
