import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { type Clock, systemClock } from '../../../src/base/index.ts';
import { DomainStore } from '../../../src/domain-cache/domain-store.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';

const key = 'default/vm1';
const uid = 'uid-1';
let nowMs: number;
const clock: Clock = { ...systemClock, monotonicMs: () => nowMs };

beforeEach(() => {
  nowMs = 1_000;
});

describe('DomainStore', () => {
  let store: DomainStore;
  let reported: string[];

  beforeEach(() => {
    store = new DomainStore(clock);
    reported = [];
    store.onChange((changed) => reported.push(changed));
  });

  const running = () => scriptedDomain(key, uid, 'Running');
  const paused = () => scriptedDomain(key, uid, 'Paused');
  const kind = () => store.view(key, uid).kind;

  it('an answer carries the time of its question, not of its arrival', () => {
    const asked = store.ask();
    nowMs = 5_000;
    store.answer(key, uid, running(), asked);
    const view = store.view(key, uid);
    assert.equal(view.kind === 'present' && view.seenMs, 1_000);
  });

  it('of two answers the one asked later stays, whatever their order', () => {
    const [first, second] = [store.ask(), store.ask()];
    assert.equal(store.answer(key, uid, paused(), second), true);
    assert.equal(store.answer(key, uid, running(), first), false);
    const view = store.view(key, uid);
    assert.equal(view.kind === 'present' && view.domain.Status.Status, 'Paused');
  });

  it('a failure that was asked before an event does not hide it', () => {
    const asked = store.ask();
    store.event(key, uid, running());
    store.unknown(key, uid, 'late', asked);
    assert.equal(kind(), 'present');
  });

  it('an unknown domain carries the time since when it is unknown, whatever the reasons; an answer begins anew', () => {
    const since = () => {
      const view = store.view(key, uid);
      return view.kind === 'unknown' ? view.sinceMs : undefined;
    };
    store.unknown(key, uid, 'no answer');
    nowMs = 2_000;
    store.unknown(key, uid, 'libvirt is away');
    assert.equal(since(), 1_000);
    store.answer(key, uid, running(), store.ask());
    nowMs = 3_000;
    store.unknown(key, uid, 'no answer');
    assert.equal(since(), 3_000);
  });

  it('a failure keeps the last domain to show, and "gone" too', () => {
    store.event(key, uid, running());
    store.unknown(key, uid, 'no answer');
    store.answer(key, uid, undefined, store.ask());
    const view = store.view(key, uid);
    assert.equal(view.kind === 'gone' && view.lastDomain?.Status.Status, 'Running');
  });

  it('silence does not take back the proof of an end, a new answer does', () => {
    store.dead(key, uid);
    store.unknown(key, uid, 'no answer');
    assert.equal(kind(), 'gone');
    store.answer(key, uid, running(), store.ask());
    assert.equal(kind(), 'present');
  });

  it('what says nothing new wakes nobody, event, answer or failure, and is remembered with its time', () => {
    store.event(key, uid, running());
    assert.equal(reported.length, 1);
    nowMs = 2_000;
    store.event(key, uid, running());
    const view = store.view(key, uid);
    assert.equal(view.kind === 'present' && view.seenMs, 2_000);
    assert.equal(reported.length, 1);
    store.event(key, uid, paused());
    store.answer(key, uid, paused(), store.ask());
    assert.equal(reported.length, 2);
    store.unknown(key, uid, 'no answer');
    store.unknown(key, uid, 'no answer');
    assert.equal(reported.length, 3);
  });

  it('a late event does not bring back a guest that is gone; a start after one that never ran is believed', () => {
    store.event(key, uid, running());
    store.answer(key, uid, undefined, store.ask());
    assert.equal(store.event(key, uid, running()), false);
    assert.equal(kind(), 'gone');
    assert.equal(store.answer(key, uid, running(), store.ask()), true, 'an answer is newer than anything');
    const defined = scriptedDomain(key, 'uid-3', 'Shutoff', 'Unknown');
    store.event(key, 'uid-3', defined);
    store.answer(key, 'uid-3', undefined, store.ask());
    assert.equal(store.event(key, 'uid-3', scriptedDomain(key, 'uid-3', 'Running')), true);
  });

  it('a late event does not take the reason from an end, also when the launcher has no domain any more', () => {
    store.event(key, uid, scriptedDomain(key, uid, 'Shutoff', 'Shutdown'));
    const before = store.view(key, uid);
    assert.equal(store.event(key, uid, scriptedDomain(key, uid, 'Shutoff', 'Unknown')), false);
    assert.equal(store.view(key, uid), before);
    store.answer(key, uid, undefined, store.ask());
    assert.equal(store.event(key, uid, scriptedDomain(key, uid, 'Shutoff', 'Unknown')), false);
    assert.equal(kind(), 'gone');
  });

  it('a snapshot without content, as of a domain whose description cannot be read now, changes the state only', () => {
    const full = running();
    full.Spec.Metadata.KubeVirt.GracePeriod = {
      DeletionGracePeriodSeconds: 60,
      DeletionTimestamp: null,
      MarkedForGracefulShutdown: null,
    };
    full.Spec.Devices.Interfaces = [{ MAC: { MAC: '02:00:00:00:00:01' } }] as typeof full.Spec.Devices.Interfaces;
    store.event(key, uid, full);
    const bare = scriptedDomain(key, uid, 'Paused', 'Migration');
    bare.Spec.Name = '';
    store.event(key, uid, bare);
    const view = store.view(key, uid);
    assert.equal(view.kind === 'present' && view.domain.Status.Status, 'Paused');
    assert.deepEqual(view.kind === 'present' && view.domain.Spec, full.Spec);
    const stranger = scriptedDomain(key, 'uid-9', 'Running');
    stranger.Spec.Name = '';
    store.answer(key, 'uid-9', stranger, store.ask());
    assert.equal(store.view(key, 'uid-9').kind, 'present', 'the first snapshot is what there is');
  });

  it('keeps VMIs of one name apart, and forgets a key with its last UID', () => {
    store.event(key, uid, running());
    store.dead(key, 'uid-2');
    assert.equal(kind(), 'present');
    assert.deepEqual(store.otherUids(key, uid), ['uid-2']);
    store.forget(key, uid);
    store.forget(key, 'uid-2');
    store.forget(key, 'uid-2');
    assert.deepEqual([...store.keys()], []);
    assert.deepEqual(store.view(key), { kind: 'absent' });
  });
});
