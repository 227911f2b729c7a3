import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkProbes } from '../../../src/apiserver/admission/probe-rules.ts';

const problems = (spec: Record<string, unknown>) =>
  checkProbes(spec, 'spec').map(({ field, message }) => `${field}: ${message}`);
const ready = (readinessProbe: unknown, others: object = {}) => problems({ readinessProbe, ...others });

test('probes as KubeVirt takes them are taken', () => {
  for (const probe of [
    { exec: { command: ['cat', '/tmp/x'] } },
    { guestAgentPing: {} },
    { tcpSocket: { port: 22 }, initialDelaySeconds: 0, periodSeconds: 5, failureThreshold: 9, successThreshold: 3 },
    { httpGet: { port: 'web', path: '/' } },
    null,
  ]) {
    assert.deepEqual(ready(probe), [], JSON.stringify(probe));
  }
  assert.deepEqual(ready({ tcpSocket: { port: 22 } }, { networks: [{ name: 'default', pod: {} }] }), []);
  const off = { domain: { devices: { autoattachPodInterface: false } } };
  assert.deepEqual(ready({ guestAgentPing: {} }, off), []);
});

for (const [probe, text, others] of [
  [{}, /^spec\.readinessProbe: .*exactly one of exec, httpGet, tcpSocket, guestAgentPing, has none/],
  [{ exec: { command: ['x'] }, guestAgentPing: {} }, /has exec, guestAgentPing/],
  ['soon', /must be an object/],
  [{ exec: {} }, /exec\.command: .*a program first/],
  [{ exec: { command: 'ls' } }, /exec\.command/],
  [{ tcpSocket: {} }, /tcpSocket\.port: .*from 1 to 65535/],
  [{ tcpSocket: { port: 0 } }, /tcpSocket\.port/],
  [{ httpGet: { port: '8080' } }, /httpGet\.port/],
  [{ guestAgentPing: {}, periodSeconds: -1 }, /periodSeconds: .*whole number/],
  [{ guestAgentPing: {}, timeoutSeconds: '1' }, /timeoutSeconds/],
  [{ tcpSocket: { port: 22 } }, /only allowed with an interface on the pod network/, { networks: [{ multus: {} }] }],
  [
    { httpGet: { port: 80 } },
    /only allowed with an interface on the pod network/,
    { domain: { devices: { autoattachPodInterface: false } } },
  ],
] as const) {
  test(`a probe is refused in words: ${JSON.stringify(probe)}`, () => {
    const found = ready(probe, others);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', text);
  });
}

test('who failed once lives no more: a liveness probe has no other threshold of success', () => {
  assert.match(problems({ livenessProbe: { guestAgentPing: {}, successThreshold: 2 } })[0] ?? '', /must be 1/);
});
