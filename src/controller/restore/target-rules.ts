import type { ObjectEvent, Rule } from '../../reconcile/index.ts';
import { type Facts, failing, lookMs, type RestorePlan, refused } from './plan.ts';

/** What the restore waits for, in upstream's words (pkg/storage/snapshot/restore.go). */
const words = {
  eventually: 'Waiting for target VM to be powered off. Please stop the restore target to proceed with restore',
  grace:
    'Waiting for target VM to be powered off. Please stop the restore target to proceed with restore, or the operation will fail after 5m0s',
  stop: 'Automatically stopping restore target for restore operation',
  late: 'Restore target failed to be ready within 5m0s. Please power off the target VM before attempting restore',
  fail: 'Restore target VMI must be powered off before restore operation',
  exists: 'Restore target VMI still exists, please stop the restore target to proceed with restore',
};

const notReady = (message: string): ObjectEvent => ({ type: 'Warning', reason: 'RestoreTargetNotReady', message });
const policyOf = ({ restore }: Facts) => restore.spec.targetReadinessPolicy ?? 'WaitGracePeriod';
/** One that is restored already may have been started since. */
const mustStop = ({ isRunning, isRestored }: Facts) => isRunning && !isRestored;
/** Half of a restore is not given up. */
const mayFail = ({ isLocked }: Facts) => !isLocked;

/** A VM is restored when it does not run; what is done about one that does is the user's to say. */
export const targetRules: readonly Rule<Facts, RestorePlan>[] = [
  {
    name: 'target-runs-stop',
    why: 'The VM runs, and the restore is to stop it.',
    when: (facts) => mustStop(facts) && policyOf(facts) === 'StopTarget',
    plan: (facts) => {
      const { target } = facts;
      const plan = refused(facts, words.stop, notReady(words.stop), { requeueAfterMs: lookMs });
      return { ...plan, steps: target ? [{ step: 'stopTarget', vm: target }] : [] };
    },
  },
  {
    name: 'target-runs-fails',
    why: 'The VM runs, and the restore is to fail at once then.',
    when: (facts) => mustStop(facts) && policyOf(facts) === 'FailImmediate' && mayFail(facts),
    plan: (facts) => failing(facts, words.fail),
  },
  {
    name: 'target-runs-late',
    why: 'The VM was not stopped in five minutes, so the restore fails.',
    when: (facts) => mustStop(facts) && policyOf(facts) === 'WaitGracePeriod' && facts.isLate && mayFail(facts),
    plan: (facts) => failing(facts, words.late),
  },
  {
    name: 'target-runs',
    why: 'The VM runs: it has to be stopped before it can be restored.',
    when: mustStop,
    plan: (facts) => {
      const isGrace = policyOf(facts) === 'WaitGracePeriod' && mayFail(facts);
      const why = isGrace ? words.grace : words.eventually;
      return refused(facts, why, notReady(words.exists), { requeueAfterMs: lookMs });
    },
  },
];
