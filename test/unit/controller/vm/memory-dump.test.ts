import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachine, VirtualMachineInstance, Volume } from '../../../../src/api/index.ts';
import { dumpVolumes, projectDump, withoutDumpVolume } from '../../../../src/controller/vm/memory-dump.ts';
import { buildVm } from '../builders.ts';

const now = '2026-01-02T03:04:05Z';
const root: Volume = { name: 'root', containerDisk: { image: 'i' } };
const dump: Volume = { name: 'c', memoryDump: { claimName: 'c', hotpluggable: true } };
const other: Volume = { name: 'c', persistentVolumeClaim: { claimName: 'other' } };

function vmOf(volumes: readonly Volume[], request: unknown): VirtualMachine {
  const template = { spec: { domain: { devices: {} }, volumes: [...volumes] } };
  return buildVm({ template } as never, { memoryDumpRequest: request as never });
}

function vmiOf(volumes: readonly Volume[], status: object = {}): VirtualMachineInstance {
  return {
    metadata: { name: 'vm' },
    spec: { domain: { devices: {} }, volumes },
    status: { phase: 'Running', ...status },
  } as never;
}

const at = (phase: string, more: object = {}) => ({ claimName: 'c', phase, ...more });
const entry = (phase: string, memoryDumpVolume: unknown = {}, message = '') => ({
  volumeStatus: [{ name: 'c', target: '', phase, message, memoryDumpVolume }],
});

const plugged: readonly (readonly [
  what: string,
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  template: readonly Volume[] | undefined,
  guest: readonly Volume[] | undefined,
])[] = [
  ['asked for: both get the claim', vmOf([root], at('Associating')), vmiOf([root]), [root, dump], [root, dump]],
  ['the guest has it already', vmOf([root], at('Associating')), vmiOf([root, dump]), [root, dump], undefined],
  [
    'the guest does not run yet',
    vmOf([root], at('Associating')),
    vmiOf([root], { phase: 'Scheduled' }),
    undefined,
    undefined,
  ],
  ['there is no guest', vmOf([root], at('Associating')), undefined, undefined, undefined],
  ['another volume has the name', vmOf([other], at('Associating')), vmiOf([other]), undefined, undefined],
  ['under way: nothing changes', vmOf([root, dump], at('InProgress')), vmiOf([root, dump]), undefined, undefined],
  ['done: the guest loses it', vmOf([root, dump], at('Unmounting')), vmiOf([root, dump]), undefined, [root]],
  ['failed: the guest loses it', vmOf([root, dump], at('Failed')), vmiOf([dump]), undefined, []],
  ['failed by the name: the other volume stays', vmOf([other], at('Failed')), vmiOf([other]), undefined, undefined],
  ['taken back: both lose it', vmOf([root, dump], at('Dissociating')), vmiOf([root, dump]), [root], [root]],
  ['taken back while under way', vmOf([dump], at('InProgress', { remove: true })), vmiOf([dump]), [], []],
  ['taken back, no guest', vmOf([root, dump], at('Completed', { remove: true })), undefined, [root], undefined],
  [
    'a guest that has ended is left alone',
    vmOf([dump], at('Failed')),
    vmiOf([dump], { phase: 'Failed' }),
    undefined,
    undefined,
  ],
];
for (const [what, vm, vmi, template, guest] of plugged) {
  test(`volumes of a memory dump: ${what}`, () => {
    const found = dumpVolumes({ vm, vmi });
    assert.deepEqual([found?.template?.volumes, found?.vmi?.volumes], [template, guest]);
    assert.equal(found === undefined, template === undefined && guest === undefined);
  });
}

const times = { startTimestamp: '2026-01-02T03:00:00Z', endTimestamp: '2026-01-02T03:01:00Z' };
const told: readonly (readonly [
  what: string,
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  request: unknown,
])[] = [
  ['it waits for the claim', vmOf([root], at('Associating')), vmiOf([root]), at('Associating')],
  ['the template has the claim', vmOf([dump], at('Associating')), vmiOf([dump]), at('InProgress')],
  [
    'another volume has the name',
    vmOf([other], at('Associating')),
    vmiOf([other]),
    at('Failed', {
      message: 'another volume of the VM has the name of the claim: rename volume c, or use another claim',
      endTimestamp: now,
    }),
  ],
  [
    'the node has begun',
    vmOf([dump], at('InProgress')),
    vmiOf([dump], entry('MemoryDumpInProgress', { startTimestamp: times.startTimestamp })),
    at('InProgress', { startTimestamp: times.startTimestamp }),
  ],
  [
    'it is written',
    vmOf([dump], at('InProgress')),
    vmiOf([dump], entry('MemoryDumpCompleted', { ...times, targetFileName: 'f' })),
    at('Unmounting', { ...times, fileName: 'f' }),
  ],
  [
    'it failed',
    vmOf([dump], at('InProgress')),
    vmiOf([dump], entry('MemoryDumpFailed', times, 'no room')),
    at('Failed', { ...times, message: 'no room' }),
  ],
  ['the node has said nothing', vmOf([dump], at('InProgress')), vmiOf([dump], entry('Bound', 7)), at('InProgress')],
  [
    'the guest ended',
    vmOf([dump], at('InProgress')),
    undefined,
    at('Failed', {
      message: 'the guest ended before its memory was written: start the VM and ask again',
      endTimestamp: now,
    }),
  ],
  ['the claim is still there', vmOf([dump], at('Unmounting')), vmiOf([], entry('Detaching')), at('Unmounting')],
  ['the claim is gone', vmOf([dump], at('Unmounting')), vmiOf([]), at('Completed')],
  ['over', vmOf([dump], at('Completed')), vmiOf([]), at('Completed')],
  [
    'taken back, still there',
    vmOf([dump], at('Completed', { remove: true })),
    vmiOf([]),
    at('Dissociating', { remove: true }),
  ],
  ['taken back and gone', vmOf([root], at('Dissociating', { remove: true })), vmiOf([root]), undefined],
];
for (const [what, vm, vmi, request] of told) {
  test(`status of a memory dump: ${what}`, () => {
    assert.deepEqual(projectDump(vm, vmi, now), request);
  });
}

test('what a bare API server took for a request is passed over', () => {
  for (const odd of [7, {}, { claimName: 7 }, { claimName: '', phase: 'Associating' }]) {
    const vm = vmOf([root], odd);
    assert.equal(dumpVolumes({ vm, vmi: vmiOf([root]) }), undefined);
    assert.deepEqual(projectDump(vm, undefined, now), odd);
  }
});

test('no guest begins with the volume of a dump', () => {
  assert.deepEqual(withoutDumpVolume([root, dump], vmOf([], at('Completed'))), [root]);
  assert.deepEqual(withoutDumpVolume([other], vmOf([], at('Completed'))), [other]);
  assert.deepEqual(withoutDumpVolume([root, dump], buildVm({}, {})), [root, dump]);
});
