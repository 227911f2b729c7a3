import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { launcherPaths } from '../../../../src/launcher/domain/index.ts';
import { parseLauncherFlags } from '../../../../src/launcher/flags.ts';
import { HypervisorChoice, prepareDomain } from '../../../../src/launcher/lifecycle/index.ts';
import { launcherArgs, launcherVmi, noHooks } from '../../../fixtures/launcher-vmi.ts';

test('a VMI of another shape is refused with its field before anything is made for it', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'prepare-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const parsed = parseLauncherFlags([...launcherArgs, '--allow-emulation']);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const choice = new HypervisorChoice({ flags, kvm: 'fails', device: '/dev/null' }, { log: silentLogger });
  const options = {
    flags,
    environment: { network: 'user', child: {} },
    paths: launcherPaths({ nonRoot: true, root }),
    cpuSet: [0],
    owner: undefined,
    hooks: noHooks,
    setUpNetwork: async () => new Map(),
  } as const;
  const volumes = JSON.parse('[{"name":"a","emptyDisk":{"capacity":"1Mi"}},null]');
  const vmi = launcherVmi({ spec: { volumes } });
  await assert.rejects(prepareDomain(vmi, {}, options, choice), {
    code: 'INVALID_FIELD',
    message: 'spec.volumes[1]: must be an object',
  });
  assert.deepEqual(readdirSync(root), []);
});
