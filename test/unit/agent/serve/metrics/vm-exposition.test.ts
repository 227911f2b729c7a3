import assert from 'node:assert/strict';
import { test } from 'node:test';
import { packLines } from '../../../../../src/agent/serve/metrics/packed-lines.ts';
import { Pieces } from '../../../../../src/agent/serve/metrics/pieces.ts';
import { vmExposition } from '../../../../../src/agent/serve/metrics/vm-exposition.ts';
import { filesystemLines, statsLines } from '../../../../../src/agent/serve/metrics/vm-lines.ts';
import { domainStatsJson, filesystemsJson } from '../../../../fixtures/domain-stats.ts';
import { unpacked } from '../../../../fixtures/packed-lines.ts';

const none = { syncs: () => [].values() as never, panics: () => [].values() as never };
const labels = (at: number) => `node="n",namespace="default",name="vm-${at}"`;
const vmOf = (at: number, mountPoint = '/') => ({
  key: `default/vm-${at}`,
  lines: [
    packLines(statsLines(domainStatsJson(), labels(at)) ?? new Map()),
    packLines(filesystemLines(filesystemsJson.replace('"/"', JSON.stringify(mountPoint)), labels(at))),
  ],
  sources: [
    { source: 'stats', ageMs: 1_234.5, errors: 0 },
    { source: 'filesystems', ageMs: undefined, errors: 3 },
  ] as const,
});

test('packed lines are those that went in, whatever their letters', () => {
  const lines = filesystemLines(JSON.stringify([{ mountPoint: 'é😀"', totalBytes: 1, usedBytes: 2 }]), labels(1));
  assert.deepEqual(unpacked(packLines(lines)), lines);
  const stats = statsLines(domainStatsJson(), labels(1)) ?? new Map();
  assert.deepEqual(unpacked(packLines(stats)), stats);
  assert.equal(unpacked(packLines(new Map())).size, 0);
});

test('many VMs come in pieces of bounded size, each family in one block, each series once', () => {
  const pieces = [
    ...vmExposition(
      Array.from({ length: 100 }, (_, at) => vmOf(at, at === 7 ? '/é😀' : '/')),
      none,
    ),
  ];
  assert.ok(pieces.length > 2);
  for (const piece of pieces) assert.ok(piece.length <= 128 * 1024);
  const lines = Buffer.concat(pieces).toString().trimEnd().split('\n');
  const heads = lines.filter((line) => line.startsWith('# TYPE'));
  assert.equal(new Set(heads).size, heads.length);
  const samples = lines.filter((line) => !line.startsWith('#'));
  assert.equal(new Set(samples).size, samples.length);
  assert.equal(samples.filter((line) => line.startsWith('kubevirt_vmi_memory_resident_bytes{')).length, 100);
  let family = '';
  for (const line of lines) {
    if (line.startsWith('# TYPE')) family = line.split(' ')[2] ?? '';
    assert.ok(line.startsWith('#') || line.startsWith(`${family}{`), line);
  }
  assert.ok(
    lines.includes(
      `kubevirt_vmi_filesystem_used_bytes{${labels(7)},disk_name="vda1",mount_point="/é😀",file_system_type="ext4"} 400`,
    ),
  );
  const who = 'namespace="default",name="vm-7"';
  assert.ok(lines.includes(`kubevirt_virt_handler_vm_sample_age_seconds{${who},source="stats"} 1.235`));
  assert.ok(!lines.some((line) => line.startsWith(`kubevirt_virt_handler_vm_sample_age_seconds{${who},source="file`)));
  assert.ok(lines.includes(`kubevirt_virt_handler_vm_sample_errors_total{${who},source="filesystems"} 3`));
});

test('what is larger than a piece has a piece of its own, and nothing is lost at the edges', () => {
  const pieces = new Pieces(10);
  const parts = ['abc', 'é'.repeat(4), 'x'.repeat(25), '', '0123456789', 'end'];
  for (const part of parts) {
    if (part.length % 2 === 0) pieces.text(part);
    else pieces.copy(Buffer.from(`>>${part}<<`), 2, 2 + Buffer.byteLength(part));
  }
  assert.equal(Buffer.concat(pieces.end()).toString(), parts.join(''));
});
