import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isKubeRequest } from '../../../src/web/kube-routes.ts';

const kubevirt = '/apis/kubevirt.io/v1/namespaces/default';

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
