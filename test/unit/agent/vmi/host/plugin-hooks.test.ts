import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluginHooks } from '../../../../../src/agent/vmi/host/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { eventsOf, hookContext } from '../../../../fixtures/agent/host-hooks.ts';

const plugin = (name: string, ...strategies: (string | undefined)[]) => ({
  metadata: { name },
  spec: {
    nodeHooks: strategies.map((failureStrategy) => ({ socket: '/x', ...(failureStrategy && { failureStrategy }) })),
  },
});

function world(...plugins: unknown[]) {
  let nowMs = 0;
  let asked = 0;
  let problem: Error | undefined;
  const hook = pluginHooks({
    plugins: async () => {
      asked++;
      if (problem) throw problem;
      return plugins;
    },
    monotonicMs: () => nowMs,
  });
  return {
    prepare: (isOn = true) => hook.prepare(hookContext(vmiOf(), 7, { plugins: isOn })),
    pass: (ms: number) => (nowMs += ms),
    fail: (error?: Error) => (problem = error),
    get asked() {
      return asked;
    },
  };
}

test('without the gate nothing is asked', async () => {
  const { prepare, ...rest } = world(plugin('a', 'Fail'));
  assert.deepEqual(await prepare(false), { kind: 'done', facts: null });
  assert.equal(rest.asked, 0);
});

test('plug-ins without node hooks keep no VM from starting; a burst of starts is one question', async () => {
  const found = world(plugin('a'), { metadata: { name: 'b' } }, null, { spec: { nodeHooks: 'x' } });
  const results = await Promise.all([found.prepare(), found.prepare(), found.prepare()]);
  for (const result of results) assert.deepEqual(result, { kind: 'done', facts: null, events: [] });
  assert.equal(found.asked, 1);
  found.pass(10_000);
  await found.prepare();
  assert.equal(found.asked, 2);
});

test('a VM does not start beside a hook that has to be called, and its owner reads which plug-in has it', async () => {
  const found = world(plugin('strict', 'Ignore', undefined), plugin('lax', 'Ignore'), plugin('other', 'Fail'));
  await assert.rejects(found.prepare(), { code: 'NOT_SUPPORTED', message: /hooks of plug-ins other, strict: set/ });
});

test('hooks that change the domain count as others, and what the whole plug-in says counts for hooks that say nothing', async () => {
  const spec = { failureStrategy: 'Ignore', domainHooks: [{ sidecar: {} }] };
  const result = await world({ metadata: { name: 'lax' }, spec }).prepare();
  assert.equal(eventsOf(result)[0]?.reason, 'PluginHooksNotCalled');
  const strict = { ...spec, nodeHooks: [{ failureStrategy: 'Fail' }] };
  await assert.rejects(world({ metadata: { name: 'strict' }, spec: strict }).prepare(), { code: 'NOT_SUPPORTED' });
});

test('of hooks that may fail there is an event', async () => {
  const result = await world(plugin('lax', 'Ignore')).prepare();
  const message = 'this node agent does not call the hooks of plug-in lax; the VM goes on without';
  assert.deepEqual(eventsOf(result), [{ type: 'Warning', reason: 'PluginHooksNotCalled', message }]);
});

test('what cannot be looked up is an error that is tried again, with a new question', async () => {
  const found = world();
  found.fail(new Error('no answer'));
  await assert.rejects(found.prepare(), { code: 'PLUGIN_HOOKS', message: /cannot be looked up: no answer/ });
  found.fail();
  assert.equal((await found.prepare()).kind, 'done');
  assert.equal(found.asked, 2);
});
