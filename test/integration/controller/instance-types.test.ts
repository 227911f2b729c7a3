import { after } from 'node:test';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { instancetypeCases } from '../../fixtures/controller/instancetype-cases.ts';

let cluster: Cluster;
after(() => cluster?.stop());

instancetypeCases(async () => {
  cluster = new Cluster(await embeddedApi());
  await cluster.addNode();
  await cluster.startController();
  return cluster;
});
