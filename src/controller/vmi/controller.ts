import {
  type ExplainFacts,
  isFinal,
  type Key,
  keyOf,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { EventRecorder, Informer, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import type { DataVolumes } from '../data-volumes/index.ts';
import { claimsByVm, keptStateIndexes } from '../kept-state/index.ts';
import {
  AttachmentPods,
  attachmentPodName,
  LauncherPods,
  podFacts,
  renderAttachmentPod,
  renderLauncherPod,
  renderTemporaryPod,
  renderTriggerPod,
} from '../pod/index.ts';
import type { NamespaceQuotas } from '../quota/index.ts';
import { controllerBackoff, newestFirst, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decideVmi, type Renderers, type VmiDecision } from './decide.ts';
import { executors, goesOnAfter, staleCode } from './execute.ts';
import type { VmiFacts, VmiObservation } from './observation.ts';
import { observeVmi } from './observe.ts';
import { writeStatus } from './status.ts';
import { VsockCids } from './vsock-cids.ts';

export interface VmiControllerOptions {
  /** VMIs worked on side by side. */
  readonly workers: number;
}

export interface VmiControllerDeps {
  readonly client: KubeClient;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly vms: { get(key: Key): VirtualMachine | undefined };
  /** Launcher pods, with `podIndexes`. */
  readonly pods: Informer<Pod>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly dataVolumes: Pick<DataVolumes, 'fillingOf' | 'onChange'>;
  readonly quotas: NamespaceQuotas;
  /** Keys of the VMIs with a volume on this claim. */
  readonly vmisOfClaim: (claim: Key) => readonly Key[];
  readonly config: () => ControllerConfig;
  /** What a new guest gets, in hertz; 0: no node tells one. */
  readonly tscFrequency: () => number;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly randomUuid: () => string;
  readonly observer?: ReconcileObserver | undefined;
}

type Parts = ReconcileParts<VmiObservation, VmiDecision, ExplainFacts>;

/** From a new VMI to the hand-over, and its end. Level-triggered: all it knows is in the API. */
export class VmiController implements Component {
  readonly name = 'vmi-controller';
  readonly reconciler: Reconciler<VmiObservation, VmiDecision, ExplainFacts>;
  /** Which pods are launchers of a VMI; the controller of migrations shares it. */
  readonly launchers: LauncherPods;
  readonly #deps: VmiControllerDeps;
  /** The same for the pods that bring plugged volumes. */
  readonly attachmentPods: AttachmentPods;
  readonly #cids: VsockCids;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: VmiControllerOptions, deps: VmiControllerDeps) {
    this.#deps = deps;
    this.launchers = new LauncherPods(deps.randomUuid());
    this.attachmentPods = new AttachmentPods(this.launchers.salt);
    this.#cids = new VsockCids(deps);
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { vmis, pods, claims, dataVolumes, vmisOfClaim } = this.#deps;
    const wakeUsersOf = (claim: Key) => {
      for (const key of vmisOfClaim(claim)) this.reconciler.wake(key);
    };
    const wakeUsers = (claim: PersistentVolumeClaim) => {
      wakeUsersOf(keyOf(claim));
      for (const vm of keptStateIndexes[claimsByVm](claim)) if (vmis.get(vm)) this.reconciler.wake(vm);
    };
    const addOwner = (pod: Pod) => this.#wakeOwner(pod);
    this.wakeAll();
    this.reconciler.inBackground(() =>
      this.#subscriptions.push(
        vmis.onChange((key) => this.reconciler.wake(key)),
        pods.addHandlers({
          added: addOwner,
          updated: (old, pod) => {
            if (podFacts.controllerUid(old) !== podFacts.controllerUid(pod)) addOwner(old);
            addOwner(pod);
          },
          deleted: addOwner,
        }),
        dataVolumes.onChange(wakeUsersOf),
        claims.addHandlers({ added: wakeUsers, updated: (_, claim) => wakeUsers(claim), deleted: wakeUsers }),
      ),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** It begins, or the configuration has changed. */
  wakeAll(): void {
    this.reconciler.inBackground(() => {
      for (const key of newestFirst(this.#deps.vmis.list())) this.reconciler.wake(key);
    });
  }

  /** An attachment pod belongs to a launcher pod, which belongs to a VMI. */
  #wakeOwner(pod: Pod, depth = 0): void {
    const owner = pod.metadata.ownerReferences?.find(({ controller }) => controller);
    if (owner?.kind === resources.pods.kind && depth === 0) {
      const launcher = this.#deps.pods.get(`${pod.metadata.namespace}/${owner.name}`);
      if (launcher?.metadata.uid === owner.uid) this.#wakeOwner(launcher, 1);
      return;
    }
    if (owner?.kind !== resources.virtualMachineInstances.kind) return;
    this.reconciler.wake(`${pod.metadata.namespace}/${owner.name}`);
  }

  #parts(): Parts {
    const deps = this.#deps;
    const launchers = this.launchers;
    const onChange = 'when the VMI, one of its pods or the configuration changes';
    const attachmentPods = this.attachmentPods;
    const cids = this.#cids;
    const renderers: Renderers = {
      render: (facts) => renderLauncherPod(facts.vmi, facts.config, launchers.salt, facts.claims, stateClaimOf(facts)),
      renderTemporary: (facts) =>
        renderTemporaryPod(facts.vmi, facts.config, launchers.salt, facts.claims, stateClaimOf(facts)),
      renderAttachment: ({ vmi, config, attachments }, launcher, claims) => {
        const others = attachments.map(({ pod }) => pod);
        const name = attachmentPodName(attachmentPods.salt, launcher, claims, others);
        return renderAttachmentPod(name, vmi, launcher, claims, config);
      },
      renderTrigger: ({ config, attachments, triggers }, launcher, claim) => {
        const others = [...attachments, ...triggers].map(({ pod }) => pod);
        const held = { volume: 'claim', claim, isBlock: false, isMounted: false, claimUid: '' };
        const name = attachmentPodName(`${attachmentPods.salt} trigger`, launcher, [held], others);
        return renderTriggerPod(name, launcher, claim, config);
      },
    };
    const facts = factsParts(seenOf, { field: 'vmi', object: 'the VMI', onChange });
    return {
      ...facts,
      isSynced: () => deps.vmis.synced,
      observe: (key, signal) => observeVmi(key, { ...deps, launchers, attachmentPods }, signal),
      decide: (observation) => decideVmi(observation, renderers),
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report, signal) => writeStatus(attempt, report, { ...deps, cids }, signal),
      versionOf: (seen) => (seen.kind === 'present' ? seen.vmi.metadata.resourceVersion : undefined),
      isGone: (observation) => this.#forgetIfGone(observation),
      recordEvent: (observation, event) =>
        recordEventOn(deps.events, observation.kind === 'present' ? observation.vmi : undefined, event),
      crashLoop: { ...facts.crashLoop, isOvertaken: ({ code }) => code === staleCode },
    };
  }

  #execute(observation: VmiObservation, { steps }: VmiDecision, signal: AbortSignal) {
    const { client, quotas, vmis, ownPods, clock } = this.#deps;
    const { key, now } = observation;
    const vmi = observation.kind === 'present' ? observation.vmi : undefined;
    const saw = (newer: VirtualMachineInstance) => vmi && vmis.saw(key, vmi, newer);
    const pods = { launchers: this.launchers, attachmentPods: this.attachmentPods, ownPods };
    const { cpuLimitedNamespaces: limitedNamespaces, vmStateStorageClass: stateClass } = this.#deps.config();
    const context = { client, quotas, ...pods, vmi, saw, now, limitedNamespaces, stateClass, signal };
    const limits = { deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, goesOnAfter, clock };
    return runPlan(steps, context, { executors, ...limits });
  }

  #forgetIfGone({ kind, key }: VmiObservation): boolean {
    if (kind !== 'absent') return false;
    this.launchers.forget(key);
    this.attachmentPods.forget(key);
    this.#cids.forget(key);
    return true;
  }
}

const stateClaimOf = ({ keptState }: VmiFacts) => ('claim' in keptState ? keptState.claim.metadata.name : undefined);

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: VmiObservation): ExplainFacts {
  if (observation.kind === 'absent') return { vmi: 'gone', ...counted('orphans', observation.orphans) };
  if (observation.kind === 'unclear') return { vmi: 'unclear' };
  const { vmi, pod, pods, attachments, foreignPods, orphans } = observation;
  return {
    phase: vmi.status?.phase || 'none',
    ...(vmi.metadata.deletionTimestamp && !isFinal(vmi) && { deletion: 'asked for' }),
    ...(pod && { pod: `${pod.metadata.name}: ${pod.status?.phase ?? 'new'} on ${pod.spec.nodeName ?? 'no node yet'}` }),
    ...(pods.length > 1 && counted('pods', pods)),
    ...counted(
      'attachmentPods',
      attachments.map((each) => each.pod),
    ),
    ...counted('foreignPods', foreignPods),
    ...counted('orphans', orphans),
  };
}

function counted(name: string, pods: readonly Pod[]): ExplainFacts {
  return pods.length > 0 ? { [name]: String(pods.length) } : {};
}
