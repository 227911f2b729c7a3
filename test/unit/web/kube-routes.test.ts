import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKubeRequest } from '../../../src/web/kube-routes.ts';

const kubevirt = '/apis/kubevirt.io/v1/namespaces/default';
const snapshots = '/apis/snapshot.kubevirt.io/v1beta1/namespaces/default';
const clones = '/apis/clone.kubevirt.io/v1beta1/namespaces/default/virtualmachineclones';

test('what the page asks the API for goes on', () => {
  for (const [method, target] of [
    ['GET', `${kubevirt}/virtualmachines/demo`],
    ['GET', `${kubevirt}/virtualmachineinstances/a.b-c`],
    ['POST', `${kubevirt}/virtualmachines?fieldValidation=Strict&dryRun=All`],
    ['PUT', `${kubevirt}/virtualmachines/demo?fieldValidation=Strict`],
    ['DELETE', `${kubevirt}/virtualmachines/demo`],
    ['DELETE', `${kubevirt}/virtualmachineinstances/demo`],
    ['GET', '/api/v1/namespaces'],
    ['GET', '/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Ddemo'],
    ['GET', '/api/v1/namespaces/default/pods/virt-launcher-demo-x/log?container=compute&tailLines=10'],
    ['POST', '/api/v1/namespaces/default/persistentvolumeclaims'],
    ['GET', `${snapshots}/virtualmachinesnapshots`],
    ['GET', `${snapshots}/virtualmachinesnapshotcontents`],
    ['POST', `${snapshots}/virtualmachinesnapshots?fieldValidation=Strict`],
    ['POST', `${snapshots}/virtualmachinerestores?fieldValidation=Strict`],
    ['DELETE', `${snapshots}/virtualmachinesnapshots/evening`],
    ['DELETE', `${snapshots}/virtualmachinerestores/restore-x7k2p`],
    ['POST', `${clones}?fieldValidation=Strict`],
    ['DELETE', `${clones}/twin`],
    ['GET', '/apis/pool.kubevirt.io/v1beta1/virtualmachinepools'],
    ['GET', '/apis/kubevirt.io/v1/virtualmachineinstancereplicasets'],
    ['PUT', '/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools/farm/scale'],
    ['PUT', `${kubevirt}/virtualmachineinstancereplicasets/farm/scale`],
    ['GET', '/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterpreferences'],
    ['GET', '/apis/instancetype.kubevirt.io/v1beta1/namespaces/default/virtualmachineinstancetypes'],
  ] as const) {
    assert.equal(isKubeRequest(method, target), true, `${method} ${target}`);
  }
});

test('nothing else does: other kinds, other ways of writing, subresources, tricks in a path, answers without an end', () => {
  for (const [method, target] of [
    ['GET', '/api/v1/namespaces/default/secrets'],
    ['GET', '/api/v1/secrets'],
    ['GET', '/api/v1/namespaces/default/pods/a/exec'],
    ['DELETE', '/api/v1/namespaces/default/pods/a'],
    ['DELETE', `${kubevirt}/virtualmachines`],
    ['PATCH', `${kubevirt}/virtualmachines/demo`],
    ['PUT', `${kubevirt}/virtualmachines/demo/status`],
    ['PUT', `${kubevirt}/virtualmachineinstances/demo`],
    ['DELETE', `${snapshots}/virtualmachinesnapshots`],
    ['DELETE', `${snapshots}/virtualmachinesnapshotcontents/a`],
    ['PUT', `${snapshots}/virtualmachinesnapshots/a`],
    ['POST', `${snapshots}/virtualmachinesnapshotcontents`],
    ['PUT', `${clones}/twin`],
    ['PUT', '/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools/farm'],
    ['DELETE', '/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools/farm'],
    ['PUT', `${kubevirt}/virtualmachines/demo/scale`],
    ['POST', '/api/v1/namespaces'],
    ['GET', '/apis/kubevirt.io/v1/virtualmachines'],
    ['GET', `${kubevirt}/virtualmachines`],
    ['DELETE', `${kubevirt}/virtualmachines/demo?propagationPolicy=Orphan`],
    ['GET', '/api/v1/namespaces/default/events?limit=1'],
    ['GET', `${kubevirt}/virtualmachines?watch=true`],
    ['GET', '/api/v1/namespaces/default/pods/a/log?follow=true'],
    ['GET', `${kubevirt}/virtualmachines/..%2F..%2Fsecrets`],
    ['GET', `${kubevirt}/virtualmachines/../../../../api/v1/secrets`],
    ['GET', `${kubevirt}/virtualmachines/demo?a?b`],
    ['GET', `x${kubevirt}/virtualmachines/demo`],
    ['constructor', `${kubevirt}/virtualmachines/demo`],
    ['GET', ''],
  ] as const) {
    assert.equal(isKubeRequest(method, target), false, `${method} ${target}`);
  }
});
