import { embeddedApi } from '../../fixtures/controller/cluster.ts';
import { replicaSetCases } from '../../fixtures/controller/replica-set-cases.ts';

/** Replica sets on the embedded API, which has the kind from the start. */
replicaSetCases(async () => ({ ...(await embeddedApi()), define: async () => undefined }));
