import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest } from '../rule.ts';
import { hasFailedPostCopy } from '../shutdown-rules.ts';
import { giveUp, planLeaving, whenLeaving } from './source-rule.ts';
import { publishedPorts } from './source-start-rules.ts';
import { hasSwitched, rememberMigration, type SourceView, sourceView } from './source-view.ts';

/** An attempt that the target does not answer yet is repeated: its agent may be opening its streams. */
const tryPeriodMs = 3_000;

const brokenMs = ({ observation }: Facts, { memory }: SourceView) =>
  observation.nowMs - (memory.broken?.sinceMs ?? observation.nowMs);

const resumeMs = ({ observation }: Facts) => observation.migrationProxies.resumeMs ?? 0;

const leftMs = (facts: Facts, view: SourceView) => resumeMs(facts) - brokenMs(facts, view);

const stalledSeconds = ({ observation }: Facts) => observation.migrationProxies.sourceStalledSeconds ?? 0;

function problemOf(facts: Facts, view: SourceView): string {
  const seconds = Math.ceil(leftMs(facts, view) / 1000);
  return `the streams of the migration broke after the switch to post-copy: the guest has its memory on two nodes and waits. They are opened anew for ${seconds} s more`;
}

function resume(facts: Facts, view: SourceView): Plan {
  const { uid, observation } = facts;
  const { nowMs } = observation;
  const broken = { sinceMs: view.memory.broken?.sinceMs ?? nowMs, lastTryMs: nowMs };
  const published = publishedPorts(view.state);
  const plan = { remember: rememberMigration(view, { broken }), problem: problemOf(facts, view) };
  if (published.kind !== 'ready') return { ...rest, ...plan, requeueAfterMs: tryPeriodMs };
  const { address, ports } = published;
  return {
    ...plan,
    steps: [
      { step: 'openSourceProxies', uid, address, ports },
      { step: 'migrateVirtualMachine', uid, migrationUid: view.migrationUid },
    ],
    requeueAfterMs: tryPeriodMs,
    latestMs: tryPeriodMs,
  };
}

function hasJustTried({ observation }: Facts, { memory }: SourceView): boolean {
  const { lastTryMs } = memory.broken ?? {};
  return lastTryMs !== undefined && observation.nowMs - lastTryMs < tryPeriodMs;
}

const isInPostCopy = (facts: Facts) => sourceView(facts)?.reported?.Mode === 'PostCopy';

/** The guest runs at the target and its memory is on its way, also of a VMI that is to end. */
function isMoving(facts: Facts): boolean {
  const view = sourceView(facts);
  return view !== undefined && hasSwitched(view) && facts.domainState.kind === 'alive' && !hasFailedPostCopy(facts);
}

/**
 * A guest whose streams broke in post-copy is not lost: QEMU waits on both nodes, and the same order to the launcher goes on where
 * they broke (libvirt's VIR_MIGRATE_POSTCOPY_RESUME). Upstream gives the VMI up at once.
 */
export const postCopyRules: readonly Rule[] = [
  {
    name: 'post-copy-stalled',
    why: 'The streams of a guest in post-copy stand and carry no memory, which QEMU does not notice: they are closed, so that the migration breaks and is resumed through new ones.',
    // By the launcher's own word: in the last moment of a pre-copy its streams are libvirt's to end.
    when: (facts) => stalledSeconds(facts) > 0 && isInPostCopy(facts) && isMoving(facts),
    plan: (facts) => ({
      steps: [{ step: 'closeSourceProxies', uid: facts.uid }],
      requeueAfterMs: tryPeriodMs,
      problem: `the streams of the migration have carried no memory for ${stalledSeconds(facts)} s after the switch to post-copy: they are closed and opened anew`,
    }),
  },
  {
    name: 'ending-arrival-awaited',
    why: 'The VMI is to end and its guest runs on the target already, with memory that is still here: it arrives first, and is shut down there in peace.',
    when: (facts) => facts.ending !== undefined && isMoving(facts),
    plan: () => rest,
  },
  {
    name: 'post-copy-given-up',
    why: 'The streams of the migration broke in post-copy and could not be resumed in the time that is set, so the guest is lost.',
    when: whenLeaving((facts, view) => hasFailedPostCopy(facts) && leftMs(facts, view) <= 0),
    plan: giveUp((facts) => `post-copy broke, and could not be resumed within ${resumeMs(facts) / 1000} s`, {
      more: { mode: 'PostCopy' },
    }),
  },
  {
    name: 'post-copy-resume-awaited',
    why: 'The streams of the migration broke in post-copy and were just opened anew; the launcher gets time to resume it.',
    when: whenLeaving((facts, view) => hasFailedPostCopy(facts) && hasJustTried(facts, view)),
    plan: planLeaving((facts, view) => ({
      steps: [],
      requeueAfterMs: tryPeriodMs,
      problem: problemOf(facts, view),
    })),
  },
  {
    name: 'post-copy-resume-due',
    why: 'The streams of the migration broke in post-copy: they are opened anew, and the launcher is told to go on with it.',
    when: whenLeaving(hasFailedPostCopy),
    plan: planLeaving(resume),
  },
  {
    name: 'post-copy-resumed',
    why: 'The migration that broke in post-copy goes on; should it break again, the time for it begins anew.',
    when: whenLeaving((facts, view) => !hasFailedPostCopy(facts) && view.memory.broken !== undefined),
    plan: planLeaving((_facts, view) => ({
      ...rest,
      requeueAfterMs: 0,
      remember: rememberMigration(view, { broken: undefined }),
    })),
  },
];
