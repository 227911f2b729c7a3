import {
  type ControllerDecision,
  type ControllerList,
  type ControllerReport,
  type ExplainDecision,
  type ExplainItem,
  type ExplainList,
  type ExplainReport,
  type ExplainStep,
  stepsAndParts,
} from '../../api/index.ts';
import { shortened } from '../../base/index.ts';
import { durationText, migrationText, movedText, nextTryText } from '../../web/index.ts';
import { type Paint, painted, plain } from './style.ts';

const decisionsShown = 12;

/** A VMI's story for a person: what is, why, what is awaited, and how it came about. Lines without their ends. */
export function explainStory(report: ExplainReport): string[] {
  const { namespace, name, node, at, goneAt, problem, decisions, quarantine, migration } = report;
  const last = decisions.at(-1);
  const left = goneAt === undefined ? '' : `, ${last?.seen.vmi.moved ? 'moved away' : 'gone'} ${ago(goneAt, at)}`;
  if (last === undefined) return [`${namespace}/${name} on node ${node}${left}: nothing was decided yet`];
  const since = last.times > 1 ? `decided ${last.times} times, first ${ago(last.firstAt, at)}, ` : '';
  return [
    `${namespace}/${name} on node ${node}${left}`,
    `  is       ${picture(last)}`,
    `  because  ${last.why}`,
    `           rule ${last.rule}, ${since}last ${ago(last.lastAt, at)}`,
    `  next     ${nextTryText(report.nextTry)}`,
    ...(migration ? [`  moves    ${migrationText(migration)}`] : []),
    ...(problem === undefined ? [] : [`  problem  ${problem}`]),
    ...(quarantine
      ? [
          `  quarantine since ${ago(quarantine.since, at)}: ${quarantine.where} failed ${quarantine.failures} times in a row; it is ` +
            'tried at long intervals, and at once when the VMI or its guest changes',
        ]
      : []),
    '',
    ...decisionTable(decisions.slice(-decisionsShown), at),
    ...(decisions.length > decisionsShown ? [`(${decisions.length - decisionsShown} older: -o json shows all)`] : []),
  ];
}

/** A VM's or VMI's story as virt-controller sees it. */
export function controllerStory(report: ControllerReport): string[] {
  const { resource, namespace, name, at, goneAt, problem, decisions, crashLoopBackoff } = report;
  const last = decisions.at(-1);
  const left = goneAt === undefined ? '' : `, gone ${ago(goneAt, at)}`;
  const shown = `${resource} ${namespace === '' ? name : `${namespace}/${name}`}${left}`;
  if (last === undefined) return [`${shown}: nothing was decided yet`];
  const since = last.times > 1 ? `decided ${last.times} times, first ${ago(last.firstAt, at)}, ` : '';
  return [
    shown,
    `  is       ${factsText(last)}`,
    `  because  ${last.why}`,
    `           rule ${last.rule}, ${since}last ${ago(last.lastAt, at)}`,
    `  next     ${nextTryText(report.nextTry)}`,
    ...(problem === undefined ? [] : [`  problem  ${problem}`]),
    ...(crashLoopBackoff ? [`  back-off since ${ago(crashLoopBackoff.since, at)}: ${crashLoopBackoff.problem}`] : []),
    '',
    ...table(
      ['AGO', 'TIMES', 'RULE', 'SEEN', 'DID'],
      decisions
        .slice(-decisionsShown)
        .map((decision) => [
          ago(decision.lastAt, at).replace(' ago', ''),
          String(decision.times),
          decision.rule,
          oneLine(factsText(decision), 60),
          didText(decision),
        ]),
    ),
  ];
}

/** One line per VM or VMI that virt-controller decided about. */
export function controllerTable({ items, resource, at }: ControllerList): string[] {
  if (items.length === 0) return [`virt-controller has decided nothing about any ${resource} since it started`];
  return table(
    ['NAMESPACE', 'NAME', 'RULE', 'SINCE', 'NEXT', 'PROBLEM'],
    items.map((item) => [
      item.namespace || '-',
      item.name,
      item.goneAt === undefined ? item.rule : `gone ${ago(item.goneAt, at)}`,
      ago(item.since, at),
      shortNext({ ...item, quarantined: false }),
      item.problem === undefined ? '-' : oneLine(item.problem, 60),
    ]),
  );
}

function factsText({ seen }: ControllerDecision): string {
  return Object.entries(seen)
    .map(([fact, value]) => `${fact} ${value}`)
    .join(', ');
}

function didText({ steps, write, events = [] }: ControllerDecision): string {
  const did = [
    ...steps.map(stepText),
    ...(write.outcome === 'written' ? ['wrote status'] : []),
    ...events.map((reason) => `event ${reason}`),
  ];
  return did.join(', ') || '-';
}

/** One line per VMI. */
export function explainTable({ items, node, at }: ExplainList): string[] {
  if (items.length === 0) return [`the agent of node ${node} has decided nothing since it started: no VMI is here`];
  return table(
    ['NAMESPACE', 'NAME', 'PHASE', 'GUEST', 'RULE', 'SINCE', 'NEXT', 'PROBLEM'],
    items.map((item) => [
      item.namespace,
      item.name,
      item.goneAt === undefined
        ? item.phase || '-'
        : `${item.moved ? `on ${item.moved.node}` : 'gone'} ${ago(item.goneAt, at)}`,
      item.domain,
      item.rule,
      ago(item.since, at),
      shortNext(item),
      item.problem === undefined ? '-' : oneLine(item.problem, 60),
    ]),
  );
}

/** What went wrong, and what each hook did, stands below its decision, where it has room. */
function decisionTable(decisions: readonly ExplainDecision[], at: string): string[] {
  const [head = '', ...lines] = table(
    ['AGO', 'TIMES', 'RULE', 'PHASE', 'GUEST', 'LAUNCHER', 'DID'],
    decisions.map((decision) => row(decision, at)),
  );
  return [head, ...lines.flatMap((line, index) => [line, ...details(decisions[index])])];
}

function row(decision: ExplainDecision, at: string): string[] {
  const { seen, newPhase, patch = [], events = [], write } = decision;
  const changes = [...(newPhase ? [`phase ${newPhase}`] : []), ...patch];
  const did = [
    ...decision.steps.map(stepText),
    ...(write.outcome === 'written' ? [`wrote ${changes.join(', ') || 'status'}`] : []),
    ...events.map((reason) => `event ${reason}`),
  ];
  return [
    ago(decision.lastAt, at).replace(' ago', ''),
    String(decision.times),
    decision.rule,
    phaseOf(decision),
    domainText(decision),
    seen.launcher.kind,
    did.join(', ') || '-',
  ];
}

function details(decision: ExplainDecision | undefined): string[] {
  if (!decision) return [];
  const { steps, write } = decision;
  const plain = new Set(steps.map(({ step }) => step));
  const shown = stepsAndParts(steps).filter(({ step, because }) => because !== undefined || !plain.has(step));
  return [
    ...shown.map((step) => detail(step, plain.has(step.step))),
    ...(write.because === undefined ? [] : [`        write ${write.outcome}: ${oneLine(write.because, 160)}`]),
  ];
}

/** How long a step took stands in its decision's own line. */
function detail({ step, outcome, tookMs, because, gave }: ExplainStep, isTimed: boolean): string {
  const time = tookMs === undefined || isTimed ? '' : ` ${durationText(tookMs)}`;
  const words = because ?? gave;
  return `        ${step} ${outcome}${time}${words === undefined ? '' : `: ${oneLine(words, 160)}`}`;
}

function phaseOf({ seen: { vmi } }: ExplainDecision): string {
  return vmi.kind === 'present' ? vmi.phase || '-' : vmi.kind;
}

function domainText({ seen: { domain } }: ExplainDecision): string {
  return domain.kind === 'present' ? `${domain.status}/${domain.reason}` : domain.kind;
}

/** What is now: as it was seen, but for the phase that was written then. */
function picture(decision: ExplainDecision): string {
  const { vmi, domain, launcher } = decision.seen;
  const written = decision.write.outcome === 'written' ? decision.newPhase : undefined;
  const away = `VMI ${vmi.moved ? movedText(vmi.moved) : vmi.kind}`;
  const phase = vmi.kind === 'present' ? written || vmi.phase || 'no phase' : away;
  const ends = vmi.deletionTimestamp === undefined ? '' : ', being deleted';
  const proof = domain.proof === undefined ? '' : ` (${domain.proof})`;
  const age = domain.ageMs === undefined ? '' : `, heard of ${durationText(domain.ageMs)} before`;
  const because = domain.because === undefined ? '' : ` (${oneLine(domain.because, 120)})`;
  return `${phase}${ends}; guest ${domainText(decision)}${proof}${because}${age}; launcher ${launcher.kind}`;
}

function stepText({ step, outcome, tookMs }: ExplainStep): string {
  if (outcome === 'not-reached') return `(${step})`;
  const time = tookMs === undefined ? '' : ` ${durationText(tookMs)}`;
  return outcome === 'done' ? `${step}${time}` : `${step} ${outcome}${time}`;
}

function shortNext({ nextTry, quarantined }: Pick<ExplainItem, 'nextTry' | 'quarantined'>): string {
  const when =
    nextTry.state === 'waiting'
      ? `in ${durationText(nextTry.inMs ?? 0)}`
      : nextTry.state === 'idle'
        ? 'on change'
        : 'now';
  return quarantined ? `${when} (quarantine)` : when;
}

function ago(time: string, at: string): string {
  return `${durationText(Math.max(0, Date.parse(at) - Date.parse(time)))} ago`;
}

function oneLine(text: string, limit: number): string {
  return shortened(text.replaceAll(/\s+/g, ' '), limit);
}

/** Cells that tell a state have its colour. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], paint: Paint = plain): string[] {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((cells) => (cells[at] ?? '').length)));
  return [head, ...rows].map((cells, line) =>
    cells
      .map((cell, at) => (at === cells.length - 1 ? cell : cell.padEnd(widths[at] ?? 0)))
      .map((cell) => (line === 0 ? cell : painted(paint, cell)))
      .join('  ')
      .trimEnd(),
  );
}
