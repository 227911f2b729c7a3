import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../api/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import type { NodeObservation } from './observe.ts';

export interface EvacuationStepArgs {
  createMigrations: { readonly vmis: readonly VirtualMachineInstance[] };
  clearMarks: { readonly vmis: readonly VirtualMachineInstance[] };
  cancelWaiting: { readonly migrations: readonly VirtualMachineInstanceMigration[] };
  noteCordon: object;
  forgetCordon: object;
}

export type EvacuationStep = Step<EvacuationStepArgs>;

interface Plan {
  readonly steps: readonly EvacuationStep[];
}

export interface EvacuationDecision extends Decided, Plan {
  readonly steps: readonly EvacuationStep[];
}

const table = ruleTable<NodeObservation, Plan>(
  [
    {
      name: 'node-gone',
      why: 'There is no node of this name.',
      when: ({ node }) => node === undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'uncordoned',
      why: 'The node may be used again: what was to leave it and has not begun to stays.',
      when: ({ cordon }) => cordon === 'lifted',
      plan: ({ marked, waiting }) => ({
        steps: [
          { step: 'clearMarks', vmis: marked },
          { step: 'cancelWaiting', migrations: waiting },
          { step: 'forgetCordon' },
        ],
      }),
    },
    {
      name: 'needless',
      why: 'Guests that wait for a migration are not to leave the node any more, or have left it: their migrations are cancelled.',
      when: ({ needless }) => needless.length > 0,
      plan: ({ needless }) => ({ steps: [{ step: 'cancelWaiting', migrations: needless }] }),
    },
    {
      name: 'to-empty',
      why: 'The node is to be emptied, or pods of guests on it were asked to go: each guest that can gets a migration.',
      when: ({ candidates }) => candidates.length > 0,
      plan: ({ candidates, cordon }) => ({
        steps: [
          ...(cordon === 'to-note' ? [{ step: 'noteCordon' } as const] : []),
          { step: 'createMigrations', vmis: candidates },
        ],
      }),
    },
    {
      name: 'cordoned',
      why: 'Guests are to leave the node, and it is cordoned: it says so, for a controller that sees only the end of the cordon.',
      when: ({ cordon }) => cordon === 'to-note',
      plan: () => ({ steps: [{ step: 'noteCordon' }] }),
    },
    {
      name: 'stuck',
      why: 'Guests are to leave the node and say that they cannot migrate.',
      when: ({ stuck }) => stuck.length > 0,
      plan: () => ({ steps: [] }),
    },
  ],
  {
    name: 'nothing-to-move',
    why: 'No guest is to leave the node, or all are on their way.',
    plan: () => ({ steps: [] }),
  },
);

export const evacuationRules = table.rules;

export function decideEvacuation(observation: NodeObservation): EvacuationDecision {
  return decideBy(table, observation);
}
