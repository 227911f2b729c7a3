import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { prepareFirmwareFiles } from '../../../../src/launcher/disks/firmware-files.ts';
import { launcherPaths } from '../../../../src/launcher/domain/index.ts';
import { vmiWith } from '../domain/cases.ts';
import { sandbox } from './sandbox.ts';

const licensed = vmiWith(
  { firmware: { acpi: { slicNameRef: 'licence' } } },
  { volumes: [{ name: 'licence', secret: { secretName: 's' } }] },
);
const envOf = (root: string) => ({ paths: launcherPaths({ nonRoot: true, root }), imageVolume: false });

test('an ACPI table must be in its secret, through the links that the kubelet makes and no others', async (t) => {
  const { root, put } = sandbox(t);
  const env = envOf(root);
  const directory = path.join(env.paths.privateDir, 'secret/licence');
  const missing = { code: 'MISSING_SOURCE', message: /acpi\.slicNameRef: .*must have the key slic\.bin/ };
  await assert.rejects(prepareFirmwareFiles(licensed, env), missing);
  put('outside');
  mkdirSync(path.join(directory, '..2026'), { recursive: true });
  symlinkSync('../../../../../outside', path.join(directory, '..2026/slic.bin'));
  symlinkSync('..2026', path.join(directory, '..data'));
  symlinkSync('..data/slic.bin', path.join(directory, 'slic.bin'));
  await assert.rejects(prepareFirmwareFiles(licensed, env), missing);
  mkdirSync(path.join(directory, '..2027'));
  put(path.relative(root, path.join(directory, '..2027/slic.bin')));
  symlinkSync('..2027/slic.bin', path.join(directory, 'msdm.bin'));
  const other = vmiWith({ firmware: { acpi: { msdmNameRef: 'licence' } } }, { volumes: licensed.spec.volumes ?? [] });
  await prepareFirmwareFiles(other, env);
});

test("Ignition's configuration becomes a file that QEMU's user alone reads, and is written once", async (t) => {
  const { root } = sandbox(t);
  const env = envOf(root);
  const data = '{"ignition":{"version":"3.4.0"}}';
  const ignited = (text: string) => vmiWith({}, {}, { annotations: { 'kubevirt.io/ignitiondata': text } });
  await prepareFirmwareFiles(ignited(data), env);
  await prepareFirmwareFiles(ignited('{"ignition":{}}'), env);
  const file = path.join(env.paths.ephemeralDir, 'ignition-data/default/testvm/data.ign');
  assert.equal(readFileSync(file, 'utf8'), data);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  await assert.rejects(prepareFirmwareFiles(ignited('{}'), env), { code: 'INVALID_FIELD' });
  await prepareFirmwareFiles(vmiWith(), env);
});
