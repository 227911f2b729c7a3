import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import type { NodeObservation } from './observe.ts';

export interface NodeStepArgs {
  /** No new guests. */
  markUnschedulable: object;
  /** After the API server has confirmed that nothing of them runs. */
  failVmis: { readonly vmis: readonly VirtualMachineInstance[] };
}

interface Plan {
  readonly steps: readonly Step<NodeStepArgs>[];
  readonly requeueAfterMs?: number;
}

export interface NodeDecision extends Decided, Plan {
  readonly steps: readonly Step<NodeStepArgs>[];
}

/** What no event announces is looked at again. */
const lookMs = 60_000;

const table = ruleTable<NodeObservation, Plan>(
  [
    {
      name: 'agent-unheard-of',
      why: 'The agent of this node has sent no heartbeat for 5 minutes: no new guest is put there.',
      when: ({ node, leftMs, isSchedulable }) =>
        node !== undefined && leftMs !== undefined && leftMs <= 0 && isSchedulable,
      plan: () => ({ steps: [{ step: 'markUnschedulable' }], requeueAfterMs: 0 }),
    },
    {
      name: 'guests-lost',
      why: 'The agent of this node is gone, and with it the pods of guests: their VMIs have failed, so that they can run elsewhere.',
      when: ({ lost }) => lost.length > 0,
      plan: ({ lost }) => ({ steps: [{ step: 'failVmis', vmis: lost }], requeueAfterMs: lookMs }),
    },
    {
      name: 'guests-unproven',
      why: 'The agent of this node is gone, and the pods of guests are not: they may run, so nothing is done until the pods are gone.',
      when: ({ unproven }) => unproven.length > 0,
      plan: () => ({ steps: [], requeueAfterMs: lookMs }),
    },
    {
      name: 'node-gone',
      why: 'There is no node of this name, and no guest on it.',
      when: ({ node }) => node === undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'agent-gone',
      why: 'The agent of this node is gone; no guest is there, and none will be put there.',
      when: ({ leftMs }) => leftMs !== undefined && leftMs <= 0,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'no-agent-yet',
      why: 'No agent has ever been heard of on this node.',
      when: ({ leftMs }) => leftMs === undefined,
      plan: () => ({ steps: [] }),
    },
  ],
  {
    name: 'agent-there',
    why: 'The agent of this node sends its heartbeats.',
    plan: ({ leftMs }) => ({ steps: [], requeueAfterMs: leftMs ?? lookMs }),
  },
);

/** Pure and total. */
export const nodeRules = table.rules;
export const decideNode = (observation: NodeObservation): NodeDecision => decideBy(table, observation);
