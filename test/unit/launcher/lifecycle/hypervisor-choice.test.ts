import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { chooseHypervisor, HypervisorChoice } from '../../../../src/launcher/lifecycle/hypervisor-choice.ts';

const choose = (allowEmulation: boolean, kvm: 'works' | 'fails' | undefined, device: string) =>
  new HypervisorChoice({ flags: { allowEmulation, hypervisor: 'kvm' }, kvm, device }, { log: silentLogger }).choose();

test("the node's word decides where the device is", async () => {
  assert.equal(await choose(true, 'works', '/dev/null'), 'kvm');
  assert.equal(await choose(true, 'fails', '/dev/null'), 'qemu');
  await assert.rejects(choose(false, 'fails', '/dev/null'), { code: 'NO_HYPERVISOR', message: /useEmulation/ });
});

test('without the device there is no KVM, whatever the node says', async () => {
  assert.equal(await choose(true, 'works', '/dev/none'), 'qemu');
  await assert.rejects(choose(false, 'works', '/dev/none'), { message: /\/dev\/none is not there/ });
});

test('without a word of the node the device is tried: one that is no KVM is refused', async () => {
  assert.equal(await choose(true, undefined, '/dev/null'), 'qemu');
});

test('emulation is chosen only when it is allowed', () => {
  assert.equal(chooseHypervisor({ kvmUsable: true, allowEmulation: false }), 'kvm');
  assert.equal(chooseHypervisor({ kvmUsable: false, allowEmulation: true }), 'qemu');
  assert.throws(() => chooseHypervisor({ kvmUsable: false, allowEmulation: false, kvmReason: 'hangs' }), {
    code: 'NO_HYPERVISOR',
    message: /kvm not present and emulation is not allowed \(hangs\)/,
  });
});
