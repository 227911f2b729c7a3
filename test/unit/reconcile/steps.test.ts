import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode, errorMessage, sleep } from '../../../src/base/index.ts';
import {
  type Executors,
  type PlanRunner,
  runPlan,
  type Step,
  type StepContext,
  stepErrorOf,
  stepFailureOf,
} from '../../../src/reconcile/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

interface Args {
  push: { readonly by: number };
  pull: { readonly by: number };
  hang: object;
}

interface Context extends StepContext {
  readonly done: string[];
}

const executors: Executors<Args, Context, { readonly pushed: number }> = {
  push: async ({ by }, { done }) => {
    if (by === 0) return { kind: 'wait', afterMs: 5, reason: 'nothing to push' };
    if (by < 0) throw Object.assign(new Error('pushed the wrong way'), { code: 'WRONG' });
    done.push(`push ${by}`);
    return { kind: 'done', remember: { pushed: by } };
  },
  pull: async ({ by }, { done }) => {
    done.push(`pull ${by}`);
    return { kind: 'done' };
  },
  hang: async (_step, { signal }) => {
    await sleep(1_000_000, signal, clock);
    return { kind: 'done' };
  },
};

let clock = new FakeClock();

function run(...steps: Step<Args>[]) {
  return runWith({}, steps);
}

function runWith(more: Partial<PlanRunner<Args, Context, { readonly pushed: number }>>, steps: readonly Step<Args>[]) {
  clock = new FakeClock();
  const runner: PlanRunner<Args, Context, { readonly pushed: number }> = {
    executors,
    deadlineMs: (step) => (step === 'hang' ? 40 : 10),
    errorOf: (error) => ({ severity: 'retry', code: errorCode(error) ?? 'FAILED', message: errorMessage(error) }),
    clock,
    ...more,
  };
  const ending = new AbortController();
  const done: string[] = [];
  return { done, ending, outcomes: runPlan(steps, { signal: ending.signal, done }, runner) };
}

const kinds = async ({ outcomes }: ReturnType<typeof run>) =>
  (await outcomes).map(({ step, outcome }) => `${step} ${outcome.kind}`);

test('the steps of a plan are done in order, and say what is to be remembered', async () => {
  const ran = run({ step: 'push', by: 2 }, { step: 'pull', by: 1 });
  assert.deepEqual(await kinds(ran), ['push done', 'pull done']);
  assert.deepEqual(ran.done, ['push 2', 'pull 1']);
  assert.deepEqual((await ran.outcomes)[0]?.outcome, { kind: 'done', remember: { pushed: 2 } });
});

test('the first step that has to wait ends the plan', async () => {
  const ran = run({ step: 'pull', by: 1 }, { step: 'push', by: 0 }, { step: 'pull', by: 2 });
  assert.deepEqual(await kinds(ran), ['pull done', 'push wait']);
  assert.deepEqual(ran.done, ['pull 1']);
});

test('what a step throws is its outcome, in the code that its user gives it, and ends the plan', async () => {
  const ran = run({ step: 'push', by: -1 }, { step: 'pull', by: 2 });
  assert.deepEqual(await kinds(ran), ['push failed']);
  const error = { severity: 'retry', code: 'WRONG', message: 'pushed the wrong way' };
  assert.deepEqual((await ran.outcomes)[0]?.outcome, { kind: 'failed', error });
});

test('each step has a deadline of its own', async () => {
  const ran = run({ step: 'hang' });
  await clock.pass(39);
  assert.equal(clock.timers, 2, 'the step and its deadline wait');
  await clock.pass(1);
  const [hung] = await ran.outcomes;
  assert.equal(hung?.outcome.kind, 'failed');
  assert.equal(hung?.tookMs, 40);
  assert.equal(clock.timers, 0);
});

test('a plan whose signal fires goes no further', async () => {
  const ran = run({ step: 'hang' }, { step: 'pull', by: 1 });
  ran.ending.abort(new Error('the agent leaves'));
  assert.deepEqual(await kinds(ran), ['hang failed']);
  assert.deepEqual(ran.done, []);
});

test('what a step throws is tried again, under its own code where it has one, and says which step it was', () => {
  const coded = Object.assign(new Error('the disk is full'), { code: 'ENOSPC' });
  assert.deepEqual(stepErrorOf(coded, 'push'), {
    severity: 'retry',
    code: 'ENOSPC',
    message: 'push: the disk is full',
  });
  assert.deepEqual(stepErrorOf('no', 'pull'), { severity: 'retry', code: 'FAILED', message: 'pull: no' });
});

test('the error of a plan is that of the step that failed', async () => {
  const failed = await run({ step: 'pull', by: 1 }, { step: 'push', by: -1 }).outcomes;
  assert.equal(stepFailureOf(failed)?.code, 'WRONG');
  assert.equal(stepFailureOf(await run({ step: 'push', by: 0 }).outcomes), undefined);
});

test('a failed step that matters to none after it does not end the plan, and is what failed', async () => {
  const steps: Step<Args>[] = [
    { step: 'push', by: -1 },
    { step: 'pull', by: 2 },
  ];
  assert.deepEqual(await kinds(run(...steps)), ['push failed']);
  const going = runWith({ goesOnAfter: (step) => step === 'push' }, steps);
  assert.deepEqual(await kinds(going), ['push failed', 'pull done']);
  assert.equal(stepFailureOf(await going.outcomes)?.code, 'WRONG');
  const waiting = runWith({ goesOnAfter: () => true }, [{ step: 'push', by: 0 }, ...steps]);
  assert.deepEqual(await kinds(waiting), ['push wait'], 'a step that waits does');
});
