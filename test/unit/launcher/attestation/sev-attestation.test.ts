import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { SevAttestation } from '../../../../src/launcher/attestation/index.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const domainName = 'default_sealed';
const json = (value: unknown) => Buffer.from(JSON.stringify(value));

/** A guest that stands still before its first instruction. */
async function sealedGuest(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), 'sev-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const loader = path.join(dir, 'OVMF_CODE.cc.fd');
  writeFileSync(loader, 'firmware');
  const hypervisor = new MemoryHypervisor();
  const attestation = new SevAttestation({ domainName }, { hypervisor });
  const start = async (os = `<loader type='pflash'>${loader}</loader>`) => {
    const domain = await hypervisor.define(`<domain><name>${domainName}</name><os>${os}</os></domain>`);
    await hypervisor.start(domain, { paused: true });
    hypervisor.calls.length = 0;
  };
  return { loader, hypervisor, attestation, start };
}

test('the processor’s key and certificates have KubeVirt’s names, and nothing else is told', async (t) => {
  const { hypervisor, attestation } = await sealedGuest(t);
  hypervisor.sevParams = new Map<string, string | number>([
    ['pdh', 'UERI'],
    ['cert-chain', 'Q0hBSU4='],
    ['cbitpos', 47],
  ]);
  assert.deepEqual(await attestation.platform(), { pdh: 'UERI', certChain: 'Q0hBSU4=' });
});

test('a machine without SEV says what it lacks', async (t) => {
  const { hypervisor, attestation } = await sealedGuest(t);
  hypervisor.failures.set('sevInfo', new LibvirtError('OPERATION_UNSUPPORTED', 'QEMU does not support SEV guest'));
  await assert.rejects(attestation.platform(), {
    code: 'NOT_SUPPORTED',
    message: /^this node cannot start guests with SEV: it needs an AMD EPYC .*\(QEMU does not support SEV guest\)$/,
  });
});

const measured = new Map<string, string | number>([
  ['sev-measurement', 'bWVhc3VyZWQ='],
  ['sev-api-major', 1],
  ['sev-api-minor', 0],
  ['sev-build-id', 21],
  ['sev-policy', 5],
]);

test('a measurement comes with the digest of the firmware that the guest was started from', async (t) => {
  const { hypervisor, attestation, start } = await sealedGuest(t);
  await start();
  hypervisor.launchParams = measured;
  assert.deepEqual(await attestation.measurement(), {
    measurement: 'bWVhc3VyZWQ=',
    apiMajor: 1,
    apiMinor: 0,
    buildID: 21,
    policy: 5,
    loaderSHA: 'c3bf47ea1f4a4a605470313cacb3a44f4a461f68c6faeab07e737610cb5ac835',
  });
});

test('there is no measurement without a guest, without SEV, and without firmware that can be read', async (t) => {
  const { loader, hypervisor, attestation, start } = await sealedGuest(t);
  await assert.rejects(attestation.measurement(), { code: 'DOMAIN_NOT_FOUND' });
  await start();
  await assert.rejects(attestation.measurement(), { code: 'NOT_SUPPORTED', message: /was started without SEV/ });
  hypervisor.launchParams = measured;
  rmSync(loader);
  await assert.rejects(attestation.measurement(), {
    code: 'SETUP_FAILED',
    message: /firmware of the guest cannot be read/,
  });
  await start('');
  await assert.rejects(attestation.measurement(), { code: 'NOT_SUPPORTED', message: /no firmware of its own/ });
});

test('a secret goes to libvirt as its owner sealed it', async (t) => {
  const { hypervisor, attestation, start } = await sealedGuest(t);
  await start();
  await attestation.injectSecret(json({ header: 'aGVhZGVy', secret: 'c2VjcmV0' }));
  assert.equal(hypervisor.calls.at(-1), 'setLaunchSecret aGVhZGVy c2VjcmV0');
});

test('a secret that is none is refused before libvirt is asked, and told to nobody', async (t) => {
  const { hypervisor, attestation, start } = await sealedGuest(t);
  await start();
  const refusals: readonly (readonly [Buffer, RegExp])[] = [
    [Buffer.from('{"secret": "c2VjcmV0", '), /^the options are no JSON object/],
    [json(['c2VjcmV0']), /^the options are no JSON object/],
    [json({ secret: 'c2VjcmV0' }), /^header is required/],
    [json({ header: 'aGVhZGVy' }), /^secret is required/],
    [json({ header: 'aGVhZGVy', secret: 5 }), /^secret is required/],
  ];
  for (const [options, message] of refusals) {
    await assert.rejects(attestation.injectSecret(options), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'INVALID_REQUEST');
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /c2VjcmV0/);
      return true;
    });
  }
  assert.deepEqual(hypervisor.calls, []);
});

test('a guest without SEV takes no secret; what else libvirt says stays as it is', async (t) => {
  const { hypervisor, attestation, start } = await sealedGuest(t);
  const secret = json({ header: 'aGVhZGVy', secret: 'c2VjcmV0' });
  await assert.rejects(attestation.injectSecret(secret), { code: 'DOMAIN_NOT_FOUND' });
  await start();
  hypervisor.failures.set('setLaunchSecret', new LibvirtError('OPERATION_UNSUPPORTED', 'only in SEV-enabled domains'));
  await assert.rejects(attestation.injectSecret(secret), { code: 'NOT_SUPPORTED', message: /was started without SEV/ });
  const other = new LibvirtError('OPERATION_INVALID', 'domain must be in a paused state');
  hypervisor.failures.set('setLaunchSecret', other);
  await assert.rejects(attestation.injectSecret(secret), other);
});
