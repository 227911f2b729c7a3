import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk, VirtualMachine, VmiPhase, Volume } from '../../../../src/api/index.ts';
import { pluggedVolumes } from '../../../../src/controller/vm/hotplug.ts';
import { buildVm, buildVmi } from '../builders.ts';

const claim = (name: string, claimName = name): Volume => ({
  name,
  persistentVolumeClaim: { claimName, hotpluggable: true },
});
const root: Volume = { name: 'root', containerDisk: { image: 'x' } };
const scsi = (name: string): Disk => ({ name, disk: { bus: 'scsi' } });
const drive = (name: string): Disk => ({ name, cdrom: { bus: 'sata' } });

interface Devices {
  readonly volumes?: Volume[];
  readonly disks?: Disk[];
}

interface Row {
  readonly when: string;
  readonly vm: Devices;
  readonly vmi: Devices;
  /** Volumes that the VMI has an entry for. */
  readonly known?: readonly string[];
  readonly phase?: VmiPhase;
  readonly strategy?: string;
  readonly expected: string;
}

const with1: Devices = { volumes: [root, claim('a')], disks: [scsi('root'), scsi('a')] };
const without: Devices = { volumes: [root], disks: [scsi('root')] };

const rows: readonly Row[] = [
  { when: 'nothing differs', vm: with1, vmi: with1, expected: '-' },
  { when: 'a volume was added', vm: with1, vmi: without, expected: 'root,a on root,a' },
  {
    when: 'the first of all was added',
    vm: { volumes: [claim('a')], disks: [scsi('a')] },
    vmi: {},
    expected: 'a on a',
  },
  { when: 'it was added while the old one leaves', vm: with1, vmi: without, known: ['a'], expected: '-' },
  { when: 'a volume was taken out', vm: without, vmi: with1, known: ['a'], expected: 'root on root' },
  {
    when: 'a volume has another claim',
    vm: { ...with1, volumes: [root, claim('a', 'b')] },
    vmi: with1,
    known: ['a'],
    expected: 'root on root',
  },
  {
    when: 'a volume that cannot be plugged was added',
    vm: { volumes: [root, { name: 'a', persistentVolumeClaim: { claimName: 'a' } }] },
    vmi: without,
    expected: '-',
  },
  { when: 'a volume of the start was taken out', vm: {}, vmi: without, expected: '-' },
  { when: 'the VMI does not run', vm: with1, vmi: without, phase: 'Scheduled', expected: '-' },
  {
    when: 'volumes are moved and one is added',
    vm: with1,
    vmi: without,
    strategy: 'Migration',
    expected: 'root,a on root,a',
  },
  {
    when: 'volumes are moved and one was taken out',
    vm: without,
    vmi: with1,
    strategy: 'Migration',
    expected: 'root on root',
  },
  {
    when: 'a volume was to be moved to another claim',
    vm: { ...with1, volumes: [root, claim('a', 'b')] },
    vmi: with1,
    strategy: 'Migration',
    known: ['a'],
    expected: '-',
  },
  {
    when: 'a medium is put into a drive',
    vm: { volumes: [claim('cd')], disks: [drive('cd')] },
    vmi: { disks: [drive('cd')] },
    expected: 'cd on cd',
  },
  {
    when: 'a medium is taken out of a drive',
    vm: { disks: [drive('cd')] },
    vmi: { volumes: [claim('cd')], disks: [drive('cd')] },
    known: ['cd'],
    expected: ' on cd',
  },
  {
    when: 'a drive gets another medium',
    vm: { volumes: [claim('cd', 'new')], disks: [drive('cd')] },
    vmi: { volumes: [claim('cd')], disks: [drive('cd')] },
    known: ['cd'],
    expected: ' on cd',
  },
  {
    when: 'drive and medium were taken out',
    vm: {},
    vmi: { volumes: [claim('cd')], disks: [drive('cd')] },
    known: ['cd'],
    expected: ' on ',
  },
];

const specOf = ({ volumes, disks }: Devices) => ({
  domain: { devices: { ...(disks && { disks }) } },
  ...(volumes && { volumes }),
});

function planOf({ vm, vmi, known = [], phase = 'Running', strategy }: Row): string {
  const machine: VirtualMachine = buildVm({
    template: { spec: specOf(vm) },
    ...(strategy !== undefined && { updateVolumesStrategy: strategy }),
  });
  const volumeStatus = known.map((name) => ({ name, target: '' }));
  const plugged = pluggedVolumes(machine, buildVmi(specOf(vmi), { phase, volumeStatus }));
  const names = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name).join();
  return plugged ? `${names(plugged.volumes)} on ${names(plugged.disks)}` : '-';
}

for (const row of rows) {
  test(`volumes of a running VMI when ${row.when}: ${row.expected}`, () => assert.equal(planOf(row), row.expected));
}

test('what is no list is no volume: a bare API server lets anything stand there', () => {
  const vm = buildVm({ template: { spec: { domain: {}, volumes: 'x' as unknown as Volume[] } } });
  assert.equal(pluggedVolumes(vm, buildVmi({}, { phase: 'Running' })), undefined);
});
