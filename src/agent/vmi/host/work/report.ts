import type { VmiEvent } from '../../../../api/index.ts';
import { errorCode, errorMessage } from '../../../../base/index.ts';
import type { HookResult, HostPart, Json } from './contract.ts';
import type { CallEnd } from './hook-calls.ts';

/** What is reported of one run: lines for "explain", and events. */
export class Report {
  readonly parts: HostPart[] = [];
  readonly events: VmiEvent[] = [];

  called(name: string, end: CallEnd<HookResult<Json> | undefined>): void {
    const { tookMs } = end;
    if (end.kind === 'threw') {
      this.parts.push({ name, outcome: 'failed', tookMs, because: causeOf(end.error) });
      return;
    }
    this.events.push(...(end.value?.events ?? []));
    if (end.value?.kind === 'wait') this.parts.push({ name, outcome: 'waits', tookMs, because: end.value.because });
    else {
      const gave = end.value?.summary;
      this.parts.push({ name, outcome: 'done', tookMs, ...(gave !== undefined && { gave }) });
    }
  }

  /** Once, however often it is tried in one run. */
  checkpointFailed(error: unknown): void {
    if (this.parts.some(({ name }) => name === 'checkpoint')) return;
    this.parts.push({ name: 'checkpoint', outcome: 'failed', tookMs: 0, because: causeOf(error) });
  }

  checkpointWaits(because: string): void {
    this.parts.push({ name: 'checkpoint', outcome: 'waits', tookMs: 0, because });
  }
}

function causeOf(error: unknown): string {
  return `${errorCode(error) ?? 'FAILED'}: ${errorMessage(error)}`;
}
