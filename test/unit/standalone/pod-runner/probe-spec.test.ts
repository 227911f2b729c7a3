import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsAddress, probesOf } from '../../../../src/standalone/pod-runner/probe-spec.ts';

const container = (probe: unknown, name = 'readinessProbe') => ({
  name: 'compute',
  ports: [{ name: 'web', containerPort: 8080 }],
  [name]: probe,
});

test('what is not said is filled in as by Kubernetes', () => {
  assert.deepEqual(probesOf(container({ tcpSocket: { port: 22 }, timeoutSeconds: 0 })), [
    {
      name: 'readiness',
      check: { kind: 'tcpSocket', host: undefined, port: 22 },
      ...{ initialDelaySeconds: 0, periodSeconds: 10, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3 },
    },
  ]);
  const httpHeaders = [{ name: 'X-Probe', value: 'yes' }];
  const [http] = probesOf(container({ httpGet: { port: 'web', path: 'healthz?a=1', scheme: 'HTTPS', httpHeaders } }));
  const headers = [['X-Probe', 'yes']];
  const check = { kind: 'httpGet', scheme: 'https', host: undefined, port: 8080, path: '/healthz?a=1', headers };
  assert.deepEqual(http?.check, check);
  const [exec] = probesOf(container({ exec: { command: ['virt-probe', '--x'] } }));
  assert.deepEqual(exec?.check, { kind: 'exec', command: ['virt-probe', '--x'] });
  assert.deepEqual(probesOf({ name: 'compute' }), []);
});

test('only what is asked at the pod itself needs its address', () => {
  const needs = (probe: object) => probesOf(container(probe)).map(needsAddress);
  assert.deepEqual(needs({ tcpSocket: { port: 1 } }), [true]);
  assert.deepEqual(needs({ httpGet: { port: 1, host: '' } }), [true]);
  assert.deepEqual(needs({ tcpSocket: { port: 1, host: '192.0.2.1' } }), [false]);
  assert.deepEqual(needs({ exec: { command: ['x'] } }), [false]);
});

for (const [probe, text, name] of [
  [{}, /readinessProbe must say one of exec, httpGet, tcpSocket to ask for, and says none/],
  [{ exec: { command: ['x'] }, tcpSocket: { port: 1 } }, /says exec, tcpSocket/],
  [{ grpc: { port: 1 } }, /grpc: the standalone node has no such probe/],
  [{ exec: { command: [] } }, /exec\.command is empty/],
  [{ tcpSocket: { port: 0 } }, /tcpSocket\.port 0 is neither a port/],
  [{ tcpSocket: { port: 'ssh' } }, /"ssh" is neither a port .* nor the name/],
  [{ httpGet: { port: 70_000 } }, /httpGet\.port 70000/],
  [{ httpGet: { port: 80, scheme: 'FTP' } }, /scheme must be HTTP or HTTPS/],
  [{ tcpSocket: { port: 1 }, periodSeconds: -1 }, /periodSeconds must be a whole number of at least 1, not -1/],
  [{ tcpSocket: { port: 1 }, initialDelaySeconds: 1.5 }, /initialDelaySeconds must be/],
  [{ tcpSocket: { port: 1 }, successThreshold: 2 }, /successThreshold must be 1/, 'livenessProbe'],
  ['often', /must be an object/],
] as const) {
  test(`a probe is refused in words: ${text.source}`, () => {
    assert.throws(() => probesOf(container(probe, name)), text);
  });
}
