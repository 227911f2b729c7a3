import { eventOrders } from '../test/fixtures/scripted-guest.ts';
import { endBurst, runBurst } from './burst.ts';
import { type StageOptions, withParts } from './soak-bench.ts';

export interface StartsOptions {
  readonly starts: number;
  readonly batch: number;
  readonly seed: number;
  readonly say: (text: string) => void;
}

export interface StartsResult {
  readonly starts: number;
  readonly lost: readonly string[];
  /** Launchers that the deletion of their VMI did not end. */
  readonly notEnded: number;
  readonly syncsPerStart: number;
}

/** On a busy machine kube-apiserver has left all writes without an answer for longer than half a minute. */
const stallMs = 120_000;

/** Thousands of starts through one agent, in batches, with all orders of events mixed. */
export function startsBench(stage: StageOptions, options: StartsOptions): Promise<StartsResult> {
  return withParts(stage, async ({ api, agent, fleet }) => {
    const lost: string[] = [];
    let starts = 0;
    let syncs = 0;
    let notEnded = 0;
    for (let batch = 1; starts < options.starts; batch++) {
      const vms = Math.min(options.batch, options.starts - starts);
      const who = { namespace: 'default', nodeName: 'bench', prefix: `b${batch}`, network: 'none' } as const;
      const burst = { ...who, vms, seed: options.seed + batch };
      const result = await runBurst({ ...burst, pauseMs: 0, orders: eventOrders, stallMs }, api, agent, fleet);
      starts += vms;
      syncs += result.syncsPerStart * vms;
      lost.push(...result.lost);
      options.say(`${starts} starts, ${lost.length} lost`);
      notEnded += await endBurst(api, fleet, 'default', result.names);
    }
    return { starts, lost, notEnded, syncsPerStart: syncs / starts };
  });
}
