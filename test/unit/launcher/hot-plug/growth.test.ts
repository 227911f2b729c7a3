import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaimInfo, VolumeStatus } from '../../../../src/api/index.ts';
import { readLiveDomain } from '../../../../src/launcher/domain/index.ts';
import { growableDisks, grownBlockSize, grownFileSize } from '../../../../src/launcher/hot-plug/growth.ts';
import { vmiWith } from '../domain/cases.ts';

const mebibyte = 2 ** 20;
const wide = { allocatedBytes: 0, freeBytes: 100 * mebibyte };

const info = (change: PersistentVolumeClaimInfo = {}): PersistentVolumeClaimInfo => ({
  capacity: { storage: '20Mi' },
  requests: { storage: '20Mi' },
  filesystemOverhead: '0',
  ...change,
});

const rows: readonly (readonly [
  string,
  PersistentVolumeClaimInfo,
  hasMiB: number,
  typeof wide,
  expectedMiB?: number,
])[] = [
  ['a claim that has grown', info(), 10, wide, 20],
  ['a claim of the same size', info(), 20, wide],
  ['a claim that is smaller, since a disk never shrinks', info(), 30, wide],
  ['the share of the file system', info({ filesystemOverhead: '0.055' }), 10, wide, 18],
  ['the smaller of request and capacity', info({ requests: { storage: '15Mi' } }), 10, wide, 15],
  ['a disk of the node with less room', info(), 10, { allocatedBytes: 10 * mebibyte, freeBytes: 2.5 * mebibyte }, 12],
  ['a disk whose size is not known', info(), 0, wide],
  ['a claim without capacity', info({ capacity: {} }), 10, wide],
  ['a claim without request', info({ requests: {} }), 10, wide],
  ['a share that is no number', info({ filesystemOverhead: 'much' }), 10, wide],
  ['a share above one', info({ filesystemOverhead: '1.5' }), 10, wide],
  ['a share below zero', info({ filesystemOverhead: '-1' }), 10, wide],
  ['no share', info({ filesystemOverhead: '' }), 10, wide],
];

for (const [situation, persistentVolumeClaimInfo, hasMiB, room, expectedMiB] of rows) {
  test(`a disk in a file and ${situation}: ${expectedMiB === undefined ? 'stays' : `grows to ${expectedMiB} MiB`}`, () => {
    const status: VolumeStatus = { name: 'a', target: 'vda', persistentVolumeClaimInfo };
    const capacityBytes = BigInt(hasMiB * mebibyte);
    const size = grownFileSize(status, { capacityBytes, physicalBytes: 0n }, room);
    assert.equal(size, expectedMiB === undefined ? undefined : BigInt(expectedMiB * mebibyte));
  });
}

test('a disk on a block device gets all of it, and only then', () => {
  assert.equal(grownBlockSize({ capacityBytes: 1n, physicalBytes: 4n }), 4n);
  assert.equal(grownBlockSize({ capacityBytes: 4n, physicalBytes: 4n }), undefined);
  assert.equal(grownBlockSize({ capacityBytes: 0n, physicalBytes: 4n }), undefined);
});

test('only disks on claims that the guest writes itself are looked at', () => {
  const disk = (name: string, device: string, more: string) =>
    `<disk type='file' device='${device}'><source file='/x'/>${more}<target dev='${name}'/><alias name='ua-${name}'/></disk>`;
  const { disks } = readLiveDomain(
    `<domain><devices>${[
      disk('claim', 'disk', '<backingStore/>'),
      disk('other', 'disk', ''),
      disk('layer', 'disk', "<backingStore type='file'><source file='/y'/></backingStore>"),
      disk('fixed', 'disk', '<readonly/>'),
      disk('cd', 'cdrom', ''),
    ].join('')}</devices></domain>`,
  );
  const volumeStatus = ['claim', 'layer', 'fixed', 'cd'].map((name) => ({
    name,
    target: '',
    persistentVolumeClaimInfo: info(),
  }));
  const found = growableDisks({ ...vmiWith(), status: { volumeStatus } }, disks);
  assert.deepEqual(
    found.map((one) => one.disk.name),
    ['claim'],
  );
});
