import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unreachablePorts } from '../../../../src/launcher/network/index.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

test('ports that nothing can be connected to are told, with the interfaces that list them', () => {
  const withPorts = (...ports: { port: number }[]) =>
    launcherVmi({ spec: { domain: { devices: { interfaces: [{ name: 'default', masquerade: {}, ports }] } } } });
  assert.match(
    unreachablePorts(withPorts({ port: 80 })) ?? '',
    /ports of interface default are not published: .*user networking/,
  );
  assert.equal(unreachablePorts(withPorts()), undefined);
  assert.equal(unreachablePorts(launcherVmi()), undefined);
});
