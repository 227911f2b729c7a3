import type { Rule } from '../rule.ts';
import { isUntold, tell } from './not-supported.ts';

/** This node is asked to send a guest: said once, then the default route goes on serving it. */
export const sourceRules: readonly Rule[] = [
  {
    name: 'migration-not-supported',
    why: 'The VMI is to be migrated, which this agent cannot do yet; the user is told once.',
    when: isUntold,
    plan: tell,
  },
];
