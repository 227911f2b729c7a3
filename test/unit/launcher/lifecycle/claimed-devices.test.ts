import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { readClaimedDevices } from '../../../../src/launcher/lifecycle/claimed-devices.ts';
import { vmiWith } from '../domain/cases.ts';

const vmi = vmiWith(
  { devices: { gpus: [{ name: 'g', claimName: 'c', requestName: 'r' }] } },
  { resourceClaims: [{ name: 'c', resourceClaimTemplateName: 't' }] },
);
const attributes = { 'resource.kubernetes.io/pciBusID': { string: '0000:65:00.0' } };
const told = JSON.stringify({
  apiVersion: 'metadata.resource.k8s.io/v1alpha1',
  requests: [{ name: 'r', devices: [{ attributes }] }],
});

/** A directory of upstream's form; `make` fills that of the request. */
function metadata(t: TestContext, make: (dir: string) => void): string {
  const root = mkdtempSync(path.join(tmpdir(), 'claims-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const dir = path.join(root, 'resourceclaimtemplates/c/r');
  mkdirSync(dir, { recursive: true });
  make(dir);
  return root;
}

const file = (dir: string, driver = 'vendor.com') => path.join(dir, `${driver}-metadata.json`);

test('a launcher knows the device of a claim by what its driver wrote, and looks at nothing else there', async (t) => {
  const directory = metadata(t, (dir) => {
    writeFileSync(file(dir), told);
    writeFileSync(path.join(dir, 'other.json'), '{');
  });
  assert.deepEqual(
    [...(await readClaimedDevices(vmi, directory))],
    [['c/r', { kind: 'pci', addresses: ['0000:65:00.0'] }]],
  );
});

test('without claims no file is looked for', async () => {
  assert.deepEqual([...(await readClaimedDevices(vmiWith(), '/nowhere'))], []);
});

const refused: readonly (readonly [what: string, code: string, message: RegExp, make: (dir: string) => void])[] = [
  ['nothing', 'MISSING_DEVICE', /was not told which device the request r of its claim c got .*KEP-5304/, () => {}],
  ['no directory', 'MISSING_DEVICE', /was not told/, (dir) => rmSync(dir, { recursive: true })],
  [
    'two drivers',
    'BAD_DEVICE',
    /drivers a-metadata.json, b-metadata.json all tell/,
    (dir) => ['a', 'b'].map((driver) => writeFileSync(file(dir, driver), told)),
  ],
  [
    'a hundred drivers',
    'BAD_DEVICE',
    /drivers (?:d\d+-metadata.json, ){7}d\d+-metadata.json and 92 more all tell/,
    (dir) => Array.from({ length: 100 }, (_, index) => writeFileSync(file(dir, `d${index}`), told)),
  ],
  [
    'more than a driver has to tell',
    'BAD_DEVICE',
    /more than 1048576 bytes/,
    (dir) => writeFileSync(file(dir), ' '.repeat(2 ** 20 + 1)),
  ],
  ['a pipe', 'BAD_DEVICE', /no plain file: look at the driver/, (dir) => execFileSync('mkfifo', [file(dir)])],
  ['a link', 'BAD_DEVICE', /no plain file/, (dir) => symlinkSync('/etc/passwd', file(dir))],
];
for (const [what, code, message, make] of refused) {
  test(`a guest whose driver tells otherwise is not started: ${what}`, async (t) => {
    await assert.rejects(readClaimedDevices(vmi, metadata(t, make)), (error: Error & { code?: string }) => {
      assert.match(error.message, /^spec\.domain\.devices\.gpus\[g\]: /);
      assert.match(error.message, message);
      return error.code === code;
    });
  });
}
