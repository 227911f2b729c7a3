import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notReadyBecause } from '../../../src/agent/agent-figures.ts';

type Serving = ReturnType<Parameters<typeof notReadyBecause>[0]['consoles']['serving']>;
const ready: Serving['tls'] = { kind: 'ready', commonName: 'x', expiresAt: '', authorities: 1, minVersion: 'TLSv1.2' };

const reasons = (more: Partial<Serving>, phase: 'starting' | 'serving' | 'leaving' = 'serving') => {
  const serving = () => ({ listens: '[::]:8186', problem: undefined, tls: ready, connections: 0, refused: 0, ...more });
  return notReadyBecause({ consoles: { serving } }, phase).map(({ why }) => why);
};

test('each thing that keeps the agent from serving its node is a reason of its own', () => {
  assert.deepEqual(reasons({}), []);
  assert.deepEqual(reasons({}, 'starting'), ['VmisNotListed']);
  assert.deepEqual(reasons({}, 'leaving'), ['AgentLeaving']);
  assert.deepEqual(reasons({ listens: undefined, problem: 'EADDRINUSE' }, 'starting'), [
    'VmisNotListed',
    'ConsolesNotServed',
  ]);
  assert.deepEqual(reasons({ tls: { kind: 'waiting', missing: ['key pair', 'bundle of authorities'] } }), [
    'KeyPairMissing',
    'AuthoritiesMissing',
  ]);
  assert.deepEqual(reasons({ tls: { kind: 'waiting', missing: [] } }), ['TlsSettingsMissing']);
  assert.deepEqual(reasons({ tls: { kind: 'unusable', reason: 'key values mismatch' } }), ['TlsUnusable']);
});
