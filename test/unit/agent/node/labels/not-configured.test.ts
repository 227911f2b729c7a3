import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type LabelPatch, NodeLabels } from '../../../../../src/agent/node/labels/node-labels.ts';
import type { Node } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeSettings } from '../../../../fixtures/agent/fake-settings.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';
import { factsOf } from './facts.ts';

const obsolete = 'node-labeller.kubevirt.io/obsolete-host-model';
const foreign = 'kubevirt.io/vm-arch-arm64';

let settings: FakeSettings;
let clock: FakeClock;
let node: Node;
let patches: LabelPatch['metadata']['labels'][];
let labels: NodeLabels;

beforeEach(() => {
  settings = new FakeSettings();
  settings.isKnown = false;
  clock = new FakeClock();
  // As an agent left it that knew what is configured.
  const present = { [obsolete]: 'true', [foreign]: 'true', 'cpu-model.node.kubevirt.io/Conroe': 'true' };
  node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'here', uid: 'one', labels: present } };
  patches = [];
  const facts = factsOf('intel-nested', 'amd64');
  labels = new NodeLabels(
    { nodeName: 'here' },
    {
      node: {
        get current() {
          return node;
        },
        onChange: () => () => undefined,
      },
      files: { facts: () => facts, read: async () => undefined, onChange: () => () => undefined },
      ...{ settings, clock, log: silentLogger, random: () => 0 },
      recordEvent: () => assert.fail('an event of what nobody knows'),
      patchNode: async (_name, patch) => {
        patches.push(patch.metadata.labels);
        const merged = Object.entries({ ...node.metadata.labels, ...patch.metadata.labels });
        const left = merged.filter((entry): entry is [string, string] => entry[1] !== null);
        node = { ...node, metadata: { ...node.metadata, labels: Object.fromEntries(left) } };
        return node;
      },
    },
  );
});
afterEach(async () => {
  await labels.stop();
  assert.equal(clock.timers, 0);
});

describe('labels while nobody knows what is configured', () => {
  it('that follow from the machine alone are written, and what follows from the configuration stays as it is', async () => {
    await labels.start();
    await clock.pass(60_000);
    assert.equal(patches.length, 1);
    assert.equal(patches[0]?.['machine-type.node.kubevirt.io/q35'], 'true');
    assert.deepEqual(
      Object.keys(patches[0] ?? {}).filter((key) => /cpu-model|obsolete|vm-arch/.test(key)),
      [],
    );
  });

  it('follow when it is known, also where it says nothing', async () => {
    await labels.start();
    await clock.pass(1_000);
    settings.isKnown = true;
    await clock.pass(10_000);
    assert.equal(patches.length, 2);
    for (const key of [obsolete, foreign]) assert.equal(patches[1]?.[key], null);
    assert.ok(Object.keys(patches[1] ?? {}).some((key) => key.startsWith('cpu-model.node.kubevirt.io/')));
    await clock.pass(600_000);
    assert.equal(patches.length, 2);
  });
});
