import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExplainFacts } from '../../../src/api/index.ts';
import { explain } from '../../../src/controller/explain/index.ts';
import { nodeRules } from '../../../src/controller/node/index.ts';
import { vmRules } from '../../../src/controller/vm/index.ts';
import { CrashLoopBackoff, DecisionLog, decisionRecord } from '../../../src/reconcile/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const clock = new FakeClock();

function controller() {
  const decisions = new DecisionLog<ExplainFacts>({}, { isSameSeen: () => true });
  const crashLoops = new CrashLoopBackoff({ failures: 3 });
  const tryOf = () => ({ state: 'idle', because: 'when the VM or its VMI changes', failuresInARow: 0 }) as const;
  return { source: { decisions, crashLoops, tryOf }, rules: vmRules };
}

const controllers = {
  vm: controller(),
  vmi: controller(),
  vmim: controller(),
  vmirs: controller(),
  vmpool: controller(),
  vmsnapshot: controller(),
  vmsnapshotcontent: controller(),
  vmrestore: controller(),
  vmclone: controller(),
  vmexport: controller(),
  vmbackup: controller(),
  vmbackuptracker: controller(),
  node: { ...controller(), rules: nodeRules },
  evacuation: controller(),
};
const seen = { strategy: 'Always', vmi: 'none' };
const observed = { uid: 'u1', now: clock.now() };
const decision = { rule: 'start', steps: [{ step: 'startVmi' }], problem: 'quota exceeded' };
controllers.vm.source.decisions.add('default/vm1', decisionRecord(observed, decision, [], { seen }));

const ask = (target: string, method = 'GET') => explain(method, target, { controllers, clock });

test('a VM has a report with the sentence of each rule', () => {
  const { httpStatus, body } = ask('/explain/vm/default/vm1');
  assert.equal(httpStatus, 200);
  const report = body.kind === 'Explanation' ? body : assert.fail(body.kind);
  assert.deepEqual([report.resource, report.namespace, report.name], ['vm', 'default', 'vm1']);
  assert.equal(report.problem, 'quota exceeded');
  assert.deepEqual(
    report.decisions.map(({ rule, why, seen: facts }) => [rule, why, facts]),
    [['start', 'The VM shall run and has no VMI, so one is created.', seen]],
  );
});

test('a node has a report without a namespace, with the sentence of each rule', () => {
  const facts = { state: 'there', agent: 'unheard of for 5 minutes' };
  const lost = { rule: 'agent-gone', steps: [] };
  controllers.node.source.decisions.add('node1', decisionRecord(observed, lost, [], { seen: facts }));
  const { httpStatus, body } = ask('/explain/node/node1');
  assert.equal(httpStatus, 200);
  const report = body.kind === 'Explanation' ? body : assert.fail(body.kind);
  assert.deepEqual([report.resource, report.namespace, report.name], ['node', '', 'node1']);
  assert.match(report.decisions[0]?.why ?? '', /^The agent of this node is gone; no guest is there/);
  assert.equal(ask('/explain/node/default/node1').httpStatus, 404);
  assert.equal(ask('/explain/evacuation/node1').httpStatus, 404);
  assert.equal(ask('/explain/node/NODE').httpStatus, 400);
});

test('the list has a line per object of its kind', () => {
  const { body } = ask('/explain/vm');
  const list = body.kind === 'ExplanationList' ? body : assert.fail(body.kind);
  assert.deepEqual(
    list.items.map(({ name, rule, problem }) => [name, rule, problem]),
    [['vm1', 'start', 'quota exceeded']],
  );
  const none = ask('/explain/vmi').body;
  assert.deepEqual(none.kind === 'ExplanationList' ? none.items : assert.fail(none.kind), []);
});

for (const [method, target, status] of [
  ['POST', '/explain/vm', 405],
  ['GET', '/explain/vmi/default/vm1', 404],
  ['GET', '/explain/pod', 404],
  ['GET', '/explain/vm/default', 404],
  ['GET', '/explain/vm/default/vm1/more', 404],
  ['GET', '/why', 404],
  ['GET', '/explain/vm/default/%2e%2e', 400],
  ['GET', '/explain/vm/default/VM', 400],
  ['GET', `/explain/vm/default/${'a'.repeat(2000)}`, 400],
] as const) {
  test(`${method} ${target.slice(0, 40)} is answered with ${status}`, () => {
    const { httpStatus, body } = ask(target, method);
    assert.equal(httpStatus, status);
    assert.equal(body.kind, 'Error');
  });
}
