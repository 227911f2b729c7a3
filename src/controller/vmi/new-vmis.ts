import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, rfc3339 } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { admit, isAdmitted } from './admit.ts';
import { vmiProblem } from './check.ts';

export interface NewVmisDeps {
  readonly config: () => ControllerConfig;
  readonly clock: Clock;
  readonly randomUuid: () => string;
}

/**
 * What this controller sends when it makes a VMI. In a cluster upstream's webhook admits it, and takes defaults from more than is known here; so
 * does the embedded API. Where an answer shows that nobody does, the next ones are sent admitted, instead of being written once more.
 */
export class NewVmis {
  readonly #deps: NewVmisDeps;
  #isAlone = false;

  constructor(deps: NewVmisDeps) {
    this.#deps = deps;
  }

  /** Changes `vmi`, unless it lacks what each guest needs: that is for its own controller to say. */
  prepare(vmi: VirtualMachineInstance): VirtualMachineInstance {
    if (!this.#isAlone || vmiProblem(vmi) !== undefined) return vmi;
    const { config, clock, randomUuid } = this.#deps;
    admit(vmi, config(), randomUuid);
    const phase = 'Pending';
    const phaseTransitionTimestamps = [{ phase, phaseTransitionTimestamp: rfc3339(clock.now()) } as const];
    vmi.status = { ...vmi.status, phase, phaseTransitionTimestamps };
    return vmi;
  }

  /** What the API server has made of one. A webhook that came meanwhile counts a second phase. */
  learn(sent: VirtualMachineInstance, made: VirtualMachineInstance): void {
    const stamps = made.status?.phaseTransitionTimestamps?.length ?? 0;
    this.#isAlone = isAdmitted(sent) ? stamps === 1 : !isAdmitted(made);
  }
}
