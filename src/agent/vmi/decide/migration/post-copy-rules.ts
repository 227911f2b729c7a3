import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { hasFailedPostCopy } from '../shutdown-rules.ts';
import { giveUp, planLeaving, type SourceTest, whenLeaving } from './source-rule.ts';
import { publishedPorts } from './source-start-rules.ts';
import { hasSwitched, rememberMigration, type SourceView, sourceView } from './source-view.ts';

/** An attempt that the target does not answer yet is repeated: its agent may be opening its streams. */
const tryPeriodMs = 3_000;

const brokenMs = ({ observation }: Facts, { memory }: SourceView) =>
  observation.nowMs - (memory.broken?.sinceMs ?? observation.nowMs);

const resumeMs = ({ observation }: Facts) => observation.migrationProxies.resumeMs ?? 0;

/** The next break begins with the whole time again when the guest has moved for as long since the last one. */
function hasRecovered(facts: Facts, { memory }: SourceView): boolean {
  const { resumedMs, broken } = memory;
  return broken === undefined && resumedMs !== undefined && facts.observation.nowMs - resumedMs > resumeMs(facts);
}

const spentMs = (facts: Facts, view: SourceView) => (hasRecovered(facts, view) ? 0 : (view.memory.spentMs ?? 0));

const leftMs = (facts: Facts, view: SourceView) => resumeMs(facts) - spentMs(facts, view) - brokenMs(facts, view);

/** What is used up, with `moreMs`; and that is not forgotten again as long as it is not resumed. */
function spend(facts: Facts, view: SourceView, moreMs: number) {
  const spent = { spentMs: spentMs(facts, view) + moreMs };
  return hasRecovered(facts, view) ? { ...spent, resumedMs: undefined } : spent;
}

/**
 * QEMU has switched, by libvirt's own word at the source: it corrects its state when QEMU reports post-copy, while the launcher says so when
 * libvirt took the order. A guest that its user has paused keeps that reason; then nobody knows it.
 */
function isInPostCopy(facts: Facts): boolean {
  if (facts.domainState.kind !== 'alive' || sourceView(facts)?.reported?.Mode !== 'PostCopy') return false;
  const { Status, Reason } = facts.domainState.domain.Status;
  return Status === 'Paused' && Reason === 'Postcopy';
}

/** How long the streams have been silent since the first sight of post-copy: before the switch silence may be a rest. */
function silentMs({ observation }: Facts, { memory }: SourceView): number {
  const { sourceStalledSeconds = 0 } = observation.migrationProxies;
  return Math.min(sourceStalledSeconds * 1000, observation.nowMs - (memory.postCopySinceMs ?? observation.nowMs));
}

/** Milliseconds until streams that are silent have been so for long enough since the switch; undefined: they are not silent. */
function stallsInMs({ observation }: Facts, { memory }: SourceView): number | undefined {
  const { sourceStalledSeconds = 0, stallMs } = observation.migrationProxies;
  if (sourceStalledSeconds === 0 || stallMs === undefined || memory.postCopySinceMs === undefined) return undefined;
  return stallMs - (observation.nowMs - memory.postCopySinceMs);
}

/** A launcher that cannot resume would lose the guest with its streams; a stall may pass. */
const canResume = (facts: Facts, { reported }: SourceView) => resumeMs(facts) > 0 && reported?.Resumable === true;

function problemOf(facts: Facts, view: SourceView): string {
  const seconds = Math.ceil(leftMs(facts, view) / 1000);
  return `the streams of the migration broke after the switch to post-copy: the guest has its memory on two nodes and waits. They are opened anew for ${seconds} s more`;
}

function resume(facts: Facts, view: SourceView): Plan {
  const { uid, observation } = facts;
  const { nowMs } = observation;
  const broken = { sinceMs: view.memory.broken?.sinceMs ?? nowMs, lastTryMs: nowMs };
  const published = publishedPorts(view.state);
  const spent = view.memory.broken ? {} : spend(facts, view, 0);
  const remember = rememberMigration(view, { broken, postCopySinceMs: undefined, ...spent });
  const plan = { remember, problem: problemOf(facts, view) };
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

/** The guest runs at the target and its memory is on its way, also of a VMI that is to end. */
function isMoving(facts: Facts): boolean {
  const view = sourceView(facts);
  return view !== undefined && hasSwitched(view) && facts.domainState.kind === 'alive' && !hasFailedPostCopy(facts);
}

/** Also of a VMI that is to end: its guest arrives first. */
function whenInPostCopy(test: SourceTest): Rule['when'] {
  return (facts) => {
    const view = sourceView(facts);
    return view !== undefined && isMoving(facts) && isInPostCopy(facts) && test(facts, view);
  };
}

const silence = (facts: Facts, view: SourceView) =>
  `the streams of the migration have carried no memory for ${Math.floor(silentMs(facts, view) / 1000)} s after the switch to post-copy`;

function closeStalled(facts: Facts, view: SourceView): Plan {
  const remember = { postCopySinceMs: undefined, ...spend(facts, view, silentMs(facts, view)) };
  return {
    steps: [{ step: 'closeSourceProxies', uid: facts.uid }],
    requeueAfterMs: tryPeriodMs,
    remember: rememberMigration(view, remember),
    problem: `${silence(facts, view)}: they are closed and opened anew`,
  };
}

/**
 * A guest whose streams broke in post-copy is not lost: QEMU waits on both nodes, and the same order to the launcher goes on where
 * they broke (libvirt's VIR_MIGRATE_POSTCOPY_RESUME). Upstream gives the VMI up at once.
 */
export const postCopyRules: readonly Rule[] = [
  {
    name: 'post-copy-seen',
    why: 'QEMU is in post-copy, which is seen for the first time: from now on silent streams count as such.',
    when: whenInPostCopy((_facts, { memory }) => memory.postCopySinceMs === undefined),
    plan: planLeaving(({ observation }, view) => ({
      ...rest,
      requeueAfterMs: 0,
      remember: rememberMigration(view, { postCopySinceMs: observation.nowMs }),
    })),
  },
  {
    name: 'post-copy-silent',
    why: 'The streams of a guest in post-copy are silent, but not yet for long enough since the switch.',
    when: whenInPostCopy((facts, view) => (stallsInMs(facts, view) ?? 0) > 0),
    plan: planLeaving((facts, view) => wait(stallsInMs(facts, view) ?? tryPeriodMs)),
  },
  {
    name: 'post-copy-stalled',
    why: 'The streams of a guest in post-copy stand and carry no memory, which QEMU does not notice: they are closed, so that the migration breaks and is resumed through new ones.',
    when: whenInPostCopy((facts, view) => stallsInMs(facts, view) !== undefined && canResume(facts, view)),
    plan: planLeaving(closeStalled),
  },
  {
    name: 'post-copy-stands',
    why: 'The streams of a guest in post-copy stand, and nobody here would resume it: without them it would be lost at once, so they are left alone and the user is told.',
    when: whenInPostCopy((facts, view) => stallsInMs(facts, view) !== undefined),
    plan: planLeaving((facts, view) => ({
      ...wait(tryPeriodMs),
      problem: `${silence(facts, view)}, and the migration cannot be resumed through new ones: look at the network between the nodes`,
    })),
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
    why: 'The migration that broke in post-copy goes on; should it break again soon, what is left of the time for it counts.',
    when: whenLeaving((facts, view) => !hasFailedPostCopy(facts) && view.memory.broken !== undefined),
    plan: planLeaving((facts, view) => ({
      ...rest,
      requeueAfterMs: 0,
      remember: rememberMigration(view, {
        ...spend(facts, view, brokenMs(facts, view)),
        ...{ broken: undefined, resumedMs: facts.observation.nowMs },
      }),
    })),
  },
];
