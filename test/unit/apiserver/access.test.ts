import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AccessRule, checkAccess, isAllowed, isPathAllowed } from '../../../src/apiserver/access.ts';

const rules: readonly AccessRule[] = [
  { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] },
  { apiGroups: ['kubevirt.io'], resources: ['*'], verbs: ['watch'] },
  { apiGroups: ['*'], resources: ['*/status'], verbs: ['patch'] },
  { apiGroups: ['apps'], resources: ['daemonsets'], verbs: ['*'] },
];
const limited = { name: 'limited', groups: [], rules };

describe('a user with rules may do what a rule names, and nothing else', () => {
  const table: [boolean, string, string, string, string?][] = [
    [true, 'get', '', 'pods'],
    [true, 'GET', '', 'pods'],
    [false, 'watch', '', 'pods'],
    [false, 'get', 'apps', 'pods'],
    [true, 'get', '', 'pods', 'log'],
    [false, 'get', '', 'pods', 'exec'],
    [false, 'get', '', 'pods/log/x'],
    [true, 'watch', 'kubevirt.io', 'kubevirts'],
    [false, 'watch', 'kubevirt.io.evil', 'kubevirts'],
    [true, 'patch', '', 'nodes', 'status'],
    [false, 'patch', '', 'nodes'],
    [true, 'deletecollection', 'apps', 'daemonsets'],
    [false, '*', '', 'pods'],
    [false, '', '', ''],
    [true, 'create', 'authorization.k8s.io', 'selfsubjectaccessreviews'],
    [false, 'create', 'authorization.k8s.io', 'subjectaccessreviews'],
    [false, 'create', 'authentication.k8s.io', 'tokenreviews'],
  ];
  for (const [allowed, verb, group, resource, subresource] of table) {
    const what = `${verb} ${[resource, subresource].filter(Boolean).join('/')} of group "${group}"`;
    test(`${what}: ${allowed ? 'yes' : 'no'}`, () => {
      const request = { verb, group, resource, subresource };
      assert.equal(isAllowed(limited, request), allowed);
      assert.equal(isAllowed({ name: 'free', groups: [] }, request), true);
    });
  }

  test('empty rules allow nothing but questions about oneself', () => {
    const nobody = { name: 'nobody', groups: [], rules: [] };
    const about = { verb: 'create', group: 'authentication.k8s.io', subresource: undefined };
    assert.equal(isAllowed(nobody, { ...about, resource: 'selfsubjectreviews' }), true);
    assert.equal(isAllowed(nobody, { ...about, resource: 'tokenreviews' }), false);
  });

  test('discovery and health are read by everybody; other paths and verbs are not', () => {
    for (const path of ['/', '/api', '/apis/kubevirt.io', '/openapi/v3', '/version']) {
      assert.equal(isPathAllowed(limited, path, 'get'), true, path);
      assert.equal(isPathAllowed(limited, path, 'post'), false, path);
    }
    for (const path of ['/metrics', '/apisx', '/versions', '']) {
      assert.equal(isPathAllowed(limited, path, 'get'), false, path);
    }
  });
});

// What KubeVirt's virt-api once did: `vnc/screenshot` was judged by the right on `vnc`, and the other way round (CVE-2026-6383).
test('a right on a sub-resource is none on what lies below it, nor on what it lies below', () => {
  const group = 'subresources.kubevirt.io';
  const userOf = (subresource: string) => {
    const resources = [`virtualmachineinstances/${subresource}`];
    return { name: 'u', groups: [], rules: [{ apiGroups: [group], resources, verbs: ['get'] }] };
  };
  const may = (granted: string, subresource: string) =>
    isAllowed(userOf(granted), { verb: 'get', group, resource: 'virtualmachineinstances', subresource });
  assert.deepEqual(
    [
      may('vnc', 'vnc'),
      may('vnc', 'vnc/screenshot'),
      may('vnc/screenshot', 'vnc'),
      may('vnc/screenshot', 'vnc/screenshot'),
    ],
    [true, false, false, true],
  );
});

test('a refusal is a Status in the words of Kubernetes', () => {
  const request = { verb: 'get', group: 'kubevirt.io', resource: 'virtualmachineinstances', subresource: undefined };
  const text = (namespace: string | undefined, name: string | undefined) => {
    try {
      checkAccess(limited, request, { namespace, name });
    } catch (error) {
      return String((error as Error).message);
    }
    return 'allowed';
  };
  const user = 'User "limited" cannot get resource "virtualmachineinstances" in API group "kubevirt.io"';
  const what = 'virtualmachineinstances.kubevirt.io';
  assert.equal(text('default', 'x'), `${what} "x" is forbidden: ${user} in the namespace "default"`);
  assert.equal(text(undefined, undefined), `${what} is forbidden: ${user} at the cluster scope`);
});
