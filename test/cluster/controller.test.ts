import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { loadKubeAccess } from '../../src/kube/index.ts';
import type { ClusterServer } from '../fixtures/controller/cluster.ts';
import { foreignPodCases } from '../fixtures/controller/foreign-pod-cases.ts';
import { migrationControllerCases } from '../fixtures/controller/migration-cases.ts';
import { vmCases } from '../fixtures/controller/vm-cases.ts';
import { vmiCases } from '../fixtures/controller/vmi-cases.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** The controllers against a real kube-apiserver: the same cases as against the embedded API. */

async function realApi(): Promise<ClusterServer> {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  const cluster = await startKubeApiserver(assets);
  return { access: await loadKubeAccess({ kubeconfig: cluster.adminKubeconfig }), stop: () => cluster.stop() };
}

suite('VMIs', () => vmiCases(realApi));
suite('VMs', () => vmCases(realApi));
suite('foreign pods', () => foreignPodCases(realApi));
suite('live migrations', () => migrationControllerCases(realApi));
