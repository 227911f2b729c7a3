import type { ExplainDecision, ExplainReport, ExplainStep } from '../../api/index.ts';
import { durationText } from '../duration.ts';
import { movedText } from '../migration-text.ts';

/** A decision as the timeline shows it. */
export interface ExplainMoment {
  readonly rule: string;
  readonly why: string;
  readonly at: string;
  /** More than once in a row: since when and how often. */
  readonly repeated?: string;
  readonly seen: string;
  readonly did: readonly ExplainDeed[];
  readonly isTrouble: boolean;
}

export interface ExplainDeed {
  readonly text: string;
  readonly outcome: ExplainStep['outcome'];
  readonly because?: string;
}

/** Newest first. */
export function momentsOf({ decisions }: Pick<ExplainReport, 'decisions'>): readonly ExplainMoment[] {
  return decisions.map(momentOf).reverse();
}

function momentOf(decision: ExplainDecision): ExplainMoment {
  const { rule, why, lastAt, firstAt, times, problem } = decision;
  const steps = decision.steps.flatMap((step) => [step, ...(step.parts ?? [])]);
  const did = [...steps.map(stepDeed), ...writeDeeds(decision)];
  const tookMs = Date.parse(lastAt) - Date.parse(firstAt);
  return {
    rule,
    why,
    at: lastAt,
    ...(times > 1 && { repeated: `${times} times in ${durationText(tookMs)}` }),
    seen: seenText(decision),
    did,
    isTrouble: problem !== undefined || did.some(({ outcome }) => outcome === 'failed'),
  };
}

function stepDeed({ step, outcome, tookMs, because }: ExplainStep): ExplainDeed {
  const time = tookMs === undefined || outcome === 'not-reached' ? '' : ` (${durationText(tookMs)})`;
  const end = outcome === 'done' ? '' : outcome === 'not-reached' ? ' was not reached' : ` ${outcome}`;
  return { text: `${words(step)}${end}${time}`, outcome, ...(because !== undefined && { because }) };
}

function writeDeeds({ newPhase, patch = [], events = [], write }: ExplainDecision): ExplainDeed[] {
  const changes = [...(newPhase ? [`phase ${newPhase}`] : []), ...patch];
  const deeds: ExplainDeed[] = [];
  if (write.outcome === 'written') deeds.push({ text: `wrote ${changes.join(', ') || 'status'}`, outcome: 'done' });
  if (write.because !== undefined) {
    deeds.push({ text: `writing the status: ${write.outcome}`, outcome: 'failed', because: write.because });
  }
  if (events.length > 0) deeds.push({ text: `event ${events.join(', ')}`, outcome: 'done' });
  return deeds;
}

/** What is now: as it was seen, but for the phase that was written then. */
export function isText(decision: ExplainDecision): string {
  const { seen, newPhase, write } = decision;
  if (newPhase === undefined || write.outcome !== 'written') return seenText(decision);
  return seenText({ ...decision, seen: { ...seen, vmi: { ...seen.vmi, phase: newPhase } } });
}

/** What the agent saw: the VMI, the guest, its launcher. */
function seenText({ seen: { vmi, domain, launcher } }: ExplainDecision): string {
  const away = vmi.moved ? movedText(vmi.moved) : vmi.kind;
  const phase = `VMI ${vmi.kind === 'present' ? vmi.phase || 'without a phase' : away}`;
  const ends = vmi.deletionTimestamp === undefined ? '' : ', being deleted';
  const state = domain.kind === 'present' ? `guest ${domain.status} (${domain.reason})` : `guest ${domain.kind}`;
  const proof = domain.proof ?? domain.because;
  return `${phase}${ends} · ${state}${proof === undefined ? '' : `: ${proof}`} · launcher ${launcher.kind}`;
}

/** `shutdownDomain` → `shutdown domain`; what has capitals in a row stays. */
function words(step: string): string {
  return step.replace(/([a-z])([A-Z][a-z])/g, (_all, end: string, start: string) => `${end} ${start.toLowerCase()}`);
}
