import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachine, VirtualMachineInstance } from '../../../src/api/index.ts';
import { vmRow } from '../../../src/web/index.ts';

test('an object with anything in place of its conditions, interfaces and spec is a line, and hides no other line', () => {
  const metadata = { name: 'vm', namespace: 'ns' };
  const vm = { metadata } as unknown as VirtualMachine;
  const vmi = { metadata, status: { phase: 'Running', conditions: 'x', interfaces: { a: 1 } } };
  const row = vmRow(vm, vmi as unknown as VirtualMachineInstance);
  assert.deepEqual([row?.name, row?.conditions, row?.vmi?.paused, row?.vmi?.ip], ['vm', [], false, undefined]);
  const holes = { metadata, status: { conditions: [null], interfaces: [null] } };
  assert.equal(vmRow(undefined, holes as unknown as VirtualMachineInstance)?.status, 'Pending');
});

test('that a VM which runs has to be restarted is one of its conditions; what both say is the instance’s', () => {
  const condition = (type: string, message: string) => ({ type, status: 'True', message });
  const vm = {
    metadata: { name: 'vm' },
    status: { conditions: [condition('Ready', 'of the VM'), condition('RestartRequired', 'cores')] },
  } as unknown as VirtualMachine;
  const vmi = { metadata: { name: 'vm' }, status: { conditions: [condition('Ready', 'of the instance')] } };
  const messages = (...objects: Parameters<typeof vmRow>) =>
    vmRow(...objects)?.conditions.map(({ message }) => message);
  assert.deepEqual(messages(vm, vmi as unknown as VirtualMachineInstance), ['of the instance', 'cores']);
  assert.deepEqual(messages(vm, undefined), ['of the VM', 'cores']);
});

test('what is no text where the page shows one is left out', () => {
  const fine = { type: 'Ready', status: 'False', reason: 'GuestNotRunning', lastTransitionTime: null };
  const conditions = [null, 'Ready', { type: 'Ready' }, { ...fine, message: { en: 'no' } }, fine];
  const status = { phase: 'Running', conditions, interfaces: [{ ipAddress: ['10.0.2.2'] }], guestOSInfo: { name: {} } };
  const row = vmRow(undefined, { metadata: { name: 'vm' }, status } as unknown as VirtualMachineInstance);
  assert.deepEqual([row?.conditions, row?.vmi?.ip, row?.vmi?.guestOs], [[fine], undefined, undefined]);
});

test('who made it is its controller, the VM’s before the instance’s; what is no reference is left out', () => {
  const owned = (ownerReferences: unknown) => ({ metadata: { name: 'vm', ownerReferences } });
  const ownerOf = (vm: unknown, vmi?: unknown) => vmRow(vm as VirtualMachine, vmi as VirtualMachineInstance)?.owner;
  const set = { kind: 'VirtualMachineInstanceReplicaSet', name: 'farm', controller: true, uid: 'u' };
  assert.deepEqual(ownerOf(undefined, owned([{ ...set, controller: false, name: 'x' }, set])), {
    kind: 'VirtualMachineInstanceReplicaSet',
    name: 'farm',
  });
  assert.equal(ownerOf(owned(undefined), owned([set])), undefined);
  for (const odd of [null, 'x', [null], [{ controller: true, name: 5 }]]) assert.equal(ownerOf(owned(odd)), undefined);
});

test('a size is that of the instance, else of the template; what is no number or quantity is left out', () => {
  const metadata = { name: 'vm' };
  const sizeOf = (domain: unknown, instance?: unknown) => {
    const vm = { metadata, spec: { template: { spec: { domain } } } } as unknown as VirtualMachine;
    const vmi = { metadata, spec: { domain: instance } } as unknown as VirtualMachineInstance;
    const { cpus, memoryBytes } = vmRow(vm, instance === undefined ? undefined : vmi) ?? {};
    return [cpus, memoryBytes];
  };
  const small = { cpu: { cores: 2, sockets: 2 }, memory: { guest: '1Gi' } };
  assert.deepEqual(sizeOf(small), [4, 2 ** 30]);
  assert.deepEqual(sizeOf(small, { cpu: { cores: 1 }, resources: { requests: { memory: '64M' } } }), [1, 64_000_000]);
  assert.deepEqual(sizeOf({ cpu: { cores: 'many' }, memory: { guest: { a: 1 } } }), [undefined, undefined]);
  assert.deepEqual(sizeOf({}), [1, undefined]);
  const spec = {
    instancetype: { name: 'u1.small' },
    preference: { name: 'linux' },
    template: { spec: { domain: {} } },
  };
  const typed = { metadata, spec } as unknown as VirtualMachine;
  const { cpus, instancetype, preference } = vmRow(typed, undefined) ?? {};
  assert.deepEqual(
    [cpus, instancetype, preference],
    [undefined, { name: 'u1.small', isCluster: true }, { name: 'linux', isCluster: true }],
  );
  const own = { ...typed.spec, preference: { kind: 'virtualmachinepreference', name: 'linux' } };
  assert.equal(vmRow({ ...typed, spec: own }, undefined)?.preference?.isCluster, false);
});
