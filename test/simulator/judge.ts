import {
  annotations,
  isBeingDeleted,
  isFinal,
  type Key,
  labels,
  type VirtualMachineInstance,
  type VmiPhase,
} from '../../src/api/index.ts';
import { isAlive } from '../fixtures/domain-rules.ts';
import { Timely } from './timely.ts';
import type { SimAgent } from './world/sim-agent.ts';
import type { Mount } from './world/sim-hook.ts';
import type { SimLauncher } from './world/sim-launcher.ts';
import type { SimWorld, WorldVmi } from './world/sim-world.ts';

type Vmi = VirtualMachineInstance;

export interface Violation {
  readonly invariant: string;
  readonly text: string;
}

/** Told when a call is not waited for any more. */
export type CallEnd = (isDone: boolean) => void;

const diskFaults = new Set<string>(['disk-full', 'disk-errors', 'record-torn']);

const destructive = new Set(['shutdownVirtualMachine', 'killVirtualMachine', 'deleteVirtualMachine']);

/** What an agent may make of a phase. */
const legal: Readonly<Record<string, readonly VmiPhase[]>> = {
  Scheduled: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Running: ['Running', 'Succeeded', 'Failed'],
  Succeeded: ['Succeeded'],
  Failed: ['Failed'],
};

/** Passes over one key in one second, beyond those that news from outside explain, above which it is a hot loop. */
const hotPasses = 50;
/** What an agent knew this long before it wrote must show in what it wrote: its decision and its tries to write lie between. */
const knownForMs = 15_000;
/** A start that left no trace may be tried again after this (rule start-due). */
const startAgainMs = 9_000;
/** An agent that saw a guest leave may have had a sync on its way for this long. */
const underWayMs = 1_000;
/** A call to plug a device may come this late after it was decided on: other steps come first. */
const plugStepsMs = 60_000;
/** A destructive call may be on its way this long after the domain became unknown. */
const unknownForMs = 12_000;

/** Watches all that agents do, and says what they may never do. Knows the truth: what the API server and the guests are. */
export class Judge {
  violation: Violation | undefined;
  readonly #world: SimWorld;
  readonly #inFlight = new Map<string, number>();
  readonly #passes = new Map<Key, { readonly sinceMs: number; count: number; readonly newsBefore: number }>();
  #news = 0;
  /** `agent uid` → how it saw the guest end, and when. */
  readonly #evidence = new Map<string, { readonly reason: string; readonly atMs: number }>();
  /** `agent uid` → when it first saw that the guest had moved away. */
  readonly #sawLeave = new Map<string, number>();
  /** `uid by agent` → what it synced last, and when. */
  readonly #synced = new Map<string, { readonly content: string; readonly atMs: number; readonly pauses: number }>();
  /** `agent uid` → when it first heard that the guest runs at the target, with a part of its memory. */
  readonly #sawPostCopy = new Map<string, number>();
  /** `pod by agent` → calls that have brought no device yet. */
  readonly #plugged = new Map<string, { readonly plugs: number; readonly count: number; readonly firstMs: number }>();
  readonly #movedBy = new Set<string>();
  /** `agent uid` → version that its last PUT was answered with. */
  readonly #written = new Map<string, number>();
  readonly timely: Timely;
  writes = 0;
  passes = 0;

  constructor(world: SimWorld) {
    this.#world = world;
    this.timely = new Timely(world.scheduler.nowMs);
  }

  violate(invariant: string, text: string): void {
    this.violation ??= { invariant, text };
  }

  /** An agent sends a call to a launcher. The returned function tells that it is not waited for any more. */
  onCall(agent: SimAgent, launcher: SimLauncher, rpc: string, body: string): CallEnd {
    if (body === '') return () => undefined;
    const syncPayload = JSON.parse(body) as Vmi;
    const { uid } = launcher.options;
    if (syncPayload.metadata.uid !== uid) {
      this.violate(
        'no-call-for-another-uid',
        `${rpc} for ${syncPayload.metadata.uid} was sent to the launcher of ${uid}`,
      );
    }
    if (rpc === 'syncVirtualMachine') return this.#checkSync(agent, launcher, syncPayload);
    if (rpc === 'hotplugHostDevices') this.#checkPlug(agent, launcher);
    if (!destructive.has(rpc)) return () => undefined;
    this.#checkDestructive(agent, launcher, rpc);
    const id = `${agent.life.name} ${uid}`;
    const running = (this.#inFlight.get(id) ?? 0) + 1;
    this.#inFlight.set(id, running);
    if (running > 1) this.violate('one-destructive-call-in-flight', `${rpc} to ${uid}`);
    return () => {
      this.#inFlight.set(id, (this.#inFlight.get(id) ?? 1) - 1);
    };
  }

  onAgentWrite(writer: string, before: Vmi, after: Vmi): void {
    this.writes++;
    const [from, to] = [before.status?.phase ?? '', after.status?.phase ?? ''];
    if (!legal[from]?.includes(to)) this.violate('phases-move-along-the-legal-table', `${from} became ${to}`);
    if (isFinal(before) && !isLabelDropped(before, after))
      this.violate('a-final-vmi-is-not-written', `${before.metadata.name} was ${from}`);
    const foreign = foreignPart(before);
    if (foreign !== foreignPart(after)) {
      this.violate('foreign-fields-are-kept', `${foreign} became ${foreignPart(after)}`);
    }
    const vmi = this.#world.byUid(before.metadata.uid ?? '');
    if (from !== to) this.timely.onPhase(before.metadata.uid ?? '', to, this.#world.scheduler.nowMs);
    if (vmi) this.#checkMigrationEnd(vmi, before, after);
    if (vmi && from !== to && isFinal(after)) this.#checkFinal(writer, vmi, to);
    if (vmi && ownerOf(before) !== ownerOf(after)) this.#checkHandOver(writer, vmi, before, after);
  }

  /** An agent sends a PUT. */
  onPut({ life }: SimAgent, { metadata }: Vmi): void {
    const known = this.#written.get(`${life.name} ${metadata.uid}`) ?? 0;
    const { plan } = this.#world;
    // Known and not repaired (seed 1000057): between two watches a VMI whose label changes is in neither, and the own write is
    // forgotten; it costs a 409.
    const isExcused = plan.migrations.length > 0 || plan.faults.some(({ kind }) => kind === 'lists-are-old');
    if (!isExcused && Number(metadata.resourceVersion) < known)
      this.violate(
        'no-write-from-before-the-own-last-one',
        `${metadata.uid}: ${metadata.resourceVersion} after ${known}`,
      );
  }

  /** What its watches do not show yet is not remembered: nothing would ever end that. It may cost a 409. */
  onWritten(agent: SimAgent, vmi: Vmi): void {
    const { life } = agent;
    const { metadata } = vmi;
    if (!agent.lists(vmi)) return;
    this.#written.set(`${life.name} ${metadata.uid}`, Number(metadata.resourceVersion));
  }

  /** Something came from outside by itself: one more pass over each key is explained. */
  onNews(): void {
    this.#news++;
  }

  /** A pass over a key begins. */
  onPass(key: Key): void {
    this.passes++;
    const { nowMs } = this.#world.scheduler;
    const known = this.#passes.get(key);
    if (!known || nowMs - known.sinceMs > 1_000) {
      this.#passes.set(key, { sinceMs: nowMs, count: 1, newsBefore: this.#news });
      return;
    }
    known.count++;
    const unexplained = known.count - (this.#news - known.newsBefore);
    if (unexplained <= hotPasses) return;
    this.violate('no-hot-loop', `${known.count} passes over ${key} within ${nowMs - known.sinceMs} ms`);
  }

  /** An event or an answer with this domain reached an agent. */
  onDomainSeen(agent: string, launcher: SimLauncher, json: string): void {
    this.#news++;
    const reason = /"Status":"(?:Shutoff|Crashed)","Reason":"(Shutdown|Crashed|Destroyed)"/.exec(json)?.[1];
    const id = `${agent} ${launcher.options.uid}`;
    const { nowMs } = this.#world.scheduler;
    if (reason && !this.#evidence.has(id)) this.#evidence.set(id, { reason, atMs: nowMs });
    if (json.includes('"Mode":"PostCopy"') && !this.#sawPostCopy.has(id)) this.#sawPostCopy.set(id, nowMs);
    if (json.includes('"Reason":"Migrated"') && !this.#sawLeave.has(id)) this.#sawLeave.set(id, nowMs);
  }

  /** An agent said a moment ago that it has ended: nothing of it is to happen any more. */
  onSaidStopped({ clock }: SimAgent): void {
    if (clock.timers > 0) this.violate('a-stopped-agent-leaves-nothing', `${clock.timers} timers`);
  }

  /** A hook undoes what it made for a launcher. */
  onUnmount({ node }: SimAgent, { uid, pid }: Mount): void {
    const vmi = this.#world.byUid(uid);
    const launcher = [...node.launchers.values()].find(({ options }) => options.pid === pid);
    if (!vmi || !launcher?.alive || !isAlive(launcher.domain)) return;
    if (isWanted(this.#stored(vmi), launcher))
      this.violate('host-work-of-a-living-vm-stays', `${uid} was released, its guest is ${launcher.domain.status}`);
  }

  /** A while after an agent said that it has ended. */
  onStopped(agent: SimAgent): void {
    const { pending } = agent.life;
    const open = agent.connections(agent.node);
    const watches = [...this.#world.streams].filter(({ life }) => life === agent.life).length;
    const pipes = this.#world.vmis.filter(({ launcher: { notifier } }) => notifier.pipe?.agent === agent.life);
    const openPipes = pipes.filter(({ launcher: { notifier } }) => notifier.pipe?.open).length;
    if (pending + open + watches + openPipes === 0) return;
    const text = `${pending} timers or requests, ${open} connections, ${watches} watches, ${openPipes} pipes`;
    this.violate('a-stopped-agent-leaves-nothing', text);
  }

  #checkSync(agent: SimAgent, launcher: SimLauncher, syncPayload: Vmi): CallEnd {
    const id = `${launcher.options.uid} in ${launcher.options.podUid} by ${agent.life.name}`;
    if (isFinal(syncPayload)) this.violate('a-final-vmi-is-never-synced', id);
    this.#checkName(agent, launcher);
    this.#checkPlace(agent, launcher, syncPayload);
    this.#checkPrepared(agent, launcher, syncPayload);
    const { plan } = this.#world;
    const { disk } = agent.node;
    const hasTrouble = plan.faults.some(({ kind }) => diskFaults.has(kind));
    // Two agents on one node share the directory: what one of them remembered the other may have cleaned up.
    const remover = disk.removedBy.get(launcher.options.uid) ?? agent.life.name;
    if (!hasTrouble && remover === agent.life.name && !disk.files.has(launcher.options.uid))
      this.violate('a-launcher-is-remembered-before-it-is-used', id);
    const content = JSON.stringify([syncPayload.spec, syncPayload.metadata.annotations]);
    const { nowMs } = this.#world.scheduler;
    // A pause of the guest is worth one more, and late events show it anew: only its launcher knows whether it may go on.
    const { pauses } = launcher;
    const last = this.#synced.get(id);
    // A list that shows the predecessor again makes the agent begin anew; a repeated sync changes nothing.
    const isExcused = plan.faults.some(({ kind }) => kind === 'lists-are-old');
    const isSame = last?.content === content && last.pauses === pauses && pauses === 0;
    if (!isExcused && isSame && nowMs - last.atMs < startAgainMs) {
      this.violate('a-vmi-is-synced-once', `${id}, again after ${nowMs - last.atMs} ms`);
    }
    return (isDone) => {
      if (isDone) this.#synced.set(id, { content, atMs: nowMs, pauses });
    };
  }

  /** Ever more seldom until the device is there. An agent that has lost sight of the VMI begins anew. */
  #checkPlug({ life }: SimAgent, { options, plugs }: SimLauncher): void {
    const id = `${options.podUid} by ${life.name}`;
    const { nowMs } = this.#world.scheduler;
    const before = this.#plugged.get(id);
    const known = before?.plugs === plugs ? before : { plugs, count: 0, firstMs: nowMs };
    const pausesMs = Array.from({ length: known.count }, (_, at) => Math.min(600_000, 3_000 * 1.8 ** at));
    const earliestMs = pausesMs.reduce((sum, ms) => sum + ms, known.firstMs - plugStepsMs);
    const isExcused = this.#world.plan.faults.some(({ kind }) => kind === 'lists-are-old');
    if (!isExcused && nowMs < earliestMs)
      this.violate(
        'a-device-is-asked-for-ever-more-seldom',
        `${id}: call ${known.count + 1} ${Math.round(nowMs - known.firstMs)} ms after the first`,
      );
    this.#plugged.set(id, { ...known, count: known.count + 1 });
  }

  #checkPrepared({ node }: SimAgent, { options: { uid, pid } }: SimLauncher, { status }: Vmi): void {
    if (!this.#world.plan.hasHostWork || status?.phase !== 'Scheduled') return;
    const isPrepared = [...node.mounts.values()].some((mount) => mount.uid === uid && mount.pid === pid);
    if (!isPrepared) this.violate('a-guest-starts-on-prepared-ground', `${uid} was started without its host work`);
  }

  /** Two guests of one name would write to the same disks. */
  #checkName({ node, domains }: SimAgent, { options: { key, uid } }: SimLauncher): void {
    const older = this.#world.vmis.find((vmi) => vmi.key === key && vmi.uid !== uid && isAlive(vmi.launcher.domain));
    if (!older || older.launcher.options.nodeName !== node.name) return;
    // Of whom no record could be saved a new process does not know; the real one looks at the sockets of all pods (forgotten-guests.ts).
    const isReported = domains.view(key, older.uid).kind !== 'absent' || domains.ghostRecords.byUid(older.uid);
    if (!isReported) return;
    this.violate('a-successor-waits', `${uid} was synced beside the guest of ${older.uid}`);
  }

  /**
   * A sync may start a guest that has moved a second time. One that carries phase Running starts none: it is held
   * against an agent that was told that the guest has left, not against one of two whose events the other one takes.
   */
  #checkPlace({ life }: SimAgent, launcher: SimLauncher, { status }: Vmi): void {
    const { uid, podUid } = launcher.options;
    if (this.#world.byUid(uid)?.home === launcher) return;
    const sinceMs = this.#sawLeave.get(`${life.name} ${uid}`);
    const isReported = sinceMs !== undefined && this.#world.scheduler.nowMs - sinceMs > underWayMs;
    if (launcher.ended === 'migrated' && status?.phase === 'Running' && !isReported) return;
    const text = `${uid} in ${podUid} by ${life.name} was synced in phase ${status?.phase}, its guest lives elsewhere`;
    this.violate('a-guest-is-in-one-place', text);
  }

  #checkDestructive(agent: SimAgent, launcher: SimLauncher, rpc: string): void {
    const { uid } = launcher.options;
    const vmi = this.#world.byUid(uid);
    if (!vmi) return;
    const { nowMs } = this.#world.scheduler;
    const stored = this.#stored(vmi);
    if (launcher !== vmi.home) {
      this.#checkElsewhere(agent, vmi, launcher, rpc, stored);
      return;
    }
    if (launcher.alive && isWanted(stored, launcher)) {
      this.violate('no-vm-is-lost', `${rpc} was sent to ${uid}, whose VMI wants it`);
    }
    const view = agent.domains.view(vmi.key, uid);
    if (view.kind === 'unknown' && nowMs - view.sinceMs > unknownForMs) {
      this.violate('nothing-destructive-on-unknown', `${rpc} to ${uid}: ${view.reason}`);
    }
    if (rpc === 'deleteVirtualMachine' && isAlive(launcher.domain)) {
      this.violate('a-living-domain-is-not-deleted', `${uid} is ${launcher.domain.status}`);
    }
    if (rpc === 'killVirtualMachine') this.#checkGrace(vmi, stored);
  }

  /** A launcher that the guest left, or has not come to yet. */
  #checkElsewhere(
    { life }: SimAgent,
    { uid }: WorldVmi,
    launcher: SimLauncher,
    rpc: string,
    stored: Vmi | undefined,
  ): void {
    // What is left here of a guest that lost its memory half-way is of use to nobody once its VMI ends.
    const isRest = launcher.domain?.reason === 'PostcopyFailed' && !isWanted(stored, launcher);
    const toldMs = this.#sawPostCopy.get(`${life.name} ${uid}`);
    const isUnheard =
      launcher.domain?.reason === 'Postcopy' &&
      (toldMs === undefined || this.#world.scheduler.nowMs - toldMs < underWayMs);
    // Of a VMI that was removed by force nobody needs the guest that is on its way.
    if (stored && isAlive(launcher.domain) && !isRest && !isUnheard)
      this.violate('an-incoming-guest-is-left-alone', `${rpc} to ${uid}`);
    const isOwner = stored?.status?.nodeName === launcher.options.nodeName;
    const isLost = rpc === 'deleteVirtualMachine' && launcher.ended === 'migrated';
    if (isLost && isOwner && stored && !isFinal(stored)) {
      this.violate('the-source-is-kept-until-the-hand-over', `${rpc} to ${uid}`);
    }
  }

  /** Succeeded where the guest arrived, else failed with a reason. */
  #checkMigrationEnd({ uid, home }: WorldVmi, before: Vmi, after: Vmi): void {
    const state = after.status?.migrationState;
    if (!state?.completed || before.status?.migrationState?.completed) return;
    const isThere = home.options.nodeName === state.targetNode;
    const isTold = state.failed ? Boolean(state.failureReason) : isThere;
    if (!isTold)
      this.violate('a-migration-ends-as-it-did', `${uid} is on ${home.options.nodeName}: ${JSON.stringify(state)}`);
  }

  /** By the node that the guest lives on, once per migration, in all places of one write. */
  #checkHandOver(writer: string, { uid, home }: WorldVmi, before: Vmi, after: Vmi): void {
    const [from, to] = [ownerOf(before), ownerOf(after)];
    const { migrationUid = '' } = after.status?.migrationState ?? {};
    if (before.status?.migrationState?.failed)
      this.violate('a-migration-that-failed-moves-nothing', `${uid} by ${writer}`);
    const { nodeName } = home.options;
    const isTrue = to === `${nodeName} ${nodeName}` && this.#world.nodeOfAgent.get(writer) === nodeName;
    if (!isTrue || this.#movedBy.has(`${uid} ${migrationUid}`) || migrationUid === '')
      this.violate(
        'ownership-follows-the-guest',
        `${uid} by ${writer}: from ${from} to ${to}, its guest is on ${nodeName}`,
      );
    this.#movedBy.add(`${uid} ${migrationUid}`);
  }

  #checkGrace(vmi: WorldVmi, stored: Vmi | undefined): void {
    const { launcher, plan, unwantedMs } = vmi;
    if (!isAlive(launcher.domain) || (stored && isFinal(stored)) || this.#world.wallJumped) return;
    const graceMs = plan.graceSeconds * 1_000;
    const passedMs = this.#world.scheduler.nowMs - (unwantedMs ?? this.#world.scheduler.nowMs);
    if (passedMs < graceMs - 50) {
      this.violate('no-kill-before-the-grace-ends', `${vmi.uid} after ${passedMs} of ${graceMs} ms`);
    }
  }

  /** A final phase is the truth about the guest. */
  #checkFinal(writer: string, vmi: WorldVmi, phase: string): void {
    const { launcher, uid } = vmi;
    const { nowMs } = this.#world.scheduler;
    if (this.#world.migrations.some((each) => each.vmi === vmi && each.move.isLost)) {
      if (phase !== 'Failed') this.violate('the-final-phase-is-true', `${uid} became ${phase}, its memory was lost`);
      return;
    }
    if (isAlive(launcher.domain)) {
      this.violate('no-vm-is-lost', `${uid} became ${phase} and its guest is ${launcher.domain.status}`);
    }
    const hasCause = launcher.ended !== undefined || !launcher.alive;
    if (!hasCause) this.violate('no-vm-is-lost', `${uid} became ${phase} and its guest did not end`);
    const seen = this.#evidence.get(`${writer} ${uid}`);
    if (!seen || nowMs - seen.atMs < knownForMs) return;
    const isFalse = phase === 'Failed' ? seen.reason === 'Shutdown' : seen.reason === 'Crashed';
    if (isFalse) this.violate('the-final-phase-is-true', `${uid} became ${phase}, its end was ${seen.reason}`);
  }

  #stored(vmi: WorldVmi): Vmi | undefined {
    const stored = this.#world.api.get(vmi.key);
    return stored?.metadata.uid === vmi.uid ? stored : undefined;
  }
}

function isWanted(stored: Vmi | undefined, launcher: SimLauncher): boolean {
  return stored !== undefined && !isBeingDeleted(stored) && !isFinal(stored) && !launcher.marked;
}

/** What belongs to others, as text. */
function foreignPart({ metadata, spec, status }: Vmi): string {
  const { resourceVersion: _version, labels: all, annotations: notes, ...others } = metadata;
  const { [labels.nodeName]: _owner, [labels.migrationTargetNodeName]: _target, ...othersLabels } = all ?? {};
  const { [annotations.migrationRefused]: _refused, ...othersNotes } = notes ?? {};
  const { migrationUid, sourceNode, targetNode, targetPod, abortRequested } = status?.migrationState ?? {};
  const controllers = [migrationUid, sourceNode, targetNode, targetPod, abortRequested];
  return JSON.stringify([others, othersLabels, othersNotes, spec, status?.foreign, status?.activePods, controllers]);
}

/** By label and by status: one and the same. */
function ownerOf({ metadata, status }: Vmi): string {
  return `${metadata.labels?.[labels.nodeName]} ${status?.nodeName}`;
}

/** The one thing that is left to do about a VMI that ended while a node was waiting for it. */
function isLabelDropped(before: Vmi, after: Vmi): boolean {
  const bare = (vmi: Vmi) => {
    const { metadata } = structuredClone(vmi);
    delete metadata.resourceVersion;
    delete metadata.labels?.[labels.migrationTargetNodeName];
    return JSON.stringify([metadata, vmi.spec, vmi.status]);
  };
  return bare(before) === bare(after);
}
