import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Listeners } from '../../../src/base/index.ts';

describe('listeners', () => {
  const heard = () => {
    const calls: string[] = [];
    return { calls, as: (name: string) => (what: string) => void calls.push(`${name} ${what}`) };
  };

  test('are called in the order in which they came, each until its subscription ends', () => {
    const { calls, as } = heard();
    const listeners = new Listeners<[string]>();
    const endOfA = listeners.add(as('a'));
    listeners.add(as('b'));
    listeners.notify('1');
    endOfA();
    endOfA();
    listeners.notify('2');
    assert.deepEqual(calls, ['a 1', 'b 1', 'b 2']);
    assert.equal(listeners.size, 1);
  });

  test('a function that was added twice is called twice, and one end leaves the other', () => {
    const { calls, as } = heard();
    const listeners = new Listeners<[string]>();
    const listener = as('a');
    const end = listeners.add(listener);
    listeners.add(listener);
    listeners.notify('1');
    end();
    listeners.notify('2');
    assert.deepEqual(calls, ['a 1', 'a 1', 'a 2']);
  });

  test('one that another has removed is not called any more; one that another has added is called the next time', () => {
    const { calls, as } = heard();
    const listeners = new Listeners<[string]>();
    listeners.add((what) => {
      as('a')(what);
      endOfB();
      if (what === '1') listeners.add(as('c'));
    });
    const endOfB = listeners.add(as('b'));
    listeners.notify('1');
    listeners.notify('2');
    assert.deepEqual(calls, ['a 1', 'a 2', 'c 2']);
  });

  test('one that throws ends the call, unless somebody takes its error: then the others are called', () => {
    const fail = () => {
      throw new Error('no');
    };
    const { calls, as } = heard();
    const strict = new Listeners<[string]>();
    strict.add(fail);
    strict.add(as('strict'));
    assert.throws(() => strict.notify('1'), /no/);

    const errors: unknown[] = [];
    const guarded = new Listeners<[string]>({ onError: (error) => errors.push(error) });
    guarded.add(fail);
    guarded.add(as('guarded'));
    guarded.notify('1');
    assert.deepEqual(calls, ['guarded 1']);
    assert.deepEqual(errors.map(String), ['Error: no']);
  });

  test('none is called after all were removed', () => {
    const { calls, as } = heard();
    const listeners = new Listeners<[string]>();
    listeners.add(as('a'));
    listeners.clear();
    listeners.notify('1');
    assert.deepEqual(calls, []);
  });
});
