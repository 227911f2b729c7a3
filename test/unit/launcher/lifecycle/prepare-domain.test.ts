import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { launcherPaths } from '../../../../src/launcher/domain/index.ts';
import { parseLauncherFlags } from '../../../../src/launcher/flags.ts';
import { type DomainHooks, HypervisorChoice, prepareDomain } from '../../../../src/launcher/lifecycle/index.ts';
import { launcherArgs, launcherVmi, noHooks } from '../../../fixtures/launcher-vmi.ts';

function preparation(t: TestContext) {
  const root = mkdtempSync(path.join(tmpdir(), 'prepare-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const parsed = parseLauncherFlags([...launcherArgs, '--allow-emulation']);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const choice = new HypervisorChoice({ flags, kvm: 'fails', device: '/dev/null' }, { log: silentLogger });
  const options = {
    flags,
    environment: { network: 'user', child: {} },
    architecture: 'amd64',
    paths: launcherPaths({ nonRoot: true, root }),
    cpuSet: [0],
    libvirtVersion: async () => 9_000_000,
    owner: undefined,
    setUpNetwork: async () => new Map(),
  } as const;
  const prepare = (vmi: VirtualMachineInstance, hooks: DomainHooks = noHooks, isIncoming = false) =>
    prepareDomain(vmi, {}, { ...options, hooks, isIncoming }, choice);
  return { root, prepare };
}

test('a VMI of another shape is refused with its field before anything is made for it', async (t) => {
  const { root, prepare } = preparation(t);
  const volumes = JSON.parse('[{"name":"a","emptyDisk":{"capacity":"1Mi"}},null]');
  const vmi = launcherVmi({ spec: { volumes } });
  await assert.rejects(prepare(vmi), {
    code: 'INVALID_FIELD',
    message: 'spec.volumes[1]: must be an object',
  });
  assert.deepEqual(readdirSync(root), []);
});

test('a hook sidecar may change a domain, and not its name, by which it is found again', async (t) => {
  const { prepare } = preparation(t);
  const changing = (from: string, to: string): DomainHooks => ({
    ...noHooks,
    domain: async (xml) => xml.replace(from, to),
  });
  const vmi = launcherVmi();
  assert.match(await prepare(vmi, changing('<devices>', '<on_crash>preserve</on_crash><devices>')), /preserve/);
  const renamed = prepare(vmi, changing('default_small', 'default_other'));
  await assert.rejects(renamed, { code: 'HOOK_FAILED', message: /made domain default_other out of default_small/ });
  const broken = prepare(vmi, changing('</domain>', ''));
  await assert.rejects(broken, { code: 'BAD_XML', message: /cannot be read: .*: hook sidecars changed it: look into/ });
});

test('a pod whose SR-IOV devices are not known yet takes a guest that comes from another node, and starts none', async (t) => {
  const { prepare } = preparation(t);
  const networks = [
    { name: 'blue', multus: { networkName: 'blue' } },
    { name: 'red', resourceClaim: { claimName: 'card', requestName: 'port' } },
  ];
  const vmi = launcherVmi({ spec: { networks, resourceClaims: [{ name: 'card', resourceClaimName: 'card' }] } });
  vmi.spec.domain.devices = { interfaces: networks.map(({ name }) => ({ name, sriov: {} })) };
  await assert.rejects(prepare(vmi), { code: 'MISSING_DEVICE' });
  assert.doesNotMatch(await prepare(vmi, noHooks, true), /<hostdev|<interface/);
});

test('disks that share a pool of threads need a libvirt that knows it', async (t) => {
  const { prepare } = preparation(t);
  const vmi = launcherVmi();
  const pool = { ioThreadsPolicy: 'supplementalPool', ioThreads: { supplementalPoolThreadCount: 2 } };
  await assert.rejects(prepare({ ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, ...pool } } }), {
    code: 'UNSUPPORTED_FIELD',
    message: /ioThreadsPolicy supplementalPool.* since libvirt 10, and the launcher has 9\.0: use "auto" or "shared"/,
  });
});
