import type { WaitingReport } from '../../api/index.ts';
import { durationText, waitingState } from '../../web/index.ts';

/** For a person; lines without their ends. */
export function waitingLines(report: WaitingReport): string[] {
  const { namespace, name, at, waitsFor, todo, decided = [], warnings } = report;
  return [
    `${namespace}/${name} is on no node`,
    `  is        ${waitingState(report)}`,
    `  waits for ${waitsFor}`,
    ...todo.map((each, index) => `  ${index === 0 ? 'do     ' : '       '}   ${each}`),
    ...decided.flatMap(({ about, rule, why, next, problem }) => [
      `  decided   ${why} (${about}, rule ${rule}; next: ${next})`,
      ...(problem === undefined ? [] : [`  problem   ${problem}`]),
    ]),
    ...warnings.map((event) => `  warning   ${agoText(event.at, at)}${event.reason}: ${event.message}`),
  ];
}

function agoText(time: string, at: string): string {
  const ms = Date.parse(at) - Date.parse(time);
  return Number.isNaN(ms) ? '' : `${durationText(Math.max(0, ms))} ago `;
}
