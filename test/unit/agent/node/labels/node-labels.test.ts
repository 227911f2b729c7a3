import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { explainLabels } from '../../../../../src/agent/node/labels/explain.ts';
import type { LabelFacts } from '../../../../../src/agent/node/labels/facts.ts';
import { type LabelPatch, NodeLabels } from '../../../../../src/agent/node/labels/index.ts';
import { planLabels } from '../../../../../src/agent/node/labels/plan.ts';
import type { LabelSettings } from '../../../../../src/agent/node/labels/settings.ts';
import type { ClusterSettings, Node } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import type { AgentConfig } from '../../../../../src/cluster-config/index.ts';
import { KubeError } from '../../../../../src/kube/index.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';
import { defaults, factsOf } from './facts.ts';

/** A node as the API server has it, and as the agent's watch shows it: at once, or when `deliver` is called. */
class World {
  readonly clock = new FakeClock();
  readonly events: string[] = [];
  readonly patches: LabelPatch[] = [];
  stored: Node | undefined = node({ 'kubernetes.io/arch': 'amd64', 'kubevirt.io/schedulable': 'true' });
  seen: Node | undefined = this.stored;
  isWatchLate = false;
  /** Instead of taking the next patches. */
  refusal: Error | undefined;
  /** Labels that admission takes out of every patch. */
  dropped: readonly string[] = [];
  facts: LabelFacts = factsOf('intel-nested', 'amd64');
  config: LabelSettings = defaults;
  reads = 0;
  labels = this.#agent();
  #nodeListeners = new Set<() => void>();
  #fileListeners = new Set<() => void>();
  #selects = new Set<() => void>();

  #agent(): NodeLabels {
    const world = this;
    const add = (set: () => Set<() => void>) => (listener: () => void) => {
      set().add(listener);
      return () => set().delete(listener);
    };
    const select: ClusterSettings['select'] = (read, onChange) => {
      const call = () => onChange(read(effective(world.config)));
      call();
      return add(() => world.#selects)(call);
    };
    return new NodeLabels(
      { nodeName: 'here' },
      {
        node: {
          get current() {
            return world.seen;
          },
          onChange: add(() => world.#nodeListeners),
        },
        files: {
          facts: () => world.facts,
          read: async () => {
            world.reads++;
          },
          onChange: add(() => world.#fileListeners),
        },
        settings: { select, isKnown: true },
        patchNode: async (name, patch) => world.#patch(name, patch),
        recordEvent: (subject, { reason, message }) =>
          this.events.push(`${subject.metadata.name} ${reason} ${/model (\S+)/.exec(message)?.[1]}`),
        log: silentLogger,
        clock: this.clock,
        random: () => 0,
      },
    );
  }

  /** Another agent process on the same node. */
  async restart(): Promise<void> {
    await this.labels.stop();
    this.labels = this.#agent();
    await this.labels.start();
    await this.clock.pass(1);
  }

  async start(): Promise<void> {
    await this.labels.start();
    await this.clock.pass(1);
  }

  async setFacts(facts: LabelFacts): Promise<void> {
    this.facts = facts;
    for (const listener of this.#fileListeners) listener();
    await this.clock.pass(1);
  }

  async setConfig(config: LabelSettings): Promise<void> {
    this.config = config;
    for (const listener of this.#selects) listener();
    await this.clock.pass(1);
  }

  /** Somebody else writes labels; undefined takes one away. */
  async edit(labels: Readonly<Record<string, string | undefined>>, annotations = {}): Promise<void> {
    const { stored } = this;
    assert.ok(stored);
    const merged = { ...stored.metadata.labels, ...labels };
    const left = Object.entries(merged).filter((entry): entry is [string, string] => entry[1] !== undefined);
    await this.store({
      ...stored,
      metadata: { ...stored.metadata, labels: Object.fromEntries(left), annotations },
    });
  }

  async store(stored: Node | undefined): Promise<void> {
    this.stored = stored && versioned(stored, this.stored);
    if (!this.isWatchLate) await this.deliver();
  }

  async deliver(): Promise<void> {
    this.seen = this.stored;
    for (const listener of this.#nodeListeners) listener();
    await this.clock.pass(1);
  }

  async #patch(name: string, patch: LabelPatch): Promise<Node> {
    this.patches.push(patch);
    if (this.refusal) throw this.refusal;
    assert.equal(name, 'here');
    assert.ok(this.stored);
    const changes = Object.entries(patch.metadata.labels).filter(([key]) => !this.dropped.includes(key));
    const labels = { ...this.stored.metadata.labels };
    for (const [key, value] of changes) {
      if (value === null) delete labels[key];
      else labels[key] = value;
    }
    this.stored = versioned({ ...this.stored, metadata: { ...this.stored.metadata, labels } }, this.stored);
    if (!this.isWatchLate) setImmediate(() => void this.deliver());
    return this.stored;
  }

  get expected(): Readonly<Record<string, string>> {
    return Object.fromEntries(planLabels(this.facts, this.config).labels);
  }

  get labelsNow(): Readonly<Record<string, string>> {
    return this.stored?.metadata.labels ?? {};
  }
}

const others = { 'kubernetes.io/arch': 'amd64', 'kubevirt.io/schedulable': 'true' };

function node(labels: Record<string, string>, annotations: Record<string, string> = {}): Node {
  const metadata = { name: 'here', uid: 'one', resourceVersion: '1', labels, annotations };
  return { apiVersion: 'v1', kind: 'Node', metadata };
}

function versioned(next: Node, last: Node | undefined): Node {
  const resourceVersion = String(Number(last?.metadata.resourceVersion ?? '0') + 1);
  return { ...next, metadata: { ...next.metadata, resourceVersion } };
}

function effective({ obsoleteModels, crossArchitecture }: LabelSettings): AgentConfig {
  const gates = { CrossArchitectureVirtualization: crossArchitecture };
  return { node: { obsoleteCpuModels: obsoleteModels, gates } } as unknown as AgentConfig;
}

let world = new World();
afterEach(async () => {
  await world.labels.stop();
  assert.equal(world.clock.timers, 0, 'a timer stayed');
  world = new World();
});

test('a new node gets all its labels by one patch, and keeps those of others', async () => {
  await world.start();
  assert.equal(world.patches.length, 1);
  assert.deepEqual(world.labelsNow, { ...others, ...world.expected });
  assert.deepEqual(Object.keys(world.patches[0]?.metadata ?? {}), ['labels']);
});

test('a node that has its labels is never written to, however long the agent runs or how often it starts', async () => {
  world.stored = world.seen = node({ ...others, ...world.expected });
  await world.start();
  await world.restart();
  await world.clock.pass(3_600_000);
  assert.deepEqual(world.patches, []);
  assert.ok(world.reads >= 10, 'files are looked at now and then');
});

test('others may change what is theirs: no request follows', async () => {
  await world.start();
  for (let beat = 0; beat < 50; beat++) await world.edit({ 'mine.example.com/x': String(beat) }, { beat });
  assert.equal(world.patches.length, 1);
});

test('a label of ours that somebody takes away or changes is put right at once', async () => {
  await world.start();
  await world.edit({ 'machine-type.node.kubevirt.io/q35': undefined, 'cpu-vendor.node.kubevirt.io/Intel': 'no' });
  assert.deepEqual(world.patches.at(-1)?.metadata.labels, {
    'machine-type.node.kubevirt.io/q35': 'true',
    'cpu-vendor.node.kubevirt.io/Intel': 'true',
  });
  assert.deepEqual(world.labelsNow, { ...others, ...world.expected });
});

test('a watch that lags behind the own patch brings no second one', async () => {
  world.isWatchLate = true;
  await world.start();
  await world.setFacts({ ...world.facts, realtime: { kind: 'known', value: true, from: 'x' } });
  assert.deepEqual(
    world.patches.map(({ metadata }) => Object.keys(metadata.labels).length > 1),
    [true, false],
  );
  await world.deliver();
  await world.clock.pass(600_000);
  assert.equal(world.patches.length, 2);
});

test('changed files and a changed configuration are followed at once, each by the difference only', async () => {
  await world.start();
  await world.setFacts(factsOf('amd-milan-snp', 'amd64'));
  assert.equal(world.patches.at(-1)?.metadata.labels['cpu-vendor.node.kubevirt.io/Intel'], null);
  assert.deepEqual(world.labelsNow, { ...others, ...world.expected });
  await world.setConfig({ obsoleteModels: undefined, crossArchitecture: true });
  assert.deepEqual(world.patches.at(-1)?.metadata.labels, { 'kubevirt.io/vm-arch-amd64': 'true' });
  await world.setConfig(defaults);
  assert.deepEqual(world.patches.at(-1)?.metadata.labels, { 'kubevirt.io/vm-arch-amd64': null });
});

test('a refused patch is tried again at growing distances, not at every change of the node, until it is taken', async () => {
  world.refusal = new KubeError('FORBIDDEN', 'denied by policy');
  await world.start();
  await world.clock.pass(600_000);
  const tries = world.patches.length;
  assert.ok(tries >= 8 && tries <= 14, `${tries} tries in ten minutes`);
  assert.match(world.labels.state.problem ?? '', /denied by policy/);
  for (let beat = 0; beat < 50; beat++) await world.edit({ beat: String(beat) });
  assert.equal(world.patches.length, tries);
  world.refusal = undefined;
  await world.clock.pass(400_000);
  assert.equal(world.patches.length, tries + 1);
  assert.equal(world.labels.state.problem, undefined);
  assert.equal(world.labelsNow['machine-type.node.kubevirt.io/q35'], 'true');
});

const hour = 3_600_000;
const q35 = 'machine-type.node.kubevirt.io/q35';

/** As long as a whole night takes in small steps. */
async function pass(hours: number): Promise<void> {
  for (let step = 0; step < hours * 6; step++) await world.clock.pass(hour / 6);
}

test('a label that admission silently drops is asked for ever more seldom, once per hour in the end, and said once', async () => {
  world.dropped = [q35];
  await world.start();
  await world.clock.pass(60_000);
  assert.ok(world.patches.length >= 3 && world.patches.length <= 6, `${world.patches.length} patches in a minute`);
  assert.match(world.labels.explain().problem ?? '', /drops machine-type\.node\.kubevirt\.io\/q35: a webhook/);
  await pass(3);
  const early = world.patches.length;
  assert.ok(early <= 16, `${early} patches in the first hours`);
  await pass(10);
  assert.ok(world.patches.length - early <= 13, `${world.patches.length - early} patches in ten hours`);
  assert.deepEqual(world.events, ['here NodeLabelsDropped undefined']);
  assert.deepEqual(world.patches.at(-1)?.metadata.labels, { [q35]: 'true' });
});

test('while a label is dropped, what others do to the other labels is put right at once, and what changes is written at once', async () => {
  world.dropped = [q35];
  await world.start();
  await pass(2);
  const before = world.patches.length;
  await world.edit({ 'cpu-vendor.node.kubevirt.io/Intel': undefined });
  assert.deepEqual(
    world.patches.slice(before).map(({ metadata }) => metadata.labels),
    [{ 'cpu-vendor.node.kubevirt.io/Intel': 'true' }],
  );
  await world.setConfig({ obsoleteModels: undefined, crossArchitecture: true });
  assert.equal(world.labelsNow['kubevirt.io/vm-arch-amd64'], 'true');
  for (let beat = 0; beat < 50; beat++) await world.edit({ 'mine.example.com/x': String(beat) });
  assert.equal(world.patches.length, before + 2);
  assert.equal(world.events.length, 1);
});

test('a label that is dropped no more is there within the hour, and nothing is wrong any more', async () => {
  world.dropped = [q35];
  await world.start();
  await pass(3);
  world.dropped = [];
  await pass(2);
  assert.equal(world.labelsNow[q35], 'true');
  assert.equal(world.labels.state.problem, undefined);
  const { length } = world.patches;
  await pass(5);
  assert.equal(world.patches.length, length);
});

test('a node made anew gets all labels at once, also one that was dropped before', async () => {
  world.dropped = [q35];
  await world.start();
  await pass(3);
  world.dropped = [];
  const again = node({});
  await world.store({ ...again, metadata: { ...again.metadata, uid: 'two' } });
  assert.deepEqual(world.labelsNow, world.expected);
});

test('a label that a webhook puts back each time is not taken away in a loop', async () => {
  world.stored = world.seen = node({ ...others, ...world.expected, 'kubevirt.io/s390-pv': 'true' });
  world.dropped = ['kubevirt.io/s390-pv'];
  await world.start();
  await pass(5);
  assert.ok(world.patches.length <= 16, `${world.patches.length} patches`);
  assert.equal(world.events.length, 1);
});

test('somebody who always takes a label away again does not make the two write against each other without end', async () => {
  await world.start();
  for (let round = 0; round < 100; round++) await world.edit({ 'machine-type.node.kubevirt.io/q35': undefined });
  assert.ok(world.patches.length <= 12, `${world.patches.length} patches`);
  assert.match(world.labels.state.problem ?? '', /another client keeps changing/);
  await world.clock.pass(120_000);
  assert.equal(world.labelsNow['machine-type.node.kubevirt.io/q35'], 'true');
  assert.equal(world.labels.state.problem, undefined);
});

test('a node with the annotation that forbids it is left alone, until the annotation goes', async () => {
  const skip = { 'node-labeller.kubevirt.io/skip-node': '' };
  world.stored = world.seen = node({ ...others, 'cpu-vendor.node.kubevirt.io/AMD': 'true' }, skip);
  await world.start();
  await world.setFacts(factsOf('amd-milan-snp', 'amd64'));
  assert.deepEqual(world.patches, []);
  assert.equal(world.labels.explain().state, 'skipped');
  await world.edit({}, {});
  assert.deepEqual(world.labelsNow, { ...others, ...world.expected });
});

test('a node that is not there yet, is deleted and comes back gets its labels when it comes', async () => {
  world.stored = world.seen = undefined;
  await world.start();
  assert.equal(world.labels.explain().state, 'absent');
  await world.store(node({}));
  assert.equal(world.patches.length, 1);
  await world.store(undefined);
  const again = node({});
  await world.store({ ...again, metadata: { ...again.metadata, uid: 'two' } });
  assert.equal(world.patches.length, 2);
  assert.deepEqual(world.labelsNow, world.expected);
});

test('while nothing is known of the files, labels of an earlier agent stay', async () => {
  const { facts } = world;
  const because = { kind: 'unknown', because: 'it is empty' } as const;
  const labels = { ...others, ...world.expected };
  world.stored = world.seen = node(labels);
  world.facts = {
    ...facts,
    domain: because,
    machine: because,
    features: because,
    foreignArchs: because,
    realtime: because,
  };
  await world.start();
  assert.deepEqual(world.patches, []);
  assert.ok(world.labels.explain().here.every(({ state }) => state !== 'pending'));
});

test('an obsolete host model is told once per change: not at a restart, not when the label is put back', async () => {
  const obsolete = (...obsoleteModels: string[]) => world.setConfig({ ...defaults, obsoleteModels });
  await world.start();
  await obsolete('Skylake-Client-noTSX-IBRS');
  assert.deepEqual(world.events, ['here HostModelIsObsolete Skylake-Client-noTSX-IBRS']);
  await world.edit({ 'node-labeller.kubevirt.io/obsolete-host-model': undefined });
  assert.equal(world.labelsNow['node-labeller.kubevirt.io/obsolete-host-model'], 'true');
  await obsolete('Skylake-Client-noTSX-IBRS', 'Haswell');
  await world.restart();
  await world.clock.pass(3_600_000);
  assert.equal(world.events.length, 1);
  await obsolete();
  await obsolete('Skylake-Client-noTSX-IBRS');
  assert.equal(world.events.length, 2);
});

test('an agent that leaves says nothing more', async () => {
  await world.start();
  await world.labels.stop();
  await world.edit({ 'machine-type.node.kubevirt.io/q35': undefined });
  await world.clock.pass(3_600_000);
  assert.equal(world.patches.length, 1);
});

test('why each label is there is told from what is known now', async () => {
  await world.start();
  const report = world.labels.explain();
  const situation = { node: 'present', problem: undefined } as const;
  assert.deepEqual(report, explainLabels(planLabels(world.facts, defaults), world.labelsNow, situation));
  assert.equal(report.here.length, Object.keys(world.expected).length);
});
