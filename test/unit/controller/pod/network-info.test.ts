import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Interface, Network, Pod } from '../../../../src/api/index.ts';
import { executors } from '../../../../src/controller/migration/execute.ts';
import type { ExecuteContext } from '../../../../src/controller/migration/steps.ts';
import { networkInfoAnnotation } from '../../../../src/controller/pod/index.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';

const key = 'kubevirt.io/network-info';
const config = buildConfig({ network: { binding: { vdpa: { downwardAPI: 'device-info' }, plain: {} } } });
const pci = (address: string) => ({ type: 'pci', version: '1.0.0', pci: { 'pci-address': address } });
const networks: Network[] = [
  { name: 'default', pod: {} },
  { name: 'red', multus: { networkName: 'red' } },
  { name: 'blue', multus: { networkName: 'blue' } },
];
/** Names of links that networks of these names get. */
const [redLink, blueLink] = ['podb1f51a511f1', 'pod16477688c0e'];

function annotationOf(interfaces: Interface[], reported: unknown, before?: string): string | undefined {
  const text = typeof reported === 'string' ? reported : JSON.stringify(reported);
  const annotations = { 'k8s.v1.cni.cncf.io/network-status': text, ...(before !== undefined && { [key]: before }) };
  const vmi = buildVmi({ domain: { devices: { interfaces } }, networks });
  return networkInfoAnnotation(vmi, buildPod({}, { annotations }), config)[key];
}

const reported = [
  { name: 'main', interface: 'eth0', mac: '02:00:00:00:00:01', default: true, 'device-info': pci('0000:01:00.0') },
  { name: 'default/red', interface: redLink, mac: '02:00:00:00:00:02', mtu: 1500, 'device-info': pci('0000:65:00.2') },
  { name: 'default/blue', interface: blueLink },
];

test('interfaces that are devices of the machine are told by name, as upstream writes them', () => {
  const interfaces = [
    { name: 'red', sriov: {} },
    { name: 'default', masquerade: {} },
    { name: 'blue', sriov: {} },
  ];
  const expected = `{"interfaces":[{"network":"blue"},{"network":"red","deviceInfo":${JSON.stringify(pci('0000:65:00.2'))},"mac":"02:00:00:00:00:02","mtu":1500}]}`;
  assert.equal(annotationOf(interfaces, reported), expected);
  assert.equal(annotationOf(interfaces, reported, expected), undefined, 'once');
});

test('a binding plug-in that asks for it is told of its device, also of the pod’s main network', () => {
  const main = [{ name: 'default', binding: { name: 'vdpa' } }];
  const device = JSON.stringify(pci('0000:01:00.0'));
  const expected = `{"interfaces":[{"network":"default","deviceInfo":${device},"mac":"02:00:00:00:00:01"}]}`;
  assert.equal(annotationOf(main, reported), expected);
  assert.equal(annotationOf([{ name: 'red', binding: { name: 'plain' } }], reported), undefined);
});

test('nothing is written before Multus has reported an interface, nor of what cannot be read', () => {
  const red = [{ name: 'red', sriov: {} }];
  for (const none of ['', 'no JSON', [], {}, [7], [{ interface: 7 }], [{ interface: 'other' }]]) {
    assert.equal(annotationOf(red, none), undefined, JSON.stringify(none));
  }
  assert.equal(annotationOf([{ name: 'default', masquerade: {} }], reported), undefined);
  const odd = [{ interface: redLink, mac: 7, mtu: '1', 'device-info': 'x' }];
  assert.equal(annotationOf(red, odd), '{"interfaces":[{"network":"red"}]}');
});

test('a target pod has it before the agents see the migration', async () => {
  const vmi = buildVmi({ domain: { devices: { interfaces: [{ name: 'red', sriov: {} }] } }, networks });
  const pod: Pod = buildRunningPod();
  pod.metadata.annotations = { 'k8s.v1.cni.cncf.io/network-status': JSON.stringify(reported) };
  const written: string[] = [];
  const client = {
    list: async () => ({ items: [] }),
    patch: async (_type: unknown, { name }: { name: string }, body: { metadata?: { annotations?: object } }) => {
      written.push(`${name} ${Object.keys(body.metadata?.annotations ?? {})}`);
      return vmi;
    },
  };
  const observation = {
    vmi,
    uid: 'uid-migration',
    migration: { spec: {} },
    plugged: { claims: [], attachments: [] },
    config,
  };
  const vmis = { saw: () => undefined };
  const context = { client, vmis, observation, signal: new AbortController().signal };
  await executors.handOver({ step: 'handOver', pod }, context as unknown as ExecuteContext);
  assert.deepEqual(written, [`${pod.metadata.name} ${key}`, 'vm1 ']);
});
