import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { setImageChecksums } from '../../../../../src/agent/vmi/status/image-checksums.ts';
import { project } from '../../../../../src/agent/vmi/status/index.ts';
import type { VmiStatus } from '../../../../../src/api/index.ts';
import {
  clusterConfig,
  domainOf,
  observationOf,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';

const facts = { imageChecksums: { volumes: { root: 7, other: 9 }, kernel: 3 } } as never;
const alive = { metadata: { name: 'vm' } };
const statusOf = (): VmiStatus => ({
  volumeStatus: [
    { name: 'root', target: 'vda' },
    { name: 'data', target: 'vdb' },
  ],
});

test('sums go to the volumes that have one and to the kernel, and to nothing else', () => {
  const status = statusOf();
  setImageChecksums(status, facts, alive);
  assert.deepEqual(status, {
    volumeStatus: [
      { name: 'root', target: 'vda', containerDiskVolume: { checksum: 7 } },
      { name: 'data', target: 'vdb' },
    ],
    kernelBootStatus: { kernelInfo: { checksum: 3 } },
  });
});

test('sums that are there stay, and a VMI that goes gets none', () => {
  const told: VmiStatus = {
    volumeStatus: [{ name: 'root', target: 'vda', containerDiskVolume: { checksum: 1 } }],
    kernelBootStatus: { kernelInfo: { checksum: 2 } },
  };
  const before = structuredClone(told);
  setImageChecksums(told, facts, alive);
  assert.deepEqual(told, before);
  const going = statusOf();
  setImageChecksums(going, facts, { metadata: { name: 'vm', deletionTimestamp: '2026-01-01T00:00:00Z' } });
  assert.deepEqual(going, statusOf());
});

test('nothing is written while they are not known', () => {
  const status = statusOf();
  setImageChecksums(status, {} as never, alive);
  assert.deepEqual(status, statusOf());
});

test('they are in the status that is written, beside what the domain says of the same volumes', () => {
  const vmi = vmiOf('Running', {
    spec: { domain: { devices: {} }, volumes: [{ name: 'root', containerDisk: { image: 'demo' } }] },
    status: statusOf(),
  });
  const statusFacts = { config: clusterConfig.status, isoSizes: {}, ...(facts as object) };
  const observation = observationOf({ vmi: presentVmi(vmi), domain: seen(domainOf('Running')), statusFacts });
  const { vmi: written } = project(vmi, { observation, decision: decide(observation), outcomes: [] });
  assert.deepEqual(written?.status?.volumeStatus, [
    { name: 'data', target: '' },
    { name: 'root', target: '', containerDiskVolume: { checksum: 7 } },
  ]);
  assert.deepEqual(written?.status?.kernelBootStatus, { kernelInfo: { checksum: 3 } });
});
