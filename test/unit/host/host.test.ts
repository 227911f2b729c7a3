import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { findEfiFirmware, probeKvm, readNetworkLinks } from '../../../src/host/index.ts';
import { buildProbeRom } from '../../../src/host/probe-rom.ts';

function tempDir(t: TestContext): string {
  const dir = mkdtempSync(path.join(tmpdir(), 'host-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

test('firmware pairs are taken in order of preference, and what is not installed is absent', async (t) => {
  const dir = tempDir(t);
  assert.deepEqual(await findEfiFirmware({ dirs: [dir] }), { searched: [dir] });
  for (const name of [
    'OVMF_CODE_4M.fd',
    'OVMF_VARS_4M.fd',
    'OVMF_CODE.fd',
    'OVMF_VARS.fd',
    'OVMF_CODE_4M.secboot.fd',
  ]) {
    writeFileSync(path.join(dir, name), '');
  }
  const plain = { code: path.join(dir, 'OVMF_CODE_4M.fd'), vars: path.join(dir, 'OVMF_VARS_4M.fd') };
  assert.deepEqual(await findEfiFirmware({ dirs: ['/nowhere', dir] }), {
    plain,
    sev: plain,
    searched: ['/nowhere', dir],
  });
  writeFileSync(path.join(dir, 'OVMF_VARS_4M.ms.fd'), '');
  assert.equal((await findEfiFirmware({ dirs: [dir] })).secureBoot?.vars, path.join(dir, 'OVMF_VARS_4M.ms.fd'));
});

test('firmware for encrypted guests is found beside the other, and that of arm64 where arm64 has it', async (t) => {
  const dir = tempDir(t);
  const at = (name: string) => path.join(dir, name);
  for (const name of [
    'OVMF_CODE_4M.fd',
    'OVMF_VARS_4M.fd',
    'OVMF_VARS.fd',
    'OVMF.amdsev.fd',
    'OVMF.inteltdx.secboot.fd',
  ]) {
    writeFileSync(at(name), '');
  }
  const found = await findEfiFirmware({ dirs: [dir] });
  assert.deepEqual(found.sev, { code: at('OVMF_CODE_4M.fd'), vars: at('OVMF_VARS_4M.fd') });
  assert.deepEqual(
    [found.snp, found.tdx, found.tdxSecureBoot],
    [at('OVMF.amdsev.fd'), undefined, at('OVMF.inteltdx.secboot.fd')],
  );
  writeFileSync(at('OVMF_CODE.cc.fd'), '');
  assert.equal((await findEfiFirmware({ dirs: [dir] })).sev?.code, at('OVMF_CODE.cc.fd'));
  for (const name of ['AAVMF_CODE.fd', 'AAVMF_VARS.fd']) writeFileSync(at(name), '');
  assert.deepEqual(await findEfiFirmware({ architecture: 'arm64', first: dir, dirs: ['/nowhere'] }), {
    plain: { code: at('AAVMF_CODE.fd'), vars: at('AAVMF_VARS.fd') },
    searched: [dir, '/nowhere'],
  });
  assert.deepEqual(await findEfiFirmware({ architecture: 's390x', first: dir }), { searched: [dir] });
});

test('network devices are read with what they have; a torn entry has no attributes', async (t) => {
  const dir = tempDir(t);
  const add = (name: string, attributes: Record<string, string>) => {
    mkdirSync(path.join(dir, name));
    for (const [key, value] of Object.entries(attributes)) writeFileSync(path.join(dir, name, key), value);
  };
  add('eth0', { address: '02:00:00:00:00:01\n', mtu: '1450\n' });
  add('lo', { address: '00:00:00:00:00:00\n', mtu: '65536\n' });
  add('gone', {});
  const links = await readNetworkLinks(dir);
  assert.deepEqual(links.get('eth0'), { name: 'eth0', mac: '02:00:00:00:00:01', mtu: 1450 });
  assert.deepEqual(links.get('lo'), { name: 'lo', mtu: 65536 });
  assert.deepEqual(links.get('gone'), { name: 'gone' });
});

test('the probe ROM has 64 KiB, starts at its reset vector and jumps to its first byte', () => {
  const rom = buildProbeRom();
  assert.equal(rom.length, 65536);
  assert.equal(rom[0xfff0], 0xe9);
  assert.equal((0xfff3 + rom.readUInt16LE(0xfff1)) & 0xffff, 0);
});

test('without the device KVM is not usable, and QEMU is not started', async () => {
  const result = await probeKvm({ device: '/nowhere/kvm', qemuPath: '/nowhere/qemu' });
  assert.equal(result.usable, false);
  assert.match(result.reason, /\/nowhere\/kvm cannot be opened/);
});

test('a QEMU that is not installed makes KVM unusable with that reason', async () => {
  const result = await probeKvm({ device: '/dev/null', qemuPath: '/nowhere/qemu' });
  assert.equal(result.usable, false);
  assert.match(result.reason, /\/nowhere\/qemu cannot be started/);
});

/** A program in QEMU's place. */
function fakeQemu(t: TestContext, script: string): string {
  const file = path.join(tempDir(t), 'qemu');
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

for (const [what, script, usable, reason] of [
  ['with the guest code of the ROM', 'exit 85', true, /runs on kvm/],
  ['with success, which the ROM never gives', 'exit 0', false, /ended with code 0/],
  ['with an error', 'echo first >&2; echo "no KVM here" >&2; exit 1', false, /code 1 on kvm: no KVM here/],
  ['by a signal', 'kill -SEGV $$', false, /signal SIGSEGV/],
] as const) {
  test(`QEMU ending ${what} decides the probe`, async (t) => {
    const result = await probeKvm({ device: '/dev/null', qemuPath: fakeQemu(t, script) });
    assert.equal(result.usable, usable);
    assert.match(result.reason, reason);
  });
}

test('a QEMU that hangs is killed at the time limit, also when it ignores signals and floods', async (t) => {
  const qemuPath = fakeQemu(t, 'trap "" TERM INT; while :; do echo noise >&2; done');
  const result = await probeKvm({ device: '/dev/null', qemuPath, timeoutMs: 200 });
  assert.equal(result.usable, false);
  assert.match(result.reason, /no answer within 200 ms/);
  assert.ok(result.tookMs >= 190 && result.tookMs < 5000, `took ${result.tookMs} ms`);
});
