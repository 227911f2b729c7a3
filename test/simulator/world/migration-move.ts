import type { MigrationMetadata } from '../../../src/api/index.ts';
import { isAlive } from '../../fixtures/domain-rules.ts';
import { noMigration } from '../../fixtures/no-migration.ts';
import { type MigrationPlan, progressMs, resumeMs } from '../plan.ts';
import { Refusal, type SimLauncher } from './sim-launcher.ts';
import type { SimWorld, WorldVmi } from './sim-world.ts';

export interface MigrationMove {
  readonly uid: string;
  readonly plan: MigrationPlan;
  readonly world: SimWorld;
  readonly vmi: WorldVmi;
  readonly source: SimLauncher;
  readonly target: SimLauncher;
}

/** A stream that broke is noticed within this. */
const sliceMs = 400;

/** How libvirt moves the guest from one launcher to the other, and what both note about it. */
export class Move {
  readonly #of: MigrationMove;
  /** Before the last moment. */
  #was: 'Paused' | 'Running' = 'Running';
  #leftMs: number;
  /** Memory that follows a guest which runs at the target already. */
  #behindMs: number;
  #phase: 'not begun' | 'copies' | 'switches' | 'post-copy' | 'broken' | 'resumes' | 'over' = 'not begun';
  #brokenMs = 0;
  #standsMs = 0;

  constructor(of: MigrationMove) {
    this.#of = of;
    this.#leftMs = of.plan.copyMs;
    this.#behindMs = of.plan.postCopyMs ?? 0;
  }

  /** Half of its memory is here and half of it there, and nobody brings it together any more. */
  get isLost(): boolean {
    const { world, source, target } = this.#of;
    const isBroken = this.#phase === 'broken' || this.#phase === 'resumes';
    if (!isBroken && this.#phase !== 'post-copy') return false;
    const isHalfGone = !isAlive(source.domain) || !isAlive(target.domain);
    // What is back in half of the time leaves the other half to resume it.
    const isLongLoss = world.plan.faults.some(({ forMs }) => forMs > resumeMs / 2);
    return isHalfGone || (isBroken && isLongLoss && world.scheduler.nowMs - this.#brokenMs >= resumeMs);
  }

  /** Its streams are frozen, and the guest runs at the target with a part of its memory. */
  get standsInPostCopy(): boolean {
    return (this.#phase === 'post-copy' || this.#phase === 'resumes') && this.#isFrozen();
  }

  /** MigrateVirtualMachine. Throws Refusal. */
  begin(): void {
    const { source, uid, world } = this.#of;
    const { domain } = source;
    if (!isAlive(domain)) throw new Refusal('the domain does not run');
    if (this.#phase === 'broken' && domain.reason === 'PostcopyFailed') {
      this.#phase = 'resumes';
      this.#later(world.chance.between(5, 300), () => this.#resume());
      return;
    }
    if (domain.migration?.UID === uid) {
      if (domain.migration.EndTimestamp) throw new Refusal(`migration job ${uid} already executed`);
      return;
    }
    domain.sriov = false;
    this.#note(source, { ...noMigration, UID: uid, StartTimestamp: this.#now(), Mode: 'PreCopy', Resumable: true });
    this.#phase = 'copies';
    this.#later(world.chance.between(5, 300), () => this.#connect());
  }

  /** CancelVirtualMachineMigration: always a success, and nothing where there is no way back. */
  cancel(): void {
    const { source } = this.#of;
    const notes = source.domain?.migration;
    if (!notes?.StartTimestamp || notes.EndTimestamp || notes.AbortStatus === 'Aborting') return;
    if (this.#behindMs > 0 && this.#phase !== 'copies') return;
    this.#note(source, { AbortStatus: 'Aborting' });
    this.#later(this.#of.world.chance.between(1, 500), () => {
      if (this.#phase === 'copies') this.#fail('Live migration has been aborted', { AbortStatus: 'Succeeded' });
      else this.#note(source, { AbortStatus: 'Failed' });
    });
  }

  #connect(): void {
    const { source, target, uid, world } = this.#of;
    if (this.#phase !== 'copies') return;
    if (!this.#isConnected() || target.preparedFor !== uid) {
      this.#fail('unable to connect to server');
      return;
    }
    if (this.#stands(() => this.#connect())) return;
    target.domain = {
      status: 'Paused',
      reason: 'Migration',
      graceSeconds: source.options.graceSeconds,
      shutdownAt: null,
      migration: { ...noMigration, UID: uid, StartTimestamp: this.#now(), Mode: 'PreCopy' },
      sriov: false,
    };
    target.publish('ADDED');
    world.note(`${uid} is on its way`);
    this.#copy();
  }

  #copy(): void {
    const { source, plan, world } = this.#of;
    if (this.#phase !== 'copies') return;
    const broken = this.#brokenBy();
    const isDoomed = plan.fate === 'breaks' && plan.copyMs - this.#leftMs >= plan.fateMs;
    if (broken !== undefined || isDoomed || !isAlive(source.domain)) {
      this.#fail(broken ?? 'QEMU gave up');
      return;
    }
    if (this.#stands(() => this.#copy())) return;
    if (this.#leftMs > 0) {
      const passedMs = Math.min(sliceMs, this.#leftMs);
      this.#leftMs -= passedMs;
      this.#later(passedMs, () => this.#copy());
      return;
    }
    this.#phase = 'switches';
    this.#was = source.domain.status === 'Paused' ? 'Paused' : 'Running';
    source.become('Paused', 'Migration');
    this.#later(world.chance.between(1, 300), () => (this.#behindMs > 0 ? this.#switchEarly() : this.#switch()));
  }

  /** The one moment: before it the guest is here, after it there. */
  #switch(): void {
    const { source } = this.#of;
    if (this.#phase !== 'switches') return;
    const broken = this.#brokenBy();
    if (broken !== undefined) {
      this.#fail(broken);
      return;
    }
    if (this.#stands(() => this.#switch())) return;
    this.#phase = 'over';
    source.leave();
    this.#goOnThere();
    this.#end();
  }

  /** The guest goes on there with a part of its memory. */
  #switchEarly(): void {
    const { source, target } = this.#of;
    if (this.#phase !== 'switches') return;
    const broken = this.#brokenBy();
    if (broken === undefined && this.#stands(() => this.#switchEarly())) return;
    // A guest that its user has paused does not run there either: it is moved as a whole.
    if (broken !== undefined || this.#was === 'Paused') {
      this.#behindMs = 0;
      this.#switch();
      return;
    }
    this.#phase = 'post-copy';
    this.#note(source, { Mode: 'PostCopy' });
    source.become('Paused', 'Postcopy');
    this.#note(target, { Mode: 'PostCopy' });
    this.#goOnThere();
    this.#follow();
  }

  #goOnThere(): void {
    const { target, vmi, world } = this.#of;
    vmi.home = target;
    target.become(this.#was, this.#was === 'Paused' ? 'User' : 'Unknown');
    target.everStarted = true;
    world.note(`${vmi.uid} lives on ${target.options.nodeName} now`);
  }

  /** The rest of the memory comes. */
  #follow(): void {
    const { source } = this.#of;
    if (this.#phase !== 'post-copy') return;
    if (this.#brokenBy() !== undefined) {
      this.#break();
      return;
    }
    if (this.#stands(() => this.#follow())) return;
    if (this.#behindMs > 0) {
      const passedMs = Math.min(sliceMs, this.#behindMs);
      this.#behindMs -= passedMs;
      this.#later(passedMs, () => this.#follow());
      return;
    }
    this.#phase = 'over';
    source.leave();
    this.#end();
  }

  /** QEMU waits on both nodes. A launcher tells it when it has its daemon. */
  #break(): void {
    const { source, target, world } = this.#of;
    if (this.#phase !== 'resumes') this.#brokenMs = world.scheduler.nowMs;
    this.#phase = 'broken';
    this.#whenAsked(source, () => {
      if (this.#phase === 'broken' && isAlive(source.domain)) source.become('Paused', 'PostcopyFailed');
    });
    this.#whenAsked(target, () => {
      if (this.#phase === 'broken') this.#note(target, { FailureReason: 'post-copy broke' });
    });
  }

  #resume(): void {
    const { source, target } = this.#of;
    if (this.#phase !== 'resumes') return;
    if (this.#brokenBy() !== undefined) {
      this.#break();
      return;
    }
    if (this.#stands(() => this.#resume())) return;
    this.#phase = 'post-copy';
    source.become('Paused', 'Postcopy');
    this.#note(target, { FailureReason: '' });
    this.#follow();
  }

  #end(): void {
    const { source, target, world } = this.#of;
    this.#later(world.chance.between(0, 200), () => this.#note(source, { EndTimestamp: this.#now() }));
    this.#later(world.chance.between(50, 4_000), () => this.#note(target, { EndTimestamp: this.#now() }));
  }

  #brokenBy(): string | undefined {
    const { source, target } = this.#of;
    if (!isAlive(source.domain)) return 'the guest ended on its way';
    if (!source.hasLibvirt || !target.hasLibvirt) return 'libvirt does not answer';
    return this.#isConnected() && isAlive(target.domain) ? undefined : 'the connection was reset';
  }

  /** Nothing moves, and neither end is told. Before the switch the launcher looks at the clock; after it nobody here does. */
  #stands(goOn: () => void): boolean {
    if (!this.#isFrozen()) {
      this.#standsMs = 0;
      return false;
    }
    this.#standsMs += sliceMs;
    const isBefore = this.#phase === 'copies' || this.#phase === 'switches';
    if (isBefore && this.#standsMs > progressMs) this.#fail(`no data has moved for ${progressMs / 1_000} s`);
    else this.#later(sliceMs, goOn);
    return true;
  }

  #isFrozen(): boolean {
    const { world, vmi, source, target } = this.#of;
    const isFrozen = (launcher: SimLauncher, side: 'source' | 'target') =>
      world
        .agentsOf(launcher.options.nodeName)
        .some(({ migrationProxies }) => migrationProxies.isFrozen(side, vmi.uid));
    return isFrozen(source, 'source') || isFrozen(target, 'target');
  }

  /** The source goes on, if its guest lives; what came to the target goes. */
  #fail(reason: string, more: Partial<MigrationMetadata> = {}): void {
    const { source, target } = this.#of;
    this.#phase = 'over';
    this.#whenAsked(target, () => {
      if (!target.domain) return;
      target.domain = undefined;
      target.publish('MODIFIED');
    });
    this.#whenAsked(source, () => {
      this.#note(source, { Failed: true, FailureReason: reason, EndTimestamp: this.#now(), ...more });
      const isPausedByThis = source.domain?.status === 'Paused' && source.domain.reason === 'Migration';
      if (isPausedByThis) source.become(this.#was, this.#was === 'Paused' ? 'User' : 'Unknown');
    });
  }

  /** At once, or when its daemon is back. */
  #whenAsked(launcher: SimLauncher, tell: () => void): void {
    if (launcher.hasLibvirt) tell();
    else this.#later(launcher.libvirtBackInMs + 1, () => this.#whenAsked(launcher, tell));
  }

  #isConnected(): boolean {
    const { world, vmi, source, target } = this.#of;
    if (!source.alive || !target.alive) return false;
    const from = world
      .agentsOf(source.options.nodeName)
      .find(({ migrationProxies }) => migrationProxies.hasSource(vmi.uid));
    const proxy = from?.migrationProxies.sourceOf(vmi.uid);
    if (!proxy || from?.migrationProxies.areCut) return false;
    const listens = world.agentsOf(target.options.nodeName).some(({ migrationProxies }) => {
      const open = migrationProxies.targetPorts(vmi.uid);
      return (
        !migrationProxies.areCut &&
        open &&
        migrationProxies.address === proxy.address &&
        Object.keys(proxy.ports).every((port) => port in open)
      );
    });
    return listens;
  }

  #note(launcher: SimLauncher, more: Partial<MigrationMetadata>): void {
    const { domain } = launcher;
    if (!launcher.alive || !domain) return;
    domain.migration = { ...noMigration, ...domain.migration, ...more };
    launcher.publish('MODIFIED');
  }

  #later(ms: number, run: () => void): void {
    this.#of.world.after(ms, `migration ${this.#of.uid}`, run);
  }

  #now(): string {
    const { wall, scheduler } = this.#of.world;
    return `${new Date(wall.epochMs + scheduler.nowMs).toISOString().slice(0, 19)}Z`;
  }
}
