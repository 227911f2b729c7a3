import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation } from '../../../../../src/agent/vmi/observe/index.ts';
import { withMore } from '../../../../../src/agent/vmi/observe/memory.ts';
import { nowMs as beganMs, observationOf } from '../../../../fixtures/agent/builders.ts';
import { leaving, migration, open, published, reported, started } from './rule-rows/leaving.ts';

const resumeMs = 300_000;
const stallMs = 30_000;
const order = { Mode: 'PostCopy', Resumable: true } as const;

/** A guest in post-copy, second by second, as its agent sees it. */
class PostCopy {
  nowMs = beganMs;
  #memory = migration({ sentMs: beganMs });
  #state: 'moves' | 'stands' | 'broken' = 'moves';
  #silentMs = 0;

  /** The rules that were used. */
  run(ms: number, state: 'moves' | 'stands' | 'broken'): Set<string> {
    const rules = new Set<string>();
    this.#state = state;
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += 1_000) {
      this.#silentMs = this.#state === 'stands' ? this.#silentMs + 1_000 : 0;
      for (let again = true; again; ) {
        const decision = decide(this.#observation());
        rules.add(decision.rule);
        if (decision.remember) this.#memory = withMore(this.#memory, decision.remember);
        if (decision.steps.some(({ step }) => step === 'closeSourceProxies')) this.#state = 'broken';
        if (decision.rule === 'post-copy-given-up' || this.#state !== state) return rules;
        again = decision.requeueAfterMs === 0;
      }
    }
    return rules;
  }

  #observation(): Observation {
    const sourceStalledSeconds = this.#silentMs >= 20_000 ? this.#silentMs / 1_000 : 0;
    return observationOf({
      nowMs: this.nowMs,
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(order, 'Paused', this.#state === 'broken' ? 'PostcopyFailed' : 'Postcopy', this.nowMs),
      memory: this.#memory,
      migrationProxies: {
        ...open,
        ...{ sourceMigration: 'm1', resumeMs, stallMs },
        ...(sourceStalledSeconds > 0 && { sourceStalledSeconds }),
      },
    });
  }
}

test('a post-copy that stalls again after each resume is given up when it stood for the time that is set', () => {
  const times = fc.record({ movesMs: fc.integer({ min: 1, max: 60 }), brokenMs: fc.integer({ min: 1, max: 10 }) });
  fc.assert(
    fc.property(times, ({ movesMs, brokenMs }) => {
      const guest = new PostCopy();
      let [stoodMs, isGivenUp] = [0, false];
      for (let cycle = 0; cycle < 20 && !isGivenUp; cycle++) {
        guest.run(movesMs * 1_000, 'moves');
        const standsMs = guest.nowMs;
        assert.ok(guest.run(600_000, 'stands').has('post-copy-stalled'));
        isGivenUp = guest.run(brokenMs * 1_000, 'broken').has('post-copy-given-up');
        stoodMs += guest.nowMs - standsMs;
      }
      assert.ok(isGivenUp, `it goes on without end: ${stoodMs} ms`);
      assert.ok(stoodMs >= resumeMs - 20_000, `${stoodMs} ms`);
    }),
    { numRuns: 50 },
  );
});

test('two breaks far apart have the whole time each', () => {
  const guest = new PostCopy();
  guest.run(5_000, 'moves');
  assert.ok(!guest.run(290_000, 'broken').has('post-copy-given-up'));
  guest.run(302_000, 'moves');
  assert.ok(!guest.run(290_000, 'broken').has('post-copy-given-up'));
  guest.run(60_000, 'moves');
  assert.ok(guest.run(20_000, 'broken').has('post-copy-given-up'), 'soon after it only what is left');
});

test('a stall after a long time of moving has the whole time, too', () => {
  const guest = new PostCopy();
  guest.run(5_000, 'moves');
  guest.run(290_000, 'broken');
  guest.run(302_000, 'moves');
  assert.ok(guest.run(60_000, 'stands').has('post-copy-stalled'));
  assert.ok(!guest.run(250_000, 'broken').has('post-copy-given-up'));
});
