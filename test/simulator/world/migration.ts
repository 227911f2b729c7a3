import {
  isBeingDeleted,
  isFinal,
  labels,
  type MigrationState,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import type { MigrationPlan } from '../plan.ts';
import { type MigrationMove, Move } from './migration-move.ts';
import type { SimNode } from './sim-host.ts';
import type { SimLauncher } from './sim-launcher.ts';
import type { SimWorld, WorldVmi } from './sim-world.ts';

type Vmi = VirtualMachineInstance;

const tryAgainMs = 1_000;
const tries = 15;

/** One live migration as the migration controller sees it: begun, aborted, its pods ended. */
export class Migration implements MigrationMove {
  readonly uid: string;
  readonly plan: MigrationPlan;
  readonly vmi: WorldVmi;
  readonly world: SimWorld;
  readonly source: SimLauncher;
  readonly target: SimLauncher;
  readonly move: Move;
  /** The controller has nothing more to do about it. */
  over = false;

  private constructor(uid: string, plan: MigrationPlan, world: SimWorld, vmi: WorldVmi, target: SimLauncher) {
    this.uid = uid;
    this.plan = plan;
    this.world = world;
    this.vmi = vmi;
    this.source = vmi.launcher;
    this.target = target;
    this.move = new Move(this);
  }

  /** When the guest runs and nothing else moves it; again and again for a while. */
  static begin(world: SimWorld, plan: MigrationPlan, uid: string, triesLeft = tries): void {
    const vmi = world.latest(plan.name);
    const stored = vmi && world.api.get(vmi.key);
    const other = vmi && world.nodes.find(({ name }) => name !== stored?.status?.nodeName);
    if (!vmi || !stored || !other || !isMovable(world, stored, vmi)) {
      if (triesLeft > 0)
        world.after(tryAgainMs, `migration ${uid} is wanted`, () => Migration.begin(world, plan, uid, triesLeft - 1));
      return;
    }
    const migration = new Migration(uid, plan, world, vmi, world.addLauncher(vmi, other));
    world.migrations.push(migration);
    world.after(world.chance.between(20, 1_500), `migration ${uid} is handed off`, () => migration.#handOff(other));
  }

  get state(): MigrationState | undefined {
    const stored = this.#stored();
    const state = stored?.status?.migrationState;
    return state?.migrationUid === this.uid ? state : undefined;
  }

  #handOff(to: SimNode): void {
    const stored = this.#stored();
    if (!stored || !isMovable(this.world, stored, this.vmi)) {
      this.#end();
      return;
    }
    this.world.api.change(this.vmi.key, 'controller', (vmi) => {
      vmi.metadata.labels = { ...vmi.metadata.labels, [labels.migrationTargetNodeName]: to.name };
      vmi.status = {
        ...vmi.status,
        activePods: { ...vmi.status?.activePods, [this.target.options.podUid]: to.name },
        migrationState: {
          migrationUid: this.uid,
          sourceNode: vmi.status?.nodeName ?? '',
          targetNode: to.name,
          targetPod: this.target.options.podUid,
        },
      };
    });
    this.#doom();
    this.#look();
  }

  /** What the plan has for it besides a good end. */
  #doom(): void {
    const { world, plan } = this;
    if (plan.fate === 'succeeds' || plan.fate === 'breaks') return;
    world.after(plan.fateMs, `migration ${this.uid}: ${plan.fate}`, () => {
      if (plan.fate === 'target-dies' && this.vmi.launcher !== this.target) this.target.exit();
      if (plan.fate === 'aborted' && this.state && !this.state.endTimestamp) {
        world.api.change(this.vmi.key, 'controller', ({ status }) => {
          Object.assign(status?.migrationState ?? {}, { abortRequested: true });
        });
      }
    });
  }

  /** The controller looks at it again and again until it is over. */
  #look(): void {
    const { world } = this;
    const stored = this.#stored();
    const { state } = this;
    if (!stored || !state || isFinal(stored) || state.completed || state.failed) {
      this.#end();
      return;
    }
    if (!this.target.alive && !state.startTimestamp) this.#markFailed('Target pod is down');
    world.after(world.chance.between(200, 3_000), `controller looks at ${this.uid}`, () => this.#look());
  }

  #markFailed(failureReason: string): void {
    const now = new Date(this.world.wall.epochMs + this.world.scheduler.nowMs).toISOString();
    this.world.api.change(this.vmi.key, 'controller', ({ status }) => {
      const { migrationState: state } = status ?? {};
      if (!state) return;
      Object.assign(state, { failed: true, completed: true, failureReason, endTimestamp: now });
      state.startTimestamp ??= now;
    });
  }

  /** The pod that the guest does not live in is deleted. */
  #end(): void {
    this.over = true;
    const { world, vmi } = this;
    const stored = this.#stored();
    const isAtTarget = stored?.status?.nodeName === this.target.options.nodeName;
    const empty = isAtTarget ? this.source : this.target;
    world.after(world.chance.between(100, 4_000), `the empty pod of ${vmi.uid} is deleted`, () => {
      if (vmi.launcher !== empty) world.endLauncher(empty);
    });
  }

  #stored(): Vmi | undefined {
    const stored = this.world.api.get(this.vmi.key);
    return stored?.metadata.uid === this.vmi.uid ? stored : undefined;
  }
}

function isMovable(world: SimWorld, stored: Vmi, vmi: WorldVmi): boolean {
  const { migrationState: state, phase } = stored.status ?? {};
  const isBusy = state !== undefined && !state.completed && !state.failed;
  const hasLabel = Boolean(stored.metadata.labels?.[labels.migrationTargetNodeName]);
  const isOthers = world.migrations.some((each) => each.vmi === vmi && !each.over && each.state !== undefined);
  if (phase !== 'Running' || isBusy || hasLabel || isOthers || isBeingDeleted(stored)) return false;
  return (
    stored.metadata.uid === vmi.uid &&
    vmi.launcher.alive &&
    !vmi.launcher.marked &&
    vmi.launchers.filter(({ alive }) => alive).length <= 2
  );
}
