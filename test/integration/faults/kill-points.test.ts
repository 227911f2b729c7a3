import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';
import { sleep } from '../../../src/base/index.ts';
import type { CommandRpc } from '../../../src/launcher-client/index.ts';
import { AgentBench, type Booted, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { eventually } from '../../fixtures/eventually.ts';
import type { ProxiedRequest, RequestFilter } from '../../fixtures/fault-proxy.ts';
import { seededRandom } from '../../fixtures/seeded-random.ts';

type Story = 'start' | 'stop' | 'delete';

/** An instant at which the agent dies. */
type KillPoint =
  /** The launcher has the call and has not answered. */
  | { readonly at: 'call'; readonly rpc: CommandRpc }
  /** `asked`: the API server has not got the request; `answered`: it has done it, and the agent has not heard. */
  | { readonly at: 'asked' | 'answered'; readonly filter: RequestFilter };

const vmi = 'virtualmachineinstances';
const points: Readonly<Record<Story, readonly KillPoint[]>> = {
  start: [
    { at: 'call', rpc: 'getDomain' },
    { at: 'call', rpc: 'syncVirtualMachine' },
    { at: 'asked', filter: { kind: 'put', resource: vmi } },
    { at: 'answered', filter: { kind: 'put', resource: vmi } },
    { at: 'asked', filter: { kind: 'post', resource: 'events' } },
    { at: 'answered', filter: { kind: 'post', resource: 'events' } },
  ],
  stop: [
    { at: 'asked', filter: { kind: 'put', resource: vmi } },
    { at: 'answered', filter: { kind: 'put', resource: vmi } },
    { at: 'call', rpc: 'deleteVirtualMachine' },
  ],
  delete: [
    { at: 'call', rpc: 'shutdownVirtualMachine' },
    { at: 'asked', filter: { kind: 'put', resource: vmi } },
    { at: 'answered', filter: { kind: 'put', resource: vmi } },
    { at: 'call', rpc: 'deleteVirtualMachine' },
  ],
};

const nameOf = (point: KillPoint) =>
  point.at === 'call'
    ? `while ${point.rpc} is under way`
    : `${point.filter.kind} of ${point.filter.resource} ${point.at}`;

suite('kill -9 of the agent', () => {
  let bench: AgentBench;
  let count = 0;

  before(async () => {
    bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
  });
  afterEach(() => bench.proxy.heal());
  after(() => bench?.dispose());

  const kept = (name: string) => ({
    metadata: { name, labels: { 'kubevirt.io/nodeName': 'node1' }, finalizers: ['test/keeps-it-to-be-read'] },
  });

  /** Brings a VMI to where the story begins. */
  async function prepare(story: Story, name: string): Promise<Booted> {
    return story === 'start' ? bench.begin(name, {}, kept(name)) : bench.play(name, {}, kept(name));
  }

  async function reportOn(story: Story, name: string, { launcher }: Booted): Promise<void> {
    if (story === 'stop') await launcher.act({ guest: 'shutdown' });
    if (story === 'delete') await bench.delete(name);
  }

  /** Where the story ends, whatever happened on the way. */
  async function assertEnd(story: Story, name: string, { launcher, uid }: Booted): Promise<void> {
    await bench.untilPhase(name, story === 'start' ? 'Running' : 'Succeeded');
    if (story !== 'start') {
      await eventually(async () => assert.equal((await launcher.report()).domain, 'none'));
      await eventually(() => assert.ok(!bench.ghosts.includes(uid)));
    }
    const { starts, kills, harm, rpcs } = await launcher.report();
    assert.deepEqual({ starts, kills, harm }, { starts: 1, kills: 0, harm: [] }, rpcs.join(' '));
  }

  function killAt(point: KillPoint, { launcher }: Booted): Promise<void> {
    return new Promise((resolve) => {
      const kill = () => {
        bench.agent.kill('SIGKILL');
        resolve();
      };
      if (point.at === 'call') launcher.onCall = (rpc) => rpc === point.rpc && kill();
      else {
        bench.proxy.hook = (request: ProxiedRequest, moment) =>
          moment === point.at && fits(request, point.filter) && kill();
      }
    });
  }

  for (const story of ['start', 'stop', 'delete'] as const) {
    for (const point of points[story]) {
      test(`in a ${story}, ${nameOf(point)}: the next agent brings it to its end, with one start and no harm`, async () => {
        const name = `${story}-${++count}`;
        const booted = story === 'start' ? await begunAfterKillIsArmed(name, point) : await prepare(story, name);
        const killed = story === 'start' ? bench.exited() : killAt(point, booted).then(() => bench.exited());
        await reportOn(story, name, booted);
        await killed;
        booted.launcher.onCall = () => undefined;
        bench.proxy.heal();
        await bench.startAgent();
        await assertEnd(story, name, booted);
      });
    }
  }

  /** A start may be over before the test has the launcher in its hands: the trap is set before there is a VMI. */
  async function begunAfterKillIsArmed(name: string, point: KillPoint): Promise<Booted> {
    const launcher = await bench.launcher(name, { play: {}, reportCalls: true });
    void killAt(point, { launcher, uid: '' });
    const uid = (await bench.create(name, kept(name))).metadata.uid ?? '';
    return { launcher, uid };
  }

  for (const story of ['start', 'stop', 'delete'] as const) {
    test(`at 8 random instants of the ${story} of 5 VMIs loses none of them and harms none`, async () => {
      const random = seededRandom(`kill-${story}`);
      const names = Array.from({ length: 5 }, (_, index) => `random-${story}-${index}`);
      const booted = await Promise.all(names.map((name) => prepare(story, name)));
      await Promise.all(names.map((name, index) => reportOn(story, name, booted[index] as Booted)));
      for (let kill = 0; kill < 8; kill++) {
        // From before the first request of an agent to well after its first passes.
        await sleep(random() * 400);
        await bench.killAgent();
        bench.spawnAgent();
      }
      await bench.untilServing();
      await Promise.all(names.map((name, index) => assertEnd(story, name, booted[index] as Booted)));
    });
  }

  test('over and over leaves no record and no notify pipe of VMIs that ended', async () => {
    const { body } = await bench.api.admin.get(`/apis/kubevirt.io/v1/namespaces/default/${vmi}`);
    const living = (body.items as { metadata: { uid: string }; status: { phase: string } }[])
      .filter(({ status }) => status.phase === 'Running')
      .map(({ metadata }) => metadata.uid);
    await eventually(() => assert.deepEqual(bench.ghosts.sort(), living.sort()));
  });
});

function fits(request: ProxiedRequest, filter: RequestFilter): boolean {
  return request.kind === filter.kind && request.resource === filter.resource;
}
