import type { SimWorld, WorldVmi } from './world/sim-world.ts';

/** From where its launcher listens to phase Running. A start that comes to nothing is tried again after ten seconds (rule start-due). */
const startMs = 15_000;
/** From the guest's end, or its launcher's, to the final phase. */
const reportedMs = 8_000;
/** After its grace a guest that nobody wants is killed; a kill without an answer is repeated after five seconds (fault 12). */
const killedMs = 8_000;

/** When each VMI was first in each phase. */
export class Timely {
  readonly #phases = new Map<string, Map<string, number>>();

  onPhase(uid: string, phase: string, nowMs: number): void {
    const phases = this.#phases.get(uid) ?? new Map<string, number>();
    if (!phases.has(phase)) phases.set(phase, nowMs);
    this.#phases.set(uid, phases);
  }

  /** Virtual time of the world's beginning, from which plans count. */
  readonly #beganMs: number;

  constructor(beganMs: number) {
    this.#beganMs = beganMs;
  }

  /** What came, but too late: only of a world in which nothing is wrong and no guest moves, for there a wait has no excuse. */
  late({ plan, vmis }: SimWorld): string[] {
    if (plan.faults.length + plan.migrations.length > 0) return [];
    return vmis.flatMap((vmi) => [...this.#lateStart(vmi, vmis), ...this.#lateWord(vmi), ...lateEnd(vmi, vmis)]);
  }

  #lateStart({ uid, plan }: WorldVmi, vmis: readonly WorldVmi[]): string[] {
    const runningMs = this.#phases.get(uid)?.get('Running');
    // One that has a predecessor waits for its end.
    const isFirst = vmis.find((each) => each.plan.name === plan.name)?.uid === uid;
    if (runningMs === undefined || !isFirst) return [];
    return above(`${uid} became Running`, runningMs - this.#beganMs - plan.atMs - plan.socketDelayMs, startMs);
  }

  #lateWord({ uid, launcher }: WorldVmi): string[] {
    const phases = this.#phases.get(uid);
    const finalMs = phases?.get('Succeeded') ?? phases?.get('Failed');
    if (finalMs === undefined || launcher.endedMs === 0) return [];
    return above(`the end of ${uid} was written`, finalMs - launcher.endedMs, reportedMs);
  }
}

function lateEnd({ uid, launcher, unwantedMs, plan }: WorldVmi, vmis: readonly WorldVmi[]): string[] {
  // When its name is given again its own launcher ends it (rule predecessor-in-the-way).
  const isLast = vmis.findLast((each) => each.plan.name === plan.name)?.uid === uid;
  if (unwantedMs === undefined || launcher.endedMs === 0 || !isLast) return [];
  return above(`${uid} ended`, launcher.endedMs - unwantedMs, plan.graceSeconds * 1_000 + killedMs);
}

function above(what: string, ms: number, limitMs: number): string[] {
  return ms > limitMs ? [`${what} after ${Math.round(ms)} ms, at most ${limitMs}`] : [];
}
