import {
  type DataVolume,
  finalizers,
  isBeingDeleted,
  isFinal,
  type RunStrategy,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { matcherFields } from '../../instancetype/index.ts';
import { type Decided, decideBy, longerPause, ruleTable, type Step } from '../../reconcile/index.ts';
import { type Refusal, storedRevisionName, type UnkeptReference } from '../instancetypes/index.ts';
import { unclearPauses } from '../reconciling.ts';
import { trackingOfNew } from './change-tracking.ts';
import type { TemplateFact } from './data-volume-facts.ts';
import { type PluggedVolumes, pluggedVolumes } from './hotplug.ts';
import { type PluggedInterfaces, pluggedInterfaces } from './interfaces.ts';
import type { JsonPatchOperation, LiveChange } from './live-change.ts';
import { type DumpVolumes, dumpVolumes } from './memory-dump.ts';
import { metadataOperations } from './metadata.ts';
import type { AbsentVm, PresentVm, UnclearVm, VmObservation } from './observation.ts';
import { isOrphaning } from './observe.ts';
import { decideRun, type RunAction } from './run-strategy.ts';
import { type RequestedVolumes, requestedVolumes } from './volume-requests.ts';

/** What may be done about a VM. */
export interface VmStepArgs {
  adoptVmi: { readonly vmi: VirtualMachineInstance };
  addFinalizer: object;
  removeFinalizer: object;
  /** `whole`: the VM with all that it refers to; `names`: annotations of its VMI that say what that was. */
  startVmi: {
    readonly paused: boolean;
    /** No guest is started: one of another VMI object is waited for. */
    readonly receives?: true;
    readonly whole?: VirtualMachine;
    readonly names?: Readonly<Record<string, string>>;
    /** What its VMI says of the recording of changed blocks. */
    readonly tracking?: 'Initializing' | 'Disabled';
  };
  stopVmi: { readonly vmi: VirtualMachineInstance };
  plugVolumes: { readonly vmi: VirtualMachineInstance; readonly plugged: PluggedVolumes };
  /** The VM's template gets volumes that virt-api was asked to plug in, or loses them. */
  changeVolumes: { readonly template: PluggedVolumes };
  plugInterfaces: { readonly vmi: VirtualMachineInstance; readonly plugged: PluggedInterfaces };
  /** Other CPUs, other memory or other nodes for a VMI that runs. */
  changeVmi: { readonly vmi: VirtualMachineInstance; readonly operations: readonly JsonPatchOperation[] };
  /** Instance type and preference are taken from volumes. */
  inferReferences: object;
  /** Revisions of instance type and preference are made. */
  keepReferences: { readonly unkept: readonly UnkeptReference[] };
  /** What instance type and preference say is written into the VM. */
  expandVm: { readonly whole: VirtualMachine };
  /** Tells the user; tried again, because what it is about may change without this VM. */
  refuseReferences: { readonly refusal: Refusal };
  /** DataVolumes are made of those of the VM's templates; `whole`: the VM with all that it refers to. */
  makeDataVolumes: { readonly names: readonly string[]; readonly whole?: VirtualMachine };
  /** DataVolumes that nothing controls become the VM's. */
  adoptDataVolumes: { readonly adopted: readonly DataVolume[] };
  /** Tells the user; tried again, because what it is about may change without this VM. */
  reportDataVolume: { readonly reason: string; readonly message: string };
  /** Another run strategy counts from now on. */
  changeStrategy: { readonly strategy: RunStrategy };
}

export type VmStep = Step<VmStepArgs>;

export interface VmPlan {
  readonly steps: readonly VmStep[];
  /** Reported to the user as condition `Failure`, with this reason or else FailedCreate. */
  readonly problem?: string;
  readonly problemReason?: string;
  readonly requeueAfterMs?: number;
  /**
   * `keep`: the status is not touched, since the object that was observed is about to change. `requestStart`: a Start request is
   * left behind before the failed VMI is deleted; after that nothing else would report the failure.
   */
  readonly status?: 'keep' | 'requestStart';
  /** The VMI's last state is recorded with this status: it may go then, as far as this VM is concerned. */
  readonly releasesVmi?: VirtualMachineInstance;
}

export interface VmDecision extends Decided, VmPlan {
  readonly steps: readonly VmStep[];
  readonly problem?: string;
}

/** With what the run strategy asks for. */
interface Facts extends PresentVm {
  readonly run: RunAction;
  readonly plugged: PluggedVolumes | undefined;
  readonly interfaces: PluggedInterfaces | undefined;
  readonly metadata: readonly JsonPatchOperation[];
  readonly requested: RequestedVolumes | undefined;
  readonly dump: DumpVolumes | undefined;
}

const asksFor =
  (...kinds: RunAction['kind'][]) =>
  ({ run }: Facts) =>
    kinds.includes(run.kind);

const switchesSince =
  (event: 'asked' | 'left' | 'arrived') =>
  ({ run }: Facts) =>
    run.kind === 'switchTo' && run.since === event;

/** What a VM refers to matters for none of these: a guest ends also without it. */
const endsOnly = asksFor('stop', 'requestStart', 'switchTo', 'unknown');

/** Upstream's order: pkg/virt-controller/watch/vm/vm.go; of live updates all but volumes that move to other claims. */
const presentRules = ruleTable<Facts, VmPlan>(
  [
    {
      name: 'vmi-without-owner',
      why: 'A VMI of this name belongs to nothing, so the VM takes it over.',
      when: ({ adoptable }) => adoptable !== undefined,
      plan: ({ adoptable }) => ({ steps: adoptable ? [{ step: 'adoptVmi', vmi: adoptable }] : [], status: 'keep' }),
    },
    {
      name: 'own-write-not-shown',
      why: 'The VMI was just created or deleted, and the cache does not show it yet.',
      when: ({ creationExpected, deletionExpected }) => creationExpected || deletionExpected,
      plan: ({ vmi }) => ({ steps: [], ...releaseOf(vmi) }),
    },
    {
      name: 'deleted-with-vmi',
      why: 'The VM is deleted: its VMI is deleted first.',
      when: ({ vm, vmi }) => isBeingDeleted(vm) && vmi !== undefined && !isOrphaning(vm),
      plan: ({ vmi }) => ({ steps: stopOf(vmi), ...releaseOf(vmi) }),
    },
    {
      name: 'deleted',
      why: 'The VM is deleted and nothing of it is left, so its finalizer is taken off.',
      when: ({ vm }) => isBeingDeleted(vm),
      plan: ({ vm }) => ({ steps: hasFinalizer(vm) ? [{ step: 'removeFinalizer' }] : [], status: 'keep' }),
    },
    {
      name: 'without-finalizer',
      why: 'The VM must not vanish before its VMI, so it gets a finalizer first.',
      when: ({ vm }) => !hasFinalizer(vm),
      plan: () => ({ steps: [{ step: 'addFinalizer' }], status: 'keep' }),
    },
    {
      name: 'strategy-refused',
      why: 'The run strategy cannot be followed; the VM has to be changed.',
      when: asksFor('refuse'),
      plan: ({ run, vmi }) => ({
        steps: [],
        ...(run.kind === 'refuse' && { problem: run.message }),
        ...releaseOf(vmi),
      }),
    },
    {
      name: 'restore-under-way',
      why: 'The VM is being restored: it is not started, and nothing is made of it, before that is over.',
      when: ({ vm, vmi }) => vmi === undefined && Boolean(vm.status?.restoreInProgress),
      plan: () => ({ steps: [] }),
    },
    {
      name: 'references-inferred',
      why: 'A volume of the VM says which instance type or preference it is for: that is written into the VM.',
      when: (facts) => facts.referred.kind === 'inferred' && !endsOnly(facts),
      plan: () => ({ steps: [{ step: 'inferReferences' }], status: 'keep' }),
    },
    {
      name: 'references-refused',
      why: 'No machine can be made of the VM with its instance type and preference; one of them has to be changed.',
      when: (facts) => facts.referred.kind === 'refused' && !endsOnly(facts),
      plan: ({ referred, vmi }) => ({
        steps: referred.kind === 'refused' ? [{ step: 'refuseReferences', refusal: referred.refusal }] : [],
        ...releaseOf(vmi),
      }),
    },
    {
      name: 'references-expanded',
      why: 'The cluster wants no VM that refers to an instance type or preference: what they say is written into the VM.',
      when: (facts) => isExpanded(facts) && !endsOnly(facts),
      plan: ({ referred }) => ({
        steps: referred.kind === 'found' ? [{ step: 'expandVm', whole: referred.whole }] : [],
        status: 'keep',
      }),
    },
    {
      name: 'references-not-kept',
      why: 'The VM refers to an instance type or preference of which it has no revision: it keeps what they say now.',
      when: (facts) => unkeptOf(facts).length > 0 && !endsOnly(facts),
      plan: (facts) => ({ steps: [{ step: 'keepReferences', unkept: unkeptOf(facts) }], status: 'keep' }),
    },
    {
      name: 'data-volume-refused',
      why: 'A template of the VM cannot become its DataVolume; the message says what has to be changed.',
      when: (facts) => wantedOf(facts, 'refused').length > 0,
      plan: (facts) => reported(facts, 'refused', 'FailedDataVolumeCreate'),
    },
    {
      name: 'data-volumes-unread',
      why: 'It is not known yet which DataVolumes there are, so none is made.',
      when: (facts) => wantedOf(facts, 'unread').length > 0,
      plan: ({ vmi }) => ({ steps: [], requeueAfterMs: unclearPauses.firstMs, ...releaseOf(vmi) }),
    },
    {
      name: 'data-volumes-without-owner',
      why: 'DataVolumes of the names in the templates belong to nothing, so the VM takes them over.',
      when: (facts) => wantedOf(facts, 'unowned').length > 0,
      plan: (facts) => {
        const adopted = wantedOf(facts, 'unowned').flatMap(({ object }) => object ?? []);
        return { steps: [{ step: 'adoptDataVolumes', adopted }], status: 'keep' };
      },
    },
    {
      name: 'data-volumes-missing',
      why: 'The VM has templates of DataVolumes that are not there, so they are made.',
      when: (facts) => wantedOf(facts, 'missing').length > 0,
      plan: (facts) => {
        const names = wantedOf(facts, 'missing').map(({ name }) => name);
        const { referred, vmi } = facts;
        const whole = referred.kind === 'found' ? { whole: referred.whole } : {};
        return { steps: [{ step: 'makeDataVolumes', names, ...whole }], ...releaseOf(vmi) };
      },
    },
    {
      name: 'data-volume-failed',
      why: 'A DataVolume of the VM could not be filled: no guest starts on it.',
      when: (facts) => asksFor('start')(facts) && wantedOf(facts, 'failed').length > 0,
      plan: (facts) => reported(facts, 'failed', 'FailedDataVolumeImport'),
    },
    {
      name: 'data-volumes-not-filled',
      why: 'The VM shall run when its DataVolumes are filled.',
      when: (facts) => asksFor('start')(facts) && wantedOf(facts, 'filling').length > 0,
      plan: ({ vmi }) => ({ steps: [], ...releaseOf(vmi) }),
    },
    {
      name: 'start',
      why: 'The VM shall run and has no VMI, so one is created.',
      when: asksFor('start'),
      plan: ({ run, vm, vmi, referred, changeTracking }) => ({
        steps: [
          {
            step: 'startVmi',
            paused: run.kind === 'start' && run.paused,
            ...(run.kind === 'start' && run.receives && { receives: true as const }),
            ...(referred.kind === 'found' && { whole: referred.whole, names: referred.names }),
            ...withTracking(trackingOfNew(vm, changeTracking)),
          },
        ],
        // That the VM has a VMI is written once it has one; of an earlier one the end is to be recorded before it goes.
        ...(vmi ? releaseOf(vmi) : { status: 'keep' }),
      }),
    },
    {
      name: 'start-backs-off',
      why: 'The VM shall run, but its last starts failed: the next one waits.',
      when: asksFor('wait'),
      plan: ({ run, vmi }) => ({
        steps: [],
        ...(run.kind === 'wait' && { requeueAfterMs: run.ms }),
        ...releaseOf(vmi),
      }),
    },
    {
      name: 'failed-run-recorded',
      why: 'The VMI failed and shall run again: a Start request is stored before the VMI goes.',
      when: asksFor('requestStart'),
      plan: () => ({ steps: [], status: 'requestStart' }),
    },
    {
      name: 'guest-elsewhere-or-nowhere',
      why: 'The VMI ended while its guest was on its way to another VMI object: nothing is started before it is known whether it arrived.',
      when: asksFor('unknown'),
      plan: ({ run, vmi }) => ({
        steps: [],
        ...(run.kind === 'unknown' && { problem: run.message, problemReason: 'GuestMaybeElsewhere' }),
        ...releaseOf(vmi),
      }),
    },
    {
      name: 'halted-vm-started',
      why: 'A start was asked for a halted VM: from now on it shall run.',
      when: switchesSince('asked'),
      plan: switched,
    },
    {
      name: 'guest-gone-elsewhere',
      why: 'The guest goes on in another VMI object: this VM is halted, so that it does not run twice.',
      when: switchesSince('left'),
      plan: switched,
    },
    {
      name: 'guest-received',
      why: 'The guest has come from another VMI object: the strategy counts that the VM names for this moment.',
      when: switchesSince('arrived'),
      plan: switched,
    },
    {
      name: 'stop',
      why: 'The VM shall not run, or its VMI has ended and makes room for the next one: the VMI is deleted.',
      when: asksFor('stop'),
      plan: ({ vmi }) => ({ steps: stopOf(vmi), ...releaseOf(vmi) }),
    },
    {
      name: 'volumes-requested',
      why: 'Volumes were asked to be plugged in or out: the template gets or loses them, and the guest that runs.',
      when: ({ requested }) => requested !== undefined,
      plan: ({ vmi, requested }) => ({
        steps: [
          ...(vmi && requested?.vmi ? [{ step: 'plugVolumes', vmi, plugged: requested.vmi } as const] : []),
          ...(requested ? [{ step: 'changeVolumes', template: requested.template } as const] : []),
        ],
        status: 'keep',
      }),
    },
    {
      name: 'memory-dump',
      why: 'A memory dump was asked for, is over, or was taken back: its claim comes into the guest that runs, or goes.',
      when: ({ dump }) => dump !== undefined,
      plan: ({ vmi, dump }) => ({
        steps: [
          ...(vmi && dump?.vmi ? [{ step: 'plugVolumes', vmi, plugged: dump.vmi } as const] : []),
          ...(dump?.template ? [{ step: 'changeVolumes', template: dump.template } as const] : []),
        ],
        status: 'keep',
      }),
    },
    {
      name: 'metadata-differs',
      why: 'The template has other annotations or labels of those that the VMI is to have at any time, so it gets them.',
      when: ({ metadata }) => metadata.length > 0,
      plan: ({ vmi, metadata }) => ({ steps: vmi ? [{ step: 'changeVmi', vmi, operations: metadata }] : [] }),
    },
    {
      name: 'interfaces-differ',
      why: 'The template has other network interfaces than the running VMI, so they are plugged in or out, or change their state.',
      when: ({ interfaces }) => interfaces !== undefined,
      plan: ({ vmi, interfaces }) => ({
        steps: vmi && interfaces ? [{ step: 'plugInterfaces', vmi, plugged: interfaces }] : [],
      }),
    },
    {
      name: 'volumes-differ',
      why: 'The template has other hot-plugged volumes than the running VMI, so they are plugged in or out.',
      when: ({ plugged }) => plugged !== undefined,
      plan: ({ vmi, plugged }) => ({ steps: vmi && plugged ? [{ step: 'plugVolumes', vmi, plugged }] : [] }),
    },
    {
      name: 'change-waits',
      why: 'The template has other CPUs, memory or nodes than the running VMI, which cannot change while something else is under way.',
      when: ({ changes }) => nextChange(changes)?.kind === 'wait',
      plan: ({ changes }) => {
        const next = nextChange(changes);
        return next?.kind === 'wait' ? { steps: [], problem: next.message, problemReason: next.reason } : { steps: [] };
      },
    },
    {
      name: 'change-is-live',
      why: 'The template has other CPUs, memory or nodes than the running VMI, which can take them without a restart.',
      when: ({ changes }) => nextChange(changes)?.kind === 'live',
      plan: ({ vmi, changes }) => {
        const operations = changes.flatMap((one) => (one.kind === 'live' ? one.operations : []));
        return { steps: vmi ? [{ step: 'changeVmi', vmi, operations }] : [] };
      },
    },
  ],
  {
    name: 'as-wanted',
    why: 'The VMI is as the run strategy wants it.',
    plan: ({ vmi }) => ({ steps: [], ...releaseOf(vmi) }),
  },
);

const absentRules = ruleTable<AbsentVm, VmPlan>([], {
  name: 'vm-gone',
  why: 'There is no such VM.',
  plan: () => ({ steps: [] }),
});

const unclearRules = ruleTable<UnclearVm, VmPlan>([], {
  name: 'api-without-answer',
  why: 'The API server did not answer what the decision depends on, so nothing is done until it does.',
  plan: (unclear) => ({
    steps: [],
    problem: unclear.reason,
    requeueAfterMs: longerPause(unclear, 'api-without-answer', unclearPauses),
    status: 'keep',
  }),
});

/** Of all kinds of observations; the names differ. */
export const vmRules = [...presentRules.rules, ...absentRules.rules, ...unclearRules.rules];

/** Pure and total. */
export function decideVm(observation: VmObservation): VmDecision {
  switch (observation.kind) {
    case 'absent':
      return decideBy(absentRules, observation);
    case 'unclear':
      return decideBy(unclearRules, observation);
    case 'present':
      return decideBy(presentRules, {
        ...observation,
        run: decideRun(observation.vm, observation.vmi, observation.now, observation.noReceiving),
        plugged: observation.plugsVolumes ? pluggedVolumes(observation.vm, observation.vmi) : undefined,
        interfaces: pluggedInterfaces(observation.vm, observation.vmi),
        metadata: metadataOperations(observation),
        requested: requestedVolumes(observation),
        dump: dumpVolumes(observation),
      });
  }
}

function switched({ run, vmi }: Facts): VmPlan {
  const steps: VmStep[] = run.kind === 'switchTo' ? [{ step: 'changeStrategy', strategy: run.strategy }] : [];
  return { steps, status: 'keep', ...releaseOf(vmi) };
}

function unkeptOf({ referred }: Facts): readonly UnkeptReference[] {
  return referred.kind === 'found' ? referred.unkept : [];
}

/** Only a start needs them, or a VM that is not at work, unless it says that it wants them at its start (as upstream). */
function wantedOf(facts: Facts, state: TemplateFact['state']): readonly TemplateFact[] {
  const { vm, vmi, run, dataVolumes } = facts;
  const isEarly = vm.metadata.annotations?.['kubevirt.io/immediate-data-volume-creation'] !== 'false';
  const isWanted = run.kind === 'start' || (isEarly && vmi === undefined && !endsOnly(facts));
  return isWanted ? dataVolumes.filter((each) => each.state === state) : [];
}

function reported(facts: Facts, state: TemplateFact['state'], reason: string): VmPlan {
  const message = wantedOf(facts, state)
    .map(({ detail }) => detail)
    .join('; ');
  return { steps: [{ step: 'reportDataVolume', reason, message }], ...releaseOf(facts.vmi) };
}

/** `expand` leaves VMs alone that have revisions. */
function isExpanded({ referred, referencePolicy, vm }: Facts): boolean {
  if (referred.kind !== 'found' || referencePolicy === 'reference') return false;
  return referencePolicy === 'expandAll' || !matcherFields.some((field) => storedRevisionName(vm, field));
}

/** What needs a restart is only said. */
function nextChange(changes: readonly LiveChange[]): LiveChange | undefined {
  return changes.find(({ kind }) => kind !== 'restart');
}

function hasFinalizer(vm: VirtualMachine): boolean {
  return vm.metadata.finalizers?.includes(finalizers.vm) === true;
}

function stopOf(vmi: VirtualMachineInstance | undefined): VmStep[] {
  return vmi && !isBeingDeleted(vmi) ? [{ step: 'stopVmi', vmi }] : [];
}

function releaseOf(vmi: VirtualMachineInstance | undefined): Pick<VmPlan, 'releasesVmi'> {
  const isOver = vmi !== undefined && (isFinal(vmi) || (vmi.status?.phase === 'WaitingForSync' && isBeingDeleted(vmi)));
  const isHeld = isOver && vmi.metadata.finalizers?.includes(finalizers.vm) === true;
  return isHeld ? { releasesVmi: vmi } : {};
}

function withTracking(tracking: ReturnType<typeof trackingOfNew>): { readonly tracking?: 'Initializing' | 'Disabled' } {
  return tracking ? { tracking } : {};
}
