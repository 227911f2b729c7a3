import type { Key } from '../../../api/index.ts';
import type { Logger } from '../../../base/index.ts';
import { type DecisionRecord, domainText } from './record.ts';

/** One line per decision that differs from the one before; what changes nothing is for those who debug. */
export function logDecision(log: Logger, key: Key, record: DecisionRecord): void {
  const { uid, route, rule, seen, newPhase, steps, problem } = record;
  const troubles = steps.filter(({ because }) => because).map(({ step, because }) => `${step}: ${because}`);
  const tookMs = Object.fromEntries(
    steps.flatMap(({ step, tookMs: took }) => (took === undefined ? [] : [[step, took]])),
  );
  const isQuiet = steps.length === 0 && !newPhase && !problem;
  log[isQuiet ? 'debug' : 'info'](
    {
      vmi: key,
      uid,
      route,
      rule,
      domain: domainText(seen.domain),
      launcher: seen.launcher.kind,
      phase: seen.vmi.phase ?? '',
      ...(newPhase && { newPhase }),
      steps: steps.map(({ step }) => step),
      tookMs,
      troubles,
      ...(problem !== undefined && { problem }),
    },
    'decided',
  );
}
